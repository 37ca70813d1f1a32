// The view of one factor with all classes that share it, and the charts of a factor in other views.

import { charted, drawn, legend } from "./chart_box.js";
import { MOST_COMPARED } from "./compare_view.js";
import { bdi, chip, classLink, labelLink, link, make, panel, words } from "./elements.js";
import { RANKED, fingerprint, ordered, ranked, series } from "./factor_charts.js";
import { given, modes } from "./model.js";
import { percent, whole } from "./numbers.js";
import { classTable } from "./tables.js";
import { worldMap } from "./world_map.js";

const OVERLAID = 6;

// The charts of one factor, by what its labels are, and the way to those who share it.
export function factorPanel(factor, one = null) {
  const others = factor.classes.filter((other) => other !== one);
  const sharing =
    one === null
      ? null
      : make(
          "p",
          { class: "sharing" },
          chip(factor),
          others.length ? [" shared with ", listed(others)] : " used by this class alone",
        );
  return panel(bdi(factor.mode.name), sharing, factorCharts(factor));
}

function listed(others) {
  const most = 8;
  const shown = others.slice(0, most).map((other, n) => [n ? ", " : "", classLink(other, String(other.number))]);
  return [
    others.length === 1 ? "class " : "classes ",
    shown,
    others.length > most ? ` and ${others.length - most} more` : "",
  ];
}

function factorCharts(factor) {
  if (factor.empty) return make("p", { class: "quiet" }, "All its weights are too small to tell apart.");
  const mode = factor.mode;
  const described = `${factor.name}: ${factor.words}`;
  const ordering = mode.kind === "time" || mode.kind === "order";
  const rows = () =>
    (ordering ? factor.inOrder() : factor.heaviest().slice(0, 1000)).map((element) => [
      labelLink(mode, element.label),
      percent(element.share, 2),
    ]);
  const headings = [mode.name, "share"];
  const even = factor.even ? make("p", { class: "quiet" }, `Spread evenly over all ${mode.length} labels.`) : null;
  if (mode.kind === "time") {
    const told = factor.peaks.length ? make("p", {}, "Peaks: ", words(factor)) : even;
    return [charted(described, series([{ name: factor.name, factor }]), headings, rows), told];
  }
  if (mode.kind === "order" && mode.labels.length <= 60)
    return [charted(described, ordered(factor), headings, rows), even];
  const shown = d3.sum(factor.inOrder(), (element) => element.share);
  const rest = mode.cut
    ? make("p", { class: "quiet" }, `The heaviest of ${whole.format(mode.length)} labels; they hold ${percent(shown)}.`)
    : null;
  return [
    mode.iso
      ? drawn(make("div", { class: "chart map", role: "img", "aria-label": `Map of ${described}` }), worldMap(factor))
      : null,
    charted(described, ranked(factor), headings, rows),
    mode.length > RANKED
      ? make("p", { class: "caption" }, `${mode.cut ? "These" : `All ${mode.length}`} labels in their original order:`)
      : null,
    mode.length > RANKED
      ? drawn(make("div", { class: "chart strip", "aria-hidden": "true" }), fingerprint(factor))
      : null,
    rest,
    even,
  ];
}

export function factorView(factor) {
  const users = factor.classes;
  const held = `${percent(factor.mass)} of all ${given.counted}`;
  const time = modes.find((mode) => mode.kind === "time" && mode !== factor.mode);
  return [
    make("p", { class: "crumbs" }, link("#/", "Overview"), users.length ? classLink(users[0]) : null),
    make("h1", {}, bdi(factor.name)),
    make("p", { class: "lead" }, words(factor, 5)),
    make(
      "p",
      {},
      users.length > 1
        ? `${users.length} classes share this ${factor.mode.name} factor and hold ${held}. They differ as follows:`
        : `One class uses this factor; it holds ${held}.`,
    ),
    classTable(users, {
      caption: `Classes that use ${factor.name}`,
      skip: factor.mode.place,
      same: sameAsFirst(users, factor.mode.place),
    }),
    users.length > 1 && users.length <= MOST_COMPARED
      ? make("p", {}, link(`#/compare/${users.map((one) => one.number)}`, "Compare them side by side"))
      : null,
    make(
      "div",
      { class: "grid" },
      panel(`The factor: ${factor.name}`, factorCharts(factor)),
      time && users.length > 1 ? overTime(factor, time) : null,
    ),
  ];
}

// The mode of time of the largest classes that use a factor, in one chart.
function overTime(factor, time) {
  const users = factor.classes.slice(0, OVERLAID);
  const named = users.map((one) => ({ name: `class ${one.number}`, factor: one.factors[time.place] }));
  const rows = () =>
    time.labels.map((label, n) => [label, ...named.map((each) => percent(each.factor.inOrder()[n].share, 2))]);
  const which = factor.classes.length > OVERLAID ? `${OVERLAID} largest classes` : "classes";
  return panel(
    `Over time: ${time.name} of its ${which}`,
    legend(users.map((one) => classLink(one))),
    charted(
      `Shares over ${time.name} of the classes that use ${factor.name}`,
      series(named),
      [time.name, ...named.map(({ name }) => name)],
      rows,
    ),
  );
}

// For each class, the other modes in which it has the same factor as the largest class.
function sameAsFirst(users, skip) {
  return (one) =>
    new Set(
      one === users[0]
        ? []
        : modes
            .filter((mode) => mode.place !== skip && one.factors[mode.place] === users[0].factors[mode.place])
            .map((mode) => mode.place),
    );
}
