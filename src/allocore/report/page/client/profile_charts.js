// Charts of profiles and factors, drawn by Observable Plot: shares, with their intervals behind them.

import {
  ACCENT,
  FAINT_INK,
  INK,
  ROOM_BELOW,
  SERIES,
  SYMBOLS,
  axisMargin,
  base,
  cut,
  tipStyle,
  titleBelow,
} from "./chart_style.js";
import { FAINT, inWords } from "./model.js";
import { interval, percent } from "./numbers.js";

export const RANKED = 12;
const LEAST_RANKED = 0.005;
const WHISKER = { strokeWidth: 8, strokeOpacity: 0.28 };
const BAND_OPACITY = 0.22;
const MOST_BANDS = 3; // readers cannot tell more bands over one another apart
const MOST_WHOLE = 24; // labels with an order that are all shown
const CLOSE = 0.01; // of the height of the chart: two pixels
const APART = 6; // pixels between the points of two classes on one line

// An element of a profile in words: for tips, and for screen readers.
const saying = (mode, between) => (element) =>
  `${inWords(mode, element.label)}${between}${percent(element.share)}${interval(element)}`;
const tipText = ({ mode }) => saying(mode, "  ");
const spokenText = ({ mode }) => saying(mode, " ");
const highest = (element) => Math.max(element.share, element.high ?? 0);

// What charts with one line for each label have in common: the labels down the left side, and room for them.
const labelled = (mode, labels, width) => ({
  ...base(width),
  marginLeft: Math.min(axisMargin(labels.map((label) => inWords(mode, label))), width / 2),
  marginTop: 4,
  y: { label: null, domain: labels, tickSize: 0, tickFormat: (label) => cut(inWords(mode, label)) },
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
      ...labelled(profile.mode, labels, width),
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
        Plot.dot(elements, { x: "share", y: "label", fill: ACCENT, r: 4, ariaLabel: spokenText(profile) }),
        Plot.text(elements, {
          x: highest,
          y: "label",
          text: (d) => percent(d.share),
          dx: 9,
          textAnchor: "start",
          fill: INK,
        }),
        Plot.ruleX([0], { stroke: FAINT_INK }),
        Plot.tip(elements, Plot.pointerY({ x: "share", y: "label", title: tipText(profile), ...tipStyle })),
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
        Plot.tip(elements, Plot.pointerX({ x: "row", y: "share", title: tipText(profile), ...tipStyle })),
      ],
    });
}

// Labels that have an order but are no dates, such as weekdays: all of them as stems.
export function ordered(profile) {
  const elements = profile.inOrder();
  const isTight = (width) => profile.mode.labels.length * 42 > width;
  return (width) =>
    Plot.plot({
      ...base(width),
      height: isTight(width) ? 190 : 166,
      marginTop: 10,
      marginLeft: 40,
      marginBottom: isTight(width) ? 50 : 26,
      x: {
        label: null,
        domain: profile.mode.labels,
        tickRotate: isTight(width) ? -45 : 0,
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
        Plot.dot(elements, { x: "label", y: "share", fill: ACCENT, r: 4, ariaLabel: spokenText(profile) }),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(elements, Plot.pointerX({ x: "label", y: "share", title: tipText(profile), ...tipStyle })),
      ],
    });
}

// Profiles over time, with bands behind the lines; a dotted line marks the even share. A line that another one would
// cover is drawn with gaps through which the other can be seen.
export function series(named) {
  const points = named.flatMap(({ name, profile }, turn) =>
    profile.inOrder().map((element) => ({ ...element, name, turn, moment: profile.mode.starts[element.row] })),
  );
  const { mode } = named[0].profile;
  const even = 1 / mode.length;
  const covering = (turn) => named.slice(0, turn).some((before) => sameLine(before.profile, named[turn].profile));
  const single = named.length === 1;
  const colour = single ? ACCENT : (d) => SERIES[d.turn];
  const band = { x: "moment", fill: colour, fillOpacity: single ? BAND_OPACITY : BAND_OPACITY / 2, z: "name" };
  return (width) =>
    Plot.plot({
      ...base(width),
      height: single ? 190 : 230,
      marginTop: 10,
      marginLeft: 44,
      marginRight: 12,
      marginBottom: 36,
      x: { type: "utc", label: null, ticks: Math.max(3, Math.min(8, width / 90)) },
      y: {
        label: null,
        tickFormat: (value) => percent(value, value < 0.01 && value > 0 ? 1 : 0),
        ticks: 4,
        grid: true,
        zero: true,
      },
      marks: [
        Plot.ruleY([even], { stroke: FAINT_INK, strokeWidth: 1.5, strokeDasharray: "1.5,3" }),
        named[0].profile.hasIntervals && named.length <= MOST_BANDS
          ? Plot.areaY(points, { ...band, y1: "low", y2: "high", className: "band" })
          : null,
        d3
          .groups(points, (d) => d.turn)
          .map(([turn, line]) =>
            Plot.lineY(line, {
              x: "moment",
              y: "share",
              stroke: single ? ACCENT : SERIES[turn],
              strokeWidth: 1.8,
              strokeDasharray: covering(turn) ? "6 6" : null,
            }),
          ),
        single && points.length <= 200 ? Plot.dot(points, { x: "moment", y: "share", fill: ACCENT, r: 1.8 }) : null,
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(
          points,
          Plot.pointer({
            x: "moment",
            y: "share",
            title: (d) => `${single ? "" : `${d.name}  `}${saying(mode, "  ")(d)}`,
            ...tipStyle,
          }),
        ),
      ],
    });
}

// The heaviest labels of several profiles, side by side: on each line the points of the classes, one below another.
export function sideBySide(named, most = 7) {
  const { mode } = named[0].profile;
  const heaviest = [...new Set(named.flatMap(({ profile }) => profile.top(most).map((element) => element.label)))];
  const order = labelOrder(heaviest, mode);
  const wanted = new Set(order);
  return (width) =>
    Plot.plot({
      ...labelled(mode, order, width),
      height: (16 + APART * named.length) * order.length + ROOM_BELOW + 6,
      marginRight: 20,
      marginBottom: ROOM_BELOW,
      x: { ...titleBelow("share of the class"), tickFormat: "%", ticks: 5, grid: true, zero: true },
      marks: [
        Plot.ruleY(order, { y: (label) => label, stroke: FAINT_INK, strokeOpacity: 0.35 }),
        named.map((one, turn) => comparedMarks(one, wanted, turn, APART * (turn - (named.length - 1) / 2))),
      ],
    });
}

function comparedMarks({ name, profile }, wanted, turn, dy) {
  const points = profile.inOrder().filter((element) => wanted.has(element.label));
  const title = (element) => `${name}  ${tipText(profile)(element)}`;
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
  if (mode.labels.length <= MOST_WHOLE) return mode.labels; // a month that is left out looks like a mistake
  return mode.labels.filter((label) => labels.includes(label));
}

// Whether two profiles are so close everywhere that their lines cannot be told apart.
export function sameLine(one, other) {
  const [ours, theirs] = [one, other].map((profile) => profile.inOrder().map((element) => element.share));
  const most = Math.max(...ours, ...theirs);
  return ours.every((share, n) => Math.abs(share - theirs[n]) <= CLOSE * most);
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
