// Charts of profiles and factors, drawn by Observable Plot: shares, with their intervals behind them.

import { ACCENT, FAINT_INK, INK, SERIES, SYMBOLS, axisMargin, base, cut, tipStyle } from "./chart_style.js";
import { FAINT, momentOf } from "./model.js";
import { interval, percent } from "./numbers.js";

export const RANKED = 12;
const LEAST_RANKED = 0.005;
const WHISKER = { strokeWidth: 8, strokeOpacity: 0.28 };
const BAND_OPACITY = 0.22;
const MOST_BANDS = 3; // more bands over one another cannot be told apart
const APART = 6; // pixels between the points of two classes on one line

const told = (element) => `${element.label}  ${percent(element.share)}${interval(element)}`;
const spoken = (element) => `${element.label} ${percent(element.share)}${interval(element)}`;
const highest = (element) => Math.max(element.share, element.high ?? 0);

// What charts with one line for each label have in common: the labels down the left side, and room for them.
const labelled = (labels, width) => ({
  ...base(width),
  marginLeft: Math.min(axisMargin(labels), width / 2),
  marginTop: 4,
  y: { label: null, domain: labels, tickSize: 0, tickFormat: (label) => cut(label) },
});

// The heaviest labels of a profile as stems, heaviest on top, with whiskers behind them.
export function ranked(profile, most = RANKED) {
  const elements = profile
    .heaviest()
    .slice(0, most)
    .filter((element, rank) => element.share > (rank ? LEAST_RANKED : 0));
  const labels = elements.map((element) => element.label);
  return (width) =>
    Plot.plot({
      ...labelled(labels, width),
      height: 21 * elements.length + 12,
      marginRight: 48,
      marginBottom: 8,
      x: { axis: null, domain: [0, d3.max(elements, highest)] },
      marks: [
        profile.hasIntervals
          ? Plot.ruleY(elements, {
              x1: "low",
              x2: "high",
              y: "label",
              stroke: ACCENT,
              ...WHISKER,
              className: "whiskers",
            })
          : null,
        Plot.ruleY(elements, { x1: 0, x2: "share", y: "label", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(elements, { x: "share", y: "label", fill: ACCENT, r: 4, ariaLabel: spoken }),
        Plot.text(elements, {
          x: highest,
          y: "label",
          text: (d) => percent(d.share),
          dx: 9,
          textAnchor: "start",
          fill: INK,
        }),
        Plot.ruleX([0], { stroke: FAINT_INK }),
        Plot.tip(elements, Plot.pointerY({ x: "share", y: "label", title: told, ...tipStyle })),
      ],
    });
}

// All labels of a profile in their original order, as in the paper; stems below the threshold are grey.
export function fingerprint(profile) {
  const elements = profile.inOrder().filter((element) => element.share > 0);
  const threshold = Math.max(0.1 * profile.heaviest()[0].share, FAINT);
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 74,
      marginLeft: 6,
      marginRight: 6,
      marginTop: 6,
      marginBottom: 6,
      x: { axis: null, domain: [-1, profile.mode.labels.length] },
      y: { axis: null },
      marks: [
        Plot.ruleX(elements, {
          x: "row",
          y1: 0,
          y2: "share",
          stroke: (d) => (d.share >= threshold ? ACCENT : FAINT_INK),
          strokeWidth: Math.max(1, Math.min(3, (0.7 * width) / profile.mode.labels.length)),
        }),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(elements, Plot.pointerX({ x: "row", y: "share", title: told, ...tipStyle })),
      ],
    });
}

// Labels that have an order but are no dates, such as weekdays: all of them as stems.
export function ordered(profile) {
  const elements = profile.inOrder();
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 190,
      marginLeft: 40,
      marginBottom: 50,
      x: {
        label: null,
        domain: profile.mode.labels,
        tickRotate: profile.mode.labels.length * 42 > width ? -45 : 0,
        tickFormat: (label) => cut(label, 8),
      },
      y: { label: null, tickFormat: "%", ticks: 4, grid: true, zero: true },
      marks: [
        profile.hasIntervals
          ? Plot.ruleX(elements, {
              x: "label",
              y1: "low",
              y2: "high",
              stroke: ACCENT,
              ...WHISKER,
              className: "whiskers",
            })
          : null,
        Plot.ruleX(elements, { x: "label", y1: 0, y2: "share", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(elements, { x: "label", y: "share", fill: ACCENT, r: 4, ariaLabel: spoken }),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(elements, Plot.pointerX({ x: "label", y: "share", title: told, ...tipStyle })),
      ],
    });
}

