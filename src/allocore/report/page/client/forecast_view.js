// The coming periods: the total of all cells with its intervals, and the largest classes.

import { bandSample, charted, hollowSample, legend, lineSample } from "./chart_box.js";
import { ACCENT, FAINT_INK, ROOM_BELOW, SERIES, base, tickMargin, tipStyle } from "./chart_style.js";
import { classLink, link, make, nameOf, panel } from "./elements.js";
import { LEVEL, classNumbered, given } from "./model.js";
import { amount, plural } from "./numbers.js";

const COMING = SERIES[1];
const [WIDE, NARROW] = [0.18, 0.3];

export function forecastView() {
  const { labels, periods, incomplete, mode, words, perUnit, total, classes } = given.forecast;
  return [
    make("h1", {}, "Forecast"),
    make(
      "p",
      { class: "quiet" },
      `${plural(labels.length - periods, "coming period")} of ${mode}, from ${labels[periods]} on. `,
      "Intervals include the uncertainty of the fit and of the future; ",
      "those of the total also include that of single counts.",
    ),
    words.map((text) => make("p", { class: "warn" }, text)),
    panel(
      "The total of all cells",
      legend([
        [lineSample(ACCENT), "counts"],
        incomplete.length ? [hollowSample(ACCENT), "counts of an incomplete period"] : null,
        [lineSample(COMING), "median of the forecast"],
        [bandSample(COMING, WIDE + NARROW), "50% interval"],
        [bandSample(COMING, WIDE), LEVEL],
      ]),
      charted(
        "The total of all cells by period, and its forecast",
        overTime({ past: total.past, coming: total.median, bands: [total.wide, total.narrow], height: 260 }),
        [mode, "counts", "median", "50% interval", LEVEL],
        totalRows,
      ),
    ),
    classes.length
      ? make(
          "p",
          { class: "quiet" },
          `The ${plural(classes.length, "largest class", "largest classes")}: ${given.counted} by ${mode}, `,
          `in as many cells as were observed on average${perUnit ? ", as if every weight were 1" : ""}.`,
        )
      : null,
    classes.length
      ? legend([
          [lineSample(ACCENT), given.counted],
          given.consensus ? [bandSample(ACCENT), LEVEL] : null,
          [lineSample(COMING), "forecast"],
          [bandSample(COMING), `its ${LEVEL}`],
        ])
      : null,
    make("div", { class: "grid" }, classes.map(classPanel)),
    make("p", {}, link("#/classes", "All classes")),
  ];
}

function classPanel(found) {
  const one = classNumbered(found.number);
  return panel(
    classLink(one, `Class ${one.number}: `, nameOf(one)),
    charted(
      `Class ${one.number} by period, and its forecast`,
      overTime({
        past: found.past,
        pastBand: found.band,
        coming: found.coming,
        bands: [found.comingBand],
        height: 170,
      }),
      [given.forecast.mode, given.counted, LEVEL],
      () => rowsOf([...found.past, ...found.coming], [...(found.band ?? []), ...found.comingBand]),
    ),
  );
}

const rangeWords = (ends) => (ends ? `${amount(ends[0])} to ${amount(ends[1])}` : "–");

// Rows of a table: what is expected of each period, and the ends of its interval, if they are known.
function rowsOf(values, bands) {
  const { labels } = given.forecast;
  const known = bands.length === labels.length ? bands : [...labels.slice(bands.length).map(() => null), ...bands];
  return labels.map((label, n) => [label, amount(values[n]), rangeWords(known[n])]);
}

function totalRows() {
  const { labels, periods, incomplete, total } = given.forecast;
  return labels.map((label, n) =>
    n < periods
      ? [label, `${amount(total.past[n])}${incomplete.includes(n) ? " (incomplete)" : ""}`, "", "", ""]
      : [
          label,
          "",
          ...[amount(total.median[n - periods]), total.narrow[n - periods], total.wide[n - periods]].map(shown),
        ],
  );
}

const shown = (each) => (Array.isArray(each) ? rangeWords(each) : each);

// The past, and what is expected of the coming periods, with bands; the forecast begins at the last complete period.
// Incomplete periods are hollow points.
function overTime({ past, pastBand, coming, bands, height }) {
  const { labels, starts, periods, incomplete } = given.forecast;
  const moments = labels.map((_, n) => (starts ? new Date(starts[n]) : n));
  const before = past.map((value, n) => ({ moment: moments[n], label: labels[n], value }));
  const complete = before.map((each, n) => (incomplete.includes(n) ? { ...each, value: null } : each));
  const last = complete.findLast(({ value }) => value !== null) ?? before.at(-1);
  const after = coming.map((value, n) => ({ moment: moments[periods + n], label: labels[periods + n], value }));
  const ends = (pairs) => pairs.map(([low, high], n) => ({ moment: moments[periods + n], low, high }));
  const joined = (pairs) => [{ moment: last.moment, low: last.value, high: last.value }, ...ends(pairs)];
  const pastEnds = pastBand?.map(([low, high], n) => ({ moment: moments[n], low, high }));
  const highest = d3.max([
    ...past,
    ...bands.flat().map(([, high]) => high),
    ...(pastBand ?? []).map(([, high]) => high),
  ]);
  const ticks = d3.ticks(0, highest, 4);
  const area = { x: "moment", y1: "low", y2: "high" };
  return (width) =>
    Plot.plot({
      ...base(width),
      height,
      marginTop: 10,
      marginLeft: tickMargin(ticks.map(amount)),
      marginRight: 12,
      marginBottom: ROOM_BELOW,
      x: starts
        ? { type: "utc", label: null, ticks: Math.max(3, Math.min(8, width / 90)) }
        : { label: null, ticks: 6, tickFormat: (n) => labels[n] ?? "" },
      y: { label: null, ticks, tickFormat: amount, grid: true, zero: true },
      marks: [
        pastEnds ? Plot.areaY(pastEnds, { ...area, fill: ACCENT, fillOpacity: WIDE, className: "band" }) : null,
        bands.map((pairs, turn) =>
          Plot.areaY(joined(pairs), {
            ...area,
            fill: COMING,
            fillOpacity: turn ? NARROW : WIDE,
            className: "coming",
          }),
        ),
        Plot.ruleX([moments[periods - 1]], { stroke: FAINT_INK, strokeDasharray: "3 3" }),
        Plot.dot(
          incomplete.map((n) => before[n]),
          { x: "moment", y: "value", stroke: ACCENT, r: 3, className: "incomplete" },
        ),
        Plot.lineY(complete, { x: "moment", y: "value", stroke: ACCENT, strokeWidth: 1.8 }),
        Plot.lineY([last, ...after], { x: "moment", y: "value", stroke: COMING, strokeWidth: 1.8 }),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(
          [...before, ...after],
          Plot.pointerX({
            x: "moment",
            y: "value",
            title: ({ label, value }) => `${label}  ${amount(value)}`,
            ...tipStyle,
          }),
        ),
      ],
    });
}
