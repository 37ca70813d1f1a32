// Up to three classes side by side.

import { charted, legend } from "./chart_box.js";
import { SERIES } from "./chart_style.js";
import { apartNote, bdi, chip, classLink, labelLink, link, make, panel, say } from "./elements.js";
import { classNumbered, classes, given, modes, sharedWith, sizeOf, supportOf } from "./model.js";
import { interval, percent, sentence } from "./numbers.js";
import { series, sideBySide } from "./profile_charts.js";
import { search } from "./search.js";

export const MOST_COMPARED = 3;

export function compareView(numbers) {
  const chosen = [...new Set(numbers)].map(classNumbered).filter(Boolean).slice(0, MOST_COMPARED);
  const heads = chosen.map((one, turn) =>
    make(
      "div",
      { class: "compared", style: `border-color:${SERIES[turn]}` },
      make(
        "h2",
        {},
        make("span", { class: "dot", style: `background:${SERIES[turn]}` }),
        classLink(one, `Class ${one.number}`),
      ),
      make("p", {}, bdi(one.name)),
      apartNote(one),
      make("p", { class: "quiet" }, [sentence(supportOf(one)), sizeOf(one)].filter(Boolean).join(" ")),
      chosen.length > 1
        ? link(`#/compare/${chosen.filter((other) => other !== one).map((other) => other.number)}`, "remove")
        : null,
    ),
  );
  return [
    make("h1", {}, "Compare"),
    make("p", { class: "quiet" }, `Up to ${MOST_COMPARED} classes side by side.`),
    adding(chosen),
    make("div", { class: "compare" }, heads),
    chosen.length
      ? make(
          "div",
          { class: "grid" },
          modes.map((mode) => comparePanel(mode, chosen)),
        )
      : null,
  ];
}

// The form that adds a class by its number or its name.
function adding(chosen) {
  const full = chosen.length === MOST_COMPARED;
  const offered = classes.map((one) => make("option", { value: `${one.number}: ${one.name}` }));
  const add = make("input", { type: "search", id: "add", list: "addlist", placeholder: "number or name" });
  const form = make(
    "form",
    { class: "filters" },
    make("label", { for: "add" }, full ? "remove a class to add another" : "add a class", add),
    make("datalist", { id: "addlist" }, offered),
    make("button", { disabled: full }, "Add"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = add.value.trim();
    if (!wanted) return;
    const number = /^\d+(?=$|: )/.exec(wanted);
    const found = (number && classNumbered(Number(number[0]))) ?? search(wanted)[0]?.one;
    if (found) location.hash = `#/compare/${[...chosen, found].map((one) => one.number)}`;
    else say(`There is no class ${wanted}`);
  });
  return form;
}

function shareWords(profile, label) {
  const element = profile.inOrder().find((each) => each.label === label);
  return element ? `${percent(element.share, 2)}${interval(element, 2)}` : percent(0, 2);
}

function comparePanel(mode, chosen) {
  const named = chosen.map((one) => ({ name: `class ${one.number}`, profile: one.profiles[mode.place] }));
  const labels = [...new Set(named.flatMap(({ profile }) => profile.top(12).map((element) => element.label)))];
  const rows = () =>
    labels.map((label) => [labelLink(mode, label), ...named.map(({ profile }) => shareWords(profile, label))]);
  const chart = mode.kind === "time" ? series(named) : sideBySide(named);
  return panel(
    bdi(mode.name),
    sameFactor(mode, chosen),
    legend(named.map(({ name }) => name)),
    charted(
      `${mode.name} of ${named.map(({ name }) => name).join(", ")}`,
      chart,
      [mode.name, ...named.map(({ name }) => name)],
      rows,
    ),
  );
}

// Whether the classes have the same factor in a mode, and how surely every two of them.
function sameFactor(mode, chosen) {
  const factors = chosen.map((one) => one.factors[mode.place]);
  const pairs = chosen.flatMap((one, n) => chosen.slice(n + 1).map((other) => [one, other]));
  const sure =
    given.consensus && pairs.length
      ? make(
          "p",
          { class: "quiet" },
          `Probability of the same factor: ${pairs.map((pair) => pairWords(pair, mode)).join("; ")}.`,
        )
      : null;
  if (new Set(factors).size === 1 && chosen.length > 1)
    return [make("p", { class: "samemark" }, "All use the same factor: ", chip(factors[0])), sure];
  const each = chosen.map((one, n) => [n ? ", " : "", `class ${one.number}: `, chip(factors[n])]);
  return [make("p", {}, each), sure];
}

const pairWords = ([one, other], mode) =>
  `${one.number} and ${other.number} ${percent(sharedWith(one, other, mode.place), 0)}`;