// Profiles over time, with bands behind the lines; a dashed line marks the even share.
export function series(named) {
  const points = named.flatMap(({ name, profile }, turn) =>
    profile.inOrder().map((element) => ({ ...element, name, turn, moment: momentOf(element.label) })),
  );
  const even = 1 / named[0].profile.mode.length;
  const single = named.length === 1;
  const colour = single ? ACCENT : (d) => SERIES[d.turn];
  const band = { x: "moment", fill: colour, fillOpacity: single ? BAND_OPACITY : BAND_OPACITY / 2, z: "name" };
  return (width) =>
    Plot.plot({
      ...base(width),
      height: single ? 190 : 230,
      marginLeft: 44,
      marginRight: 12,
      x: { type: "utc", label: null, ticks: Math.max(3, Math.min(8, width / 90)) },
      y: {
        label: null,
        tickFormat: (value) => percent(value, value < 0.01 && value > 0 ? 1 : 0),
        ticks: 4,
        grid: true,
        zero: true,
      },
      marks: [
        Plot.ruleY([even], { stroke: FAINT_INK, strokeDasharray: "3,3" }),
        named[0].profile.hasIntervals && named.length <= MOST_BANDS
          ? Plot.areaY(points, { ...band, y1: "low", y2: "high", className: "band" })
          : null,
        Plot.lineY(points, {
          x: "moment",
          y: "share",
          z: "name",
          stroke: colour,
          strokeWidth: 1.8,
        }),
        single && points.length <= 200 ? Plot.dot(points, { x: "moment", y: "share", fill: ACCENT, r: 1.8 }) : null,
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(
          points,
          Plot.pointer({
            x: "moment",
            y: "share",
            title: (d) => `${single ? "" : `${d.name}  `}${told(d)}`,
            ...tipStyle,
          }),
        ),
      ],
    });
}

// The heaviest labels of several profiles, side by side: on each line the points of the classes, one below another.
export function sideBySide(named, most = 7) {
  const labels = [...new Set(named.flatMap(({ profile }) => profile.top(most).map((element) => element.label)))];
  const wanted = new Set(labels);
  const order = labelOrder(labels, named[0].profile.mode);
  return (width) =>
    Plot.plot({
      ...labelled(order, width),
      height: (16 + APART * named.length) * labels.length + 34,
      marginRight: 20,
      marginBottom: 28,
      x: { label: null, tickFormat: "%", ticks: 5, grid: true, zero: true },
      marks: [
        Plot.ruleY(order, { y: (label) => label, stroke: FAINT_INK, strokeOpacity: 0.35 }),
        named.map((one, turn) => comparedMarks(one, wanted, turn, APART * (turn - (named.length - 1) / 2))),
      ],
    });
}

function comparedMarks({ name, profile }, wanted, turn, dy) {
  const points = profile.inOrder().filter((element) => wanted.has(element.label));
  const title = (element) => `${name}  ${told(element)}`;
  const whisker = { y: "label", dy, stroke: SERIES[turn], ...WHISKER, strokeWidth: APART - 1, className: "whiskers" };
  return [
    profile.hasIntervals ? Plot.ruleY(points, { x1: "low", x2: "high", ...whisker }) : null,
    Plot.dot(points, { x: "share", y: "label", dy, fill: SERIES[turn], symbol: SYMBOLS[turn], r: 4.5 }),
    Plot.tip(points, Plot.pointer({ x: "share", y: "label", dy, title, maxRadius: 8, ...tipStyle })),
  ];
}

// Labels that have an order keep it; others stay ranked by their shares.
function labelOrder(labels, mode) {
  if (mode.kind !== "order" && mode.kind !== "time") return labels;
  return mode.labels.filter((label) => labels.includes(label));
}

// A small chart over time without axes, for lists and tables.
export function sparkline(profile, width = 110, height = 24) {
  const shares = profile.inOrder().map((element) => element.share);
  const most = Math.max(...shares) || 1;
  const step = width / Math.max(1, shares.length - 1);
  const points = shares.map(
    (share, n) => `${(n * step).toFixed(1)},${(height - 1 - (height - 3) * (share / most)).toFixed(1)}`,
  );
  const svg = d3
    .create("svg")
    .attr("class", "spark")
    .attr("width", width)
    .attr("height", height)
    .attr("aria-hidden", "true");
  svg.append("path").attr("d", `M0,${height} L${points.join(" L")} L${width},${height} Z`);
  return svg.node();
}
