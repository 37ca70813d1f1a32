// The box of a chart on the page: it keeps the chart as wide as itself, and has a description, a legend and a table.

import { SERIES, SIGNS, dashOf } from "./chart_style.js";
import { make, simpleTable } from "./elements.js";

// A chart with a description for screen readers and with its numbers as a table.
export function charted(described, chart, headings, rows) {
  const details = make("details", { class: "astable" }, make("summary", {}, "As a table"));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(simpleTable(headings, rows(), described));
  });
  const box = make("div", { class: "chart", role: "img", "aria-label": described });
  return make("figure", {}, drawn(box, chart), details);
}

// What the marks of a chart mean: pairs of a sample and words.
export const legend = (entries) =>
  make(
    "ul",
    { class: "legend" },
    entries.filter(Boolean).map(([sample, text]) => make("li", {}, sample, text)),
  );

export const lineSample = (colour, dash = "solid") =>
  make("span", { class: "sample", style: `border-block-start:2.5px ${dash} ${colour}` });

export const bandSample = (colour, opacity = null) =>
  make("span", { class: "bandsample", style: `background:${colour}${opacity === null ? "" : `;opacity:${opacity}`}` });

export const hollowSample = (colour) =>
  make("span", { class: "pointsample", style: `color:${colour}`, "aria-hidden": "true" }, "○");

// The samples of series of lines, and of series of points, in their order.
export const seriesLine = (turn) => lineSample(SERIES[turn % SERIES.length], dashOf(turn)[0]);
export const seriesPoint = (turn) =>
  make("span", { class: "pointsample", style: `color:${SERIES[turn]}`, "aria-hidden": "true" }, SIGNS[turn]);

export const observer = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const width = Math.round(contentRect.width);
    if (width > 0 && Math.abs(width - (target.drawnWidth ?? 0)) > 2) {
      target.drawnWidth = width;
      const chart = target.chart(width);
      chart.setAttribute("aria-hidden", "true"); // the box has the description, the table has the numbers
      target.replaceChildren(chart);
    }
  }
});

// Draw a chart as wide as its box, and again when that width changes.
export function drawn(box, chart) {
  box.chart = chart;
  observer.observe(box);
  return box;
}
