// The box of a chart on the page: it keeps the chart as wide as itself, and has a description, a legend and a table.

import { SERIES, dashOf } from "./chart_style.js";
import { make, simpleTable } from "./elements.js";

// A chart with a description for screen readers and with its numbers as a table.
export function charted(described, chart, headings, rows) {
  const body = make("div", { class: "tablebox" });
  const details = make("details", { class: "astable" }, make("summary", {}, "As a table"), body);
  details.addEventListener("toggle", () => {
    if (details.open && !body.firstChild) body.append(simpleTable(headings, rows(), described));
  });
  const box = make("div", { class: "chart", role: "img", "aria-label": described });
  return make("figure", {}, drawn(box, chart), details);
}

// The names of the series beside their colours.
export function legend(names) {
  const entries = names.map((name, turn) =>
    make("li", {}, make("span", { class: "dot", style: `background:${SERIES[turn]}` }), name),
  );
  return make("ul", { class: "legend" }, entries);
}

// The names of lines beside samples of them, and what else there is to know.
export function lineLegend(names, ...notes) {
  const entries = names.map((name, turn) => {
    const line = `2.5px ${dashOf(turn)[0]} ${SERIES[turn % SERIES.length]}`;
    return make("li", {}, make("span", { class: "sample", style: `border-block-start:${line}` }), name);
  });
  return make(
    "ul",
    { class: "legend" },
    entries,
    notes.map((note) => make("li", { class: "quiet" }, note)),
  );
}

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
