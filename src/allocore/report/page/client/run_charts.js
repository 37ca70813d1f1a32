// Charts of the whole run: how large the classes are, the chains, and the core.

import {
  ACCENT,
  FAINT_INK,
  INK,
  ROOM_ABOVE,
  ROOM_BELOW,
  SERIES,
  base,
  dashOf,
  tickMargin,
  tipStyle,
  titleAbove,
  titleBelow,
} from "./chart_style.js";
import { classes, given, modes } from "./model.js";
import { percent, plural } from "./numbers.js";

const TRACE_TICKS = 4;

const massText = ({ number, held }) => `${plural(number, "class", "classes")}: ${percent(held, 0)}`;
// The text of a point in the right half is to its left, or it would leave the panel.
const inLeftHalf = ({ number }) => number <= classes.length / 2;

// The share of the largest classes together.
export function massCurve(height) {
  const points = classes.map((one) => ({ number: one.place + 1, held: one.cumulative }));
  const reached = (level) => points.find((point) => point.held >= level) ?? points.at(-1);
  const marks = [...new Set([reached(0.5), reached(0.95)])];
  const halo = { stroke: "var(--paper)", strokeWidth: 5, paintOrder: "stroke" };
  const named = { x: "number", y: "held", text: massText, fill: INK, ...halo };
  return (width) =>
    Plot.plot({
      ...base(width),
      height,
      marginTop: ROOM_ABOVE,
      marginLeft: 44,
      marginBottom: ROOM_BELOW,
      x: { ...titleBelow("number of classes, largest first"), ticks: Math.min(8, classes.length), tickFormat: "d" },
      y: {
        ...titleAbove(`share of all ${given.counted}`),
        tickFormat: "%",
        domain: [0, 1],
        ticks: 5,
        grid: true,
      },
      marks: [
        Plot.lineY([{ number: 0, held: 0 }, ...points], { x: "number", y: "held", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(marks, { x: "number", y: "held", fill: ACCENT, r: 4 }),
        Plot.text(marks.filter(inLeftHalf), { ...named, dx: 8, dy: 12, textAnchor: "start" }),
        Plot.text(
          marks.filter((point) => !inLeftHalf(point)),
          { ...named, dx: 4, dy: 30, textAnchor: "end" },
        ),
        Plot.tip(
          points,
          Plot.pointerX({
            x: "number",
            y: "held",
            title: (d) =>
              `${plural(d.number, "class", "classes")} ${d.number === 1 ? "has" : "have"} ${percent(d.held)}`,
            ...tipStyle,
          }),
        ),
      ],
    });
}

const isWhole = (value) => Math.abs(value - Math.round(value)) < 1e-6;

// How many digits after the point tell these numbers exactly.
const digitsOf = (numbers) => d3.range(8).find((digits) => numbers.every((each) => isWhole(each * 10 ** digits))) ?? 8;

// The texts of ticks: in thousands if the numbers are large and need at most one digit then.
function tickTexts(ticks) {
  const inThousands = ticks.map((tick) => tick / 1000);
  const isLarge = Math.max(...inThousands.map(Math.abs)) >= 10 && digitsOf(inThousands) <= 1;
  const digits = digitsOf(isLarge ? inThousands : ticks);
  const format = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const text = (value) => format.format(value).replace("-", "−");
  return isLarge ? (tick) => `${text(tick / 1000)}k` : text;
}

// The log-likelihood of every chain; the burn-in is shaded.
export function chainTraces() {
  const { sweeps, burnIn, logLikelihood } = given.traces;
  const chains = logLikelihood.map((row) => row.map((value, n) => ({ sweep: sweeps[n], value })));
  const points = chains.flat();
  const late = points.filter((point) => point.sweep > Math.min(burnIn, sweeps.at(-1)) / 4 && point.value !== null);
  const range = d3.extent(late.length ? late : points, (point) => point.value);
  const scale = d3.scaleLinear(range, [0, 1]);
  const ticks = scale.ticks(TRACE_TICKS);
  const tickText = tickTexts(ticks);
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 240,
      marginTop: ROOM_ABOVE,
      marginLeft: tickMargin(ticks.map(tickText)),
      marginBottom: ROOM_BELOW,
      clip: true,
      x: { ...titleBelow("sweep"), ticks: 6 },
      y: { ...titleAbove("log-likelihood"), domain: range, ticks, grid: true, tickFormat: tickText },
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
  const shared = users > 1 ? `; shared by ${users} classes` : "";
  return `class ${one.number} (${one.name}), ${factor.name}: ${factor.words}${shared}`;
}

// Where the classes lie in the core: a row per class, a group of columns per mode.
// A line joins the classes that share a factor.
export function coreMap(shown) {
  const dots = [];
  const links = [];
  const lines = new Map(shown.map((one, line) => [one, line]));
  const linesOf = (factor) => d3.sort(factor.classes.filter((other) => lines.has(other)).map((one) => lines.get(one)));
  modes.forEach((mode) => {
    const columns = new Map();
    for (const one of shown) {
      const factor = one.factors[mode.place];
      if (!columns.has(factor)) columns.set(factor, columns.size);
      const column = columns.get(factor);
      dots.push({ mode: mode.name, column, line: lines.get(one), one, factor, shared: linesOf(factor).length > 1 });
    }
    for (const [factor, column] of columns) {
      const inside = linesOf(factor);
      if (inside.length > 1) links.push({ mode: mode.name, column, from: inside[0], to: inside.at(-1) });
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
        labelArrow: "none",
        reverse: true,
        domain: [-1, shown.length],
        ticks: d3.ticks(0, shown.length - 1, Math.min(12, shown.length)).filter(Number.isInteger),
        tickFormat: (line) => String(shown[line]?.number ?? ""),
      },
      marks: [
        Plot.frame({ stroke: FAINT_INK, strokeOpacity: 0.5 }),
        Plot.ruleX(links, { fx: "mode", x: "column", y1: "from", y2: "to", stroke: ACCENT, strokeOpacity: 0.45 }),
        Plot.dot(dots, {
          fx: "mode",
          x: "column",
          y: "line",
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
