// Charts of factors, drawn by Observable Plot.

import { ACCENT, FAINT_INK, INK, SERIES, SYMBOLS, axisMargin, base, cut, tipStyle } from "./chart_style.js";
import { FAINT, momentOf } from "./model.js";
import { percent } from "./numbers.js";

export const RANKED = 12;
const LEAST_RANKED = 0.005;

// What charts with one line for each label have in common: the labels down the left side, and room for them.
const labelled = (labels, width) => ({
  ...base(width),
  marginLeft: Math.min(axisMargin(labels), width / 2),
  marginTop: 4,
  y: { label: null, domain: labels, tickSize: 0, tickFormat: (label) => cut(label) },
});

// The heaviest labels of a factor as stems, heaviest on top.
export function ranked(factor, most = RANKED) {
  const elements = factor
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
      x: { axis: null, domain: [0, elements[0].share] },
      marks: [
        Plot.ruleY(elements, { x1: 0, x2: "share", y: "label", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(elements, {
          x: "share",
          y: "label",
          fill: ACCENT,
          r: 4,
          ariaLabel: (d) => `${d.label} ${percent(d.share)}`,
        }),
        Plot.text(elements, {
          x: "share",
          y: "label",
          text: (d) => percent(d.share),
          dx: 9,
          textAnchor: "start",
          fill: INK,
        }),
        Plot.ruleX([0], { stroke: FAINT_INK }),
      ],
    });
}

// All labels of a factor in their original order, as in the paper; stems below the threshold are grey.
export function fingerprint(factor) {
  const elements = factor.inOrder().filter((element) => element.share > 0);
  const threshold = Math.max(0.1 * factor.heaviest()[0].share, FAINT);
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 74,
      marginLeft: 6,
      marginRight: 6,
      marginTop: 6,
      marginBottom: 6,
      x: { axis: null, domain: [-1, factor.mode.labels.length] },
      y: { axis: null },
      marks: [
        Plot.ruleX(elements, {
          x: "row",
          y1: 0,
          y2: "share",
          stroke: (d) => (d.share >= threshold ? ACCENT : FAINT_INK),
          strokeWidth: Math.max(1, Math.min(3, (0.7 * width) / factor.mode.labels.length)),
        }),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(
          elements,
          Plot.pointerX({ x: "row", y: "share", title: (d) => `${d.label}  ${percent(d.share)}`, ...tipStyle }),
        ),
      ],
    });
}

// Labels that have an order but are no dates, such as weekdays: all of them as stems.
export function ordered(factor) {
  const elements = factor.inOrder();
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 190,
      marginLeft: 40,
      marginBottom: 50,
      x: {
        label: null,
        domain: factor.mode.labels,
        tickRotate: factor.mode.labels.length * 42 > width ? -45 : 0,
        tickFormat: (label) => cut(label, 8),
      },
      y: { label: null, tickFormat: "%", ticks: 4, grid: true, zero: true },
      marks: [
        Plot.ruleX(elements, { x: "label", y1: 0, y2: "share", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(elements, {
          x: "label",
          y: "share",
          fill: ACCENT,
          r: 4,
          ariaLabel: (d) => `${d.label} ${percent(d.share)}`,
        }),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(
          elements,
          Plot.pointerX({ x: "label", y: "share", title: (d) => `${d.label}  ${percent(d.share)}`, ...tipStyle }),
        ),
      ],
    });
}

// Factors over time; a dashed line marks the even share.
export function series(named) {
  const points = named.flatMap(({ name, factor }, turn) =>
    factor.inOrder().map((element) => ({ ...element, name, turn, moment: momentOf(element.label) })),
  );
  const even = 1 / named[0].factor.mode.length;
  const single = named.length === 1;
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
        single ? Plot.areaY(points, { x: "moment", y: "share", fill: ACCENT, fillOpacity: 0.15 }) : null,
        Plot.lineY(points, {
          x: "moment",
          y: "share",
          z: "name",
          stroke: single ? ACCENT : (d) => SERIES[d.turn],
          strokeWidth: 1.8,
        }),
        single && points.length <= 200 ? Plot.dot(points, { x: "moment", y: "share", fill: ACCENT, r: 1.8 }) : null,
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(
          points,
          Plot.pointer({
            x: "moment",
            y: "share",
            title: (d) => `${single ? "" : `${d.name}  `}${d.label}  ${percent(d.share)}`,
            ...tipStyle,
          }),
        ),
      ],
    });
}

// The heaviest labels of several factors, side by side.
export function sideBySide(named, most = 7) {
  const labels = [...new Set(named.flatMap(({ factor }) => factor.top(most).map((element) => element.label)))];
  const wanted = new Map(labels.map((label, place) => [label, place]));
  const points = named.flatMap(({ name, factor }, turn) =>
    factor
      .inOrder()
      .filter((element) => wanted.has(element.label))
      .map((element) => ({ ...element, name, turn })),
  );
  const order = factorOrder(labels, named[0].factor.mode);
  return (width) =>
    Plot.plot({
      ...labelled(order, width),
      height: 22 * labels.length + 34,
      marginRight: 20,
      marginBottom: 28,
      x: { label: null, tickFormat: "%", ticks: 5, grid: true, zero: true },
      symbol: { range: SYMBOLS },
      marks: [
        Plot.ruleY(order, { y: (label) => label, stroke: FAINT_INK, strokeOpacity: 0.35 }),
        Plot.dot(points, {
          x: "share",
          y: "label",
          fill: (d) => SERIES[d.turn],
          symbol: "name",
          r: 5,
          fillOpacity: 0.9,
        }),
        Plot.tip(
          points,
          Plot.pointer({
            x: "share",
            y: "label",
            title: (d) => `${d.name}  ${d.label}  ${percent(d.share)}`,
            ...tipStyle,
          }),
        ),
      ],
    });
}

// Labels that have an order keep it; others stay ranked by their shares.
function factorOrder(labels, mode) {
  if (mode.kind !== "order" && mode.kind !== "time") return labels;
  return mode.labels.filter((label) => labels.includes(label));
}

// A small chart over time without axes, for lists and tables.
export function sparkline(factor, width = 110, height = 24) {
  const shares = factor.inOrder().map((element) => element.share);
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
