// The first view: what was fitted, whether to trust it, how large the classes are, and where they lie in the core.

import { charted, legend, bandSample, seriesLine } from "./chart_box.js";
import { FAINT_INK } from "./chart_style.js";
import {
  bdi,
  chip,
  classLink,
  link,
  make,
  namedLink,
  panel,
  roomFor,
  shareBar,
  simpleTable,
  words,
} from "./elements.js";
import { classes, given, inOrder, modes } from "./model.js";
import { percent, plural, whole } from "./numbers.js";
import { chainTraces, coreMap, massCurve } from "./run_charts.js";

const CORE_ROWS = 60;
const NO_CLASSES =
  'No classes to show. A report of a single draw shows its classes: use draw="best" in Python, --draw best on the ' +
  "command line.";

export function overview() {
  const { health, data, run } = given;
  return [
    make("h1", {}, "Overview"),
    banner(health),
    given.heldOut ? heldOutBanner(given.heldOut) : null,
    make("p", { class: "lead" }, given.summary),
    given.finished ? null : make("p", { class: "warn" }, "This run is not finished. The page shows the draws so far."),
    classes.length ? classPanels() : make("p", { class: "warn" }, NO_CLASSES),
    given.heldOut ? heldOutPanel(given.heldOut) : null,
    given.check ? checkPanel(given.check) : null,
    make(
      "div",
      { class: "grid" },
      healthPanel(health),
      panel("The data and the run", dataList(data, run), make("p", { class: "quiet" }, whatIsShown())),
    ),
  ];
}

function whatIsShown() {
  const { chains, draws } = given.draws;
  const all = `The run has ${plural(draws, "draw")}${chains > 1 ? ` in each of ${chains} chains` : ""}.`;
  const support = given.consensus
    ? "A class is in a draw if the draw has a class with a similar profile in every mode."
    : "A class is found again in a draw that has a class with a similar profile in every mode.";
  return `The page shows ${given.consensus ? "the " : ""}${given.source}. ${all} ${support}`;
}

function classPanels() {
  return [
    make(
      "div",
      { class: "grid" },
      panel(
        "The largest classes",
        largest(),
        make("p", {}, link("#/classes", `All ${plural(classes.length, "class", "classes")}`)),
      ),
      panel(
        "How large the classes are",
        charted(given.summary, massCurve(largestHeight()), ["class", "share", "cumulative"], () =>
          classes.map((one) => [classLink(one), percent(one.share, 2), percent(one.cumulative, 2)]),
        ),
      ),
    ),
    panel("The most shared factors", sharedFactors()),
    given.motifs ? panel("Patterns that recur", recurringPatterns()) : null,
    panel("Where the classes lie in the core", coreFigure()),
  ];
}

