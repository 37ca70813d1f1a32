// Charts of the whole run: how much the classes hold, the chains, and the core.

import { ACCENT, FAINT_INK, INK, SERIES, base, dashOf, tipStyle } from "./chart_style.js";
import { classes, given, modes } from "./model.js";
import { percent, plural } from "./numbers.js";

const massText = ({ number, held }) => `${plural(number, "class", "classes")}: ${percent(held, 0)}`;
// The text of a point in the right half stands to its left, or it would leave the panel.
const inLeftHalf = ({ number }) => number <= classes.length / 2;

// How much the largest classes hold together.
export function massCurve() {
  const points = classes.map((one) => ({ number: one.number + 1, held: one.cumulative }));
  const marks = [0.5, 0.95].map((level) => points.find((point) => point.held >= level) ?? points.at(-1));
  const named = { x: "number", y: "held", text: massText, fill: INK };
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 206,
      marginLeft: 44,
      marginBottom: 36,
      x: {
        label: "classes, largest first",
        labelAnchor: "center",
        ticks: Math.min(8, classes.length),
        tickFormat: "d",
      },
      y: { label: null, tickFormat: "%", domain: [0, 1], ticks: 5, grid: true },
      marks: [
        Plot.lineY([{ number: 0, held: 0 }, ...points], { x: "number", y: "held", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(marks, { x: "number", y: "held", fill: ACCENT, r: 4 }),
        Plot.text(marks.filter(inLeftHalf), { ...named, dx: 8, dy: 12, textAnchor: "start" }),
        Plot.text(
          marks.filter((point) => !inLeftHalf(point)),
          { ...named, dx: 4, dy: 24, textAnchor: "end" },
        ),
        Plot.tip(
          points,
          Plot.pointerX({
            x: "number",
            y: "held",
            title: (d) => `${plural(d.number, "class", "classes")} hold ${percent(d.held)}`,
            ...tipStyle,
          }),
        ),
      ],
    });
}

// The log-likelihood of every chain; the burn-in is shaded.
export function chainTraces() {
  const { sweeps, burnIn, logLikelihood } = given.traces;
  const chains = logLikelihood.map((row) => row.map((value, n) => ({ sweep: sweeps[n], value })));
  const points = chains.flat();
  const late = points.filter((point) => point.sweep > Math.min(burnIn, sweeps.at(-1)) / 4 && point.value !== null);
  const range = d3.extent(late.length ? late : points, (point) => point.value);
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 220,
      marginLeft: 72,
      marginBottom: 38,
      clip: true,
      x: { label: "sweep", labelAnchor: "center", labelArrow: "none", ticks: 6 },
      y: {
        label: "log-likelihood",
        labelAnchor: "center",
        labelArrow: "none",
        domain: range,
        ticks: 4,
        grid: true,
        tickFormat: "~s",
      },
      marks: [
        burnIn
          ? Plot.rectX([0], { x1: 0, x2: Math.min(burnIn, sweeps.at(-1)), fill: FAINT_INK, fillOpacity: 0.15 })
          : null,
        ...chains.map((line, chain) =>
          Plot.lineY(line, {
            x: "sweep",
            y: "value",
            stroke: SERIES[chain % SERIES.length],
            strokeDasharray: dashOf(chain)[1],
            strokeWidth: 1.2,
            clip: true,
          }),
        ),
      ],
    });
}

function pointTitle({ one, factor }) {
  const users = factor.classes.length;
  return `class ${one.number}, ${factor.name}: ${factor.words}${users > 1 ? `; shared by ${users} classes` : ""}`;
}

// Where the classes lie in the core: a row per class, a group of columns per mode.
// A line joins the classes that share a factor.
export function coreMap(shown) {
  const dots = [];
  const links = [];
  modes.forEach((mode) => {
    const columns = new Map();
    for (const one of shown) {
      const factor = one.factors[mode.place];
      if (!columns.has(factor)) columns.set(factor, columns.size);
      const inside = factor.classes.filter((other) => other.number < shown.length);
      dots.push({ mode: mode.name, column: columns.get(factor), one, factor, shared: inside.length > 1 });
    }
    for (const [factor, column] of columns) {
      const inside = factor.classes.filter((other) => other.number < shown.length);
      if (inside.length > 1) links.push({ mode: mode.name, column, from: inside[0].number, to: inside.at(-1).number });
    }
  });
  return (width) => {
    const chart = Plot.plot({
      ...base(width),
      height: Math.max(180, 10 * shown.length + 60),
      marginLeft: 40,
      marginTop: 36,
      fx: { label: null, axis: "top", domain: modes.map((mode) => mode.name), padding: 0.06 },
      x: { axis: null, domain: [-1, d3.max(dots, (dot) => dot.column) + 1] },
      y: {
        label: "class",
        reverse: true,
        domain: [-1, shown.length],
        ticks: Math.min(12, shown.length),
        tickFormat: "d",
      },
      marks: [
        Plot.frame({ stroke: FAINT_INK, strokeOpacity: 0.5 }),
        Plot.ruleX(links, { fx: "mode", x: "column", y1: "from", y2: "to", stroke: ACCENT, strokeOpacity: 0.45 }),
        Plot.dot(dots, {
          fx: "mode",
          x: "column",
          y: (d) => d.one.number,
          r: 3.2,
          fill: (d) => (d.shared ? ACCENT : FAINT_INK),
          tip: { format: { fx: false, x: false, y: false, fill: false }, ...tipStyle },
          title: pointTitle,
        }),
      ],
    });
    // The table has the same links for the keyboard, so that nobody must step through hundreds of dots.
    d3.select(chart)
      .selectAll("circle")
      .style("cursor", "pointer")
      .on("click", (_, place) => (location.hash = dots[place].factor.link));
    return chart;
  };
}
