// The first view: what was fitted, whether to trust it, how much the classes hold, and where they lie in the core.

import { charted, lineLegend } from "./chart_box.js";
import { bdi, chip, classLink, link, make, panel, shareBar, simpleTable, words } from "./elements.js";
import { classes, given, modes, titleOf } from "./model.js";
import { percent, plural, whole } from "./numbers.js";
import { chainTraces, coreMap, massCurve } from "./run_charts.js";

const CORE_ROWS = 60;

export function overview() {
  const { health, data, run, draw } = given;
  const chain = draw.chains > 1 ? ` of chain ${draw.chain}` : "";
  const which = `The page shows draw ${draw.draw}${chain}; draws are numbered from 0 to ${draw.draws - 1}.`;
  const stability = "The stability of a class is the share of the other draws that have a similar class.";
  return [
    make("h1", {}, "Overview"),
    banner(health, draw),
    make("p", { class: "lead" }, given.summary),
    given.finished ? null : make("p", { class: "warn" }, "This run is not finished. The page shows the draws so far."),
    make(
      "div",
      { class: "grid" },
      panel(
        "The largest classes",
        largest(),
        make("p", {}, link("#/classes", `All ${plural(classes.length, "class", "classes")}`)),
      ),
      panel(
        "How much the classes hold",
        charted(given.summary, massCurve(), ["class", "share", "cumulative"], () =>
          classes.map((one) => [classLink(one), percent(one.share, 2), percent(one.cumulative, 2)]),
        ),
      ),
    ),
    panel("The most shared factors", sharedFactors()),
    panel("Where the classes lie in the core", coreFigure()),
    make(
      "div",
      { class: "grid" },
      healthPanel(health),
      panel("The data and the run", dataList(data, run), make("p", { class: "quiet" }, `${which} ${stability}`)),
    ),
  ];
}

// The core map of the largest classes; a button shows all of them, which makes a long figure.
function coreFigure(rows = CORE_ROWS) {
  const shown = classes.slice(0, rows);
  const all = () => box.replaceWith(coreFigure(classes.length));
  const box = make(
    "div",
    {},
    make(
      "p",
      { class: "quiet" },
      "Each row is a class, each column a factor. A line joins the classes that share a factor. ",
      "Click a point to see its factor. ",
      shown.length < classes.length
        ? make(
            "button",
            { type: "button", onclick: all },
            `Show all ${classes.length} classes instead of the ${shown.length} largest`,
          )
        : null,
    ),
    charted(
      `Locations of ${plural(shown.length, "class", "classes")} in the core`,
      coreMap(shown),
      ["class", ...modes.map((mode) => mode.name)],
      () => shown.map((one) => [classLink(one), ...one.factors.map((factor) => chip(factor))]),
    ),
  );
  return box;
}

function largest() {
  const rows = classes.slice(0, 8);
  return make(
    "ol",
    { class: "largest", start: 0 },
    rows.map((one) =>
      make("li", {}, shareBar(one.share, rows[0].share), classLink(one, `${one.number}: `, bdi(titleOf(one)))),
    ),
  );
}

function sharedFactors() {
  const all = modes.flatMap((mode) => mode.factors).filter((factor) => factor.classes.length > 1);
  if (!all.length)
    return make("p", { class: "quiet" }, "No factor is shared: in every mode each class has a factor of its own.");
  const rows = all.sort((a, b) => b.classes.length - a.classes.length || b.mass - a.mass).slice(0, 14);
  return make(
    "div",
    { class: "tablebox" },
    simpleTable(
      ["factor", "heaviest labels", "classes", "share of all"],
      rows.map((factor) => [chip(factor), words(factor, 4), String(factor.classes.length), percent(factor.mass)]),
      "Factors by the number of classes that share them",
    ),
    all.length > rows.length
      ? make("p", { class: "quiet" }, `and ${all.length - rows.length} more shared factors`)
      : null,
  );
}

// A symbol and a word for each colour of the traffic light: nobody needs to see the colour.
const LIGHTS = { good: ["✓", "Good"], caution: ["!", "Caution"], poor: ["✕", "Poor"] };

function light(level) {
  const [symbol, word] = LIGHTS[level];
  return make(
    "strong",
    { class: `light ${level}` },
    make("span", { class: "lamp", "aria-hidden": "true" }, symbol),
    ` ${word}:`,
  );
}

// Whether to trust the run, before anything of it is read.
function banner(health, draw) {
  const facts = [
    `${plural(draw.chains, "chain")} of ${plural(draw.draws, "draw")}`,
    health.rHat === null ? null : `R-hat of the log-likelihood ${health.rHat} (below 1.01 where chains agree)`,
    health.moves === null ? null : `${percent(health.moves, 2)} of the classes moved per sweep`,
  ];
  return make(
    "section",
    { class: `banner ${health.level}`, "aria-label": "Can the chains be trusted?" },
    make("p", { class: "verdict" }, light(health.level), ` ${health.headline}`),
    make(
      "p",
      { class: "quiet" },
      facts.filter(Boolean).map((fact) => [fact, " · "]),
      link("#/health", "Health of the chains"),
    ),
  );
}

function healthPanel(health) {
  const moves =
    health.moves === null ? null : `${percent(health.moves, 2)} of the classes moved per sweep after the burn-in.`;
  const chains = given.traces.logLikelihood.map((_, chain) => `chain ${chain}`);
  const shade = given.traces.burnIn ? ["burn-in shaded"] : [];
  const box = panel(
    "Health of the chains",
    make("p", {}, light(health.level), ` ${health.headline}`),
    make(
      "ul",
      {},
      [...health.words, moves].filter(Boolean).map((text) => make("li", {}, text)),
    ),
    lineLegend(chains, ...shade),
    charted("Log-likelihood of every chain by sweep", chainTraces(), ["sweep", ...chains], () =>
      given.traces.sweeps.map((sweep, n) => [
        String(sweep),
        ...given.traces.logLikelihood.map((row) => amountOrNone(row[n])),
      ]),
    ),
    make(
      "details",
      { class: "astable" },
      make("summary", {}, "Diagnostics"),
      make("div", { class: "tablebox" }, simpleTable(health.headings, health.rows, "Diagnostics of the chains")),
    ),
  );
  box.id = "health";
  box.tabIndex = -1;
  return box;
}

const amountOrNone = (value) => (value === null ? "–" : whole.format(value));

function dataList(data, run) {
  const lines = [
    ["data", data.text],
    ...(data.report ?? []).filter(([name]) => name !== "tensor"),
    ["missing cells", whole.format(data.missing)],
    ["model", run[0]],
    ["progress", run[1]],
    ["likelihood", given.likelihood.join(" ")],
  ];
  return make(
    "dl",
    { class: "facts" },
    lines.map(([name, text]) => [make("dt", {}, name), make("dd", {}, bdi(text))]),
  );
}