// The core map of the largest classes; a button shows all of them, which makes a long figure.
function coreFigure(rows = CORE_ROWS) {
  const shown = inOrder.slice(0, rows);
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

const MOST_LARGEST = 8;
const largestClasses = inOrder.filter((one) => !one.apart).slice(0, MOST_LARGEST);

// The height of a chart that fills the panel beside the list of the largest classes.
const largestHeight = () => Math.max(206, Math.min(460, 56 * largestClasses.length));

function largest() {
  const room = roomFor(largestClasses);
  return make(
    "ul",
    { class: "largest" },
    largestClasses.map((one) => make("li", {}, shareBar(one, room), named(one))),
  );
}

const named = (one) =>
  make("span", {}, namedLink(one), one.support ? make("span", { class: "support" }, one.support) : null);

function sharedFactors() {
  const all = modes.flatMap((mode) => mode.factors).filter((factor) => factor.classes.length > 1);
  if (!all.length) return make("p", { class: "quiet" }, "No two classes share a factor.");
  const rows = all.sort((a, b) => b.classes.length - a.classes.length || b.mass - a.mass).slice(0, 14);
  return [
    simpleTable(
      ["factor", "top labels", "classes", "share of all"],
      rows.map((factor) => [chip(factor), words(factor, 4), String(factor.classes.length), percent(factor.mass)]),
      "Factors by the number of classes that share them",
    ),
    all.length > rows.length
      ? make("p", { class: "quiet" }, `and ${all.length - rows.length} more shared factors`)
      : null,
  ];
}

// Patterns of classes that recur between different parties, with the classes of each pair.
function recurringPatterns() {
  const chance = "than if topics did not depend on who acts on whom, and when";
  if (!given.motifs.length)
    return make("p", { class: "quiet" }, `No pattern of two or three classes recurs more often ${chance}.`);
  return [
    make(
      "p",
      { class: "quiet" },
      `Topics that classes between two parties, a and b, have at the same time. They recur more often ${chance}; `,
      "p is the probability of that, adjusted for all patterns.",
    ),
    given.motifs.map((motif) => [
      make(
        "h3",
        {},
        motif.roles.map(([arrow, topic], n) => [n ? "; " : "", `${arrow}: `, bdi(topic)]),
      ),
      make(
        "p",
        {},
        `${plural(motif.pairs, "pair")} of parties, ${motif.expected.toFixed(1)} by chance `,
        `(p = ${motif.p.toFixed(3)}).`,
      ),
      simpleTable(
        ["a", "b", "classes"],
        motif.occurrences.map(({ a, b, places }) => [
          bdi(a),
          bdi(b),
          places.map((place, n) => [n ? make("br") : "", namedLink(classes[place])]),
        ]),
        "Pairs of parties that have the pattern",
      ),
    ]),
  ];
}

// A symbol and a word for each level, so that nobody needs to see its colour.
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

// Whether to trust the run, before anything of it is read: a light and a sentence for each question.
function banner(health) {
  const { chains, draws } = given.draws;
  return make(
    "section",
    { class: `banner ${health.level}`, "aria-label": "Can the run be trusted?" },
    health.answers.map(({ level, question, words: [answer] }) =>
      make("p", { class: "verdict" }, light(level), " ", make("strong", {}, question), ` ${answer}`),
    ),
    make(
      "p",
      { class: "quiet" },
      `${plural(chains, "chain")} of ${plural(draws, "draw")} · `,
      link("#/health", "What to do, and the health of the chains"),
    ),
  );
}

// The same for predictions: the held-out score, and what it means.
function heldOutBanner({ level, words: [answer], cells }) {
  return make(
    "section",
    { class: `banner ${level}`, "aria-label": "Does the model predict well?" },
    make("p", { class: "verdict" }, light(level), ` ${answer}`),
    make(
      "p",
      { class: "quiet" },
      `${cells} · The log PPD is the mean log probability that the model gives to counts it has not seen: `,
      "higher is better · ",
      link("#/prediction", "How well it predicts"),
    ),
  );
}

// A judgement: its verdict and sentences, its table, and what the columns mean.
function judgedPanel(place, title, caption, { level, words: [answer, ...others], headings, rows }, ...explained) {
  const box = panel(
    title,
    make("p", {}, light(level), ` ${answer}`),
    make(
      "ul",
      {},
      others.map((text) => make("li", {}, text)),
    ),
    simpleTable(headings, rows, caption, headings.length - 1),
    make("p", { class: "quiet" }, ...explained),
  );
  return reachable(box, place);
}

// Whether the predictions of held-out cells are good or bad, beside simple baselines.
function heldOutPanel(judged) {
  return judgedPanel(
    "prediction",
    "How well it predicts",
    "Scores of held-out cells, beside baselines",
    judged,
    `${judged.cells}. Means over cells, \u00b1 standard errors over fibres. `,
    "The log PPD is the log predictive probability of a count, higher is better; ",
    "MAE and CRPS are errors and KL is the divergence of the expected count, lower is better. ",
    "AUC and precision say how well cells with counts are ranked before zeros, higher is better. ",
    "The last two rows have the share of counts within 50% and 90% intervals, ",
    "of all cells and of those where a count is likely.",
  );
}

// Statistics of the data, beside those of tensors that the model simulates.
function checkPanel(judged) {
  return judgedPanel(
    "check",
    "Does the model look like the data?",
    "Statistics of the data and of simulated tensors",
    judged,
    `${whole.format(judged.tensors)} whole tensors, simulated from the draws, `,
    "with the same missing cells as the data. A small p means that they hardly ever look like the data; ",
    "the adjusted p allows for all statistics and labels at once, and counts if it is at most 0.05.",
  );
}

// A panel that a link leads to.
function reachable(box, id) {
  box.id = id;
  box.tabIndex = -1;
  return box;
}

function healthPanel(health) {
  const chains = given.traces.logLikelihood.map((_, chain) => `chain ${chain}`);
  const box = panel(
    "Health of the chains",
    health.answers.map(({ level, question, words: all }) =>
      make("p", {}, light(level), " ", make("strong", {}, question), ` ${all.join(" ")}`),
    ),
    legend([
      ...chains.map((chain, turn) => [seriesLine(turn), chain]),
      given.traces.burnIn ? [bandSample(FAINT_INK), "burn-in"] : null,
    ]),
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
      make(
        "ul",
        {},
        health.words.map((text) => make("li", {}, text)),
      ),
      simpleTable(health.headings, health.rows, "Diagnostics of the chains"),
    ),
  );
  return reachable(box, "health");
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
