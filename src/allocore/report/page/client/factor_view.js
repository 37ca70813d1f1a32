// The view of one factor with all classes that share it.

import { charted, legend, seriesLine } from "./chart_box.js";
import { MOST_COMPARED, sameLines } from "./compare_view.js";
import { bdi, classLink, link, make, namedLink, panel, words } from "./elements.js";
import { given, modes, sharingProbability } from "./model.js";
import { percent } from "./numbers.js";
import { series } from "./profile_charts.js";
import { evenShare, profileFigures } from "./profile_figures.js";
import { classTable } from "./tables.js";

const OVERLAID = 6;
const MOST_NAMED = 3;
const HOW_SURE =
  "The probability that two classes share a factor is the share of the draws with both classes in which they do. " +
  "Classes that share it with a probability of at least one half, on average, are shown with one factor.";

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
        ? `${users.length} classes share this ${factor.mode.name} factor and have ${held}. They differ as follows:`
        : `One class uses this factor and has ${held}.`,
    ),
    classTable(users, {
      caption: `Classes that use ${factor.name}`,
      skip: factor.mode.place,
      same: sameAsFirst(users, factor.mode.place),
      sure: given.consensus && users.length > 1 ? (one) => surestOf(one, users, factor.mode.place) : null,
    }),
    given.consensus && users.length > 1 ? make("p", { class: "quiet" }, HOW_SURE) : null,
    users.length > 1 && users.length <= MOST_COMPARED
      ? make("p", {}, link(`#/compare/${users.map((one) => one.number)}`, "Compare them side by side"))
      : null,
    make(
      "div",
      { class: "grid" },
      panel(
        `The factor: ${factor.name}`,
        given.consensus && users.length > 1
          ? make("p", { class: "quiet" }, "As the largest of its classes has it: ", namedLink(users[0]))
          : null,
        profileFigures(factor),
      ),
      time && users.length > 1 ? overTime(factor, time) : null,
    ),
  ];
}

// The mode of time of the largest classes that use a factor, in one chart.
function overTime(factor, time) {
  const users = factor.classes.slice(0, OVERLAID);
  const named = users.map((one) => ({ one, name: `class ${one.number}`, profile: one.profiles[time.place] }));
  const rows = () =>
    time.labels.map((label, n) => [label, ...named.map((each) => percent(each.profile.inOrder()[n].share, 2))]);
  const which = factor.classes.length > OVERLAID ? `${OVERLAID} largest classes` : "classes";
  return panel(
    `Over time: ${time.name} of its ${which}`,
    legend([...users.map((one, turn) => [seriesLine(turn), namedLink(one)]), evenShare(time)]),
    sameLines(named),
    charted(
      `Shares over ${time.name} of the classes that use ${factor.name}`,
      series(named),
      [time.name, ...named.map(({ name }) => name)],
      rows,
    ),
  );
}

// The other classes with which a class shares the factor most surely.
function surestOf(one, users, place) {
  const others = users
    .filter((other) => other !== one)
    .map((other) => ({ other, sure: sharingProbability(one, other, place) }));
  return d3.sort(others, (each) => -each.sure).slice(0, MOST_NAMED);
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
