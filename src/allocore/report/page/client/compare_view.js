// Up to three classes side by side.

import { balanced } from "./balanced.js";
import { charted, legend, seriesLine, seriesPoint } from "./chart_box.js";
import { SERIES } from "./chart_style.js";
import { apartNote, bdi, chip, classLink, labelLink, link, make, nameOf, panel } from "./elements.js";
import { LEVEL, classNumbered, given, inOrder, modes, sharingProbability, sizeOf } from "./model.js";
import { interval, percent, sentence } from "./numbers.js";
import { sameLine, series, sideBySide } from "./profile_charts.js";
import { evenShare } from "./profile_figures.js";
import { search } from "./search.js";

export const MOST_COMPARED = 3;

export function compareView(numbers) {
  const known = [...new Set(numbers)].map(classNumbered).filter(Boolean);
  const chosen = (known.length ? known : inOrder.slice(0, 2)).slice(0, MOST_COMPARED);
  const heads = chosen.map((one, turn) =>
    make(
      "div",
      { class: "compared", style: `border-color:${SERIES[turn]}` },
      make("h2", {}, seriesPoint(turn), classLink(one, `Class ${one.number}: `, nameOf(one))),
      apartNote(one),
      make("p", { class: "quiet" }, [sentence(one.support), sizeOf(one)].filter(Boolean).join(" ")),
      make(
        "p",
        { class: "actions" },
        instead(chosen, turn),
        chosen.length > 1 ? link(addressOf(chosen.filter((other) => other !== one)), "remove") : null,
      ),
    ),
  );
  return [
    make("h1", {}, "Compare"),
    make(
      "p",
      { class: "quiet" },
      `Up to ${MOST_COMPARED} classes side by side. The charts show the shares of their ${given.counted}`,
      given.consensus ? `; bands and bars behind the points and lines are ${LEVEL}s.` : ".",
    ),
    adding(chosen),
    make("div", { class: "compare" }, heads),
    chosen.length ? balanced(modes.map((mode) => comparePanel(mode, chosen))) : null,
  ];
}

const addressOf = (chosen) => `#/compare/${chosen.map((one) => one.number)}`;

// All classes by name, to put another one in the place of a class.
function instead(chosen, turn) {
  const id = `instead${turn}`;
  const offered = inOrder
    .filter((one) => one === chosen[turn] || !chosen.includes(one))
    .map((one) =>
      make("option", { value: String(one.number), selected: one === chosen[turn] }, `${one.number}: ${one.name}`),
    );
  const change = (event) => {
    location.hash = addressOf(chosen.with(turn, classNumbered(Number(event.target.value))));
  };
  return make(
    "span",
    { class: "instead" },
    make("label", { class: "hidden", for: id }, `Compare another class instead of class ${chosen[turn].number}`),
    make("select", { id, onchange: change }, offered),
  );
}

// The form that adds a class by its number or its name.
function adding(chosen) {
  const full = chosen.length === MOST_COMPARED;
  const offered = inOrder.map((one) => make("option", { value: `${one.number}: ${one.name}` }));
  const add = make("input", {
    type: "search",
    id: "add",
    list: "addlist",
    placeholder: "a name, a label or a number",
    disabled: full,
  });
  const form = make(
    "form",
    { class: "filters" },
    make("label", { for: "add" }, full ? "remove a class to add another" : "add a class", add),
    make("datalist", { id: "addlist" }, offered),
    make("button", { disabled: full }, "Add"),
    make("p", { class: "warn", role: "status" }),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = add.value.trim();
    if (!wanted) return;
    const number = /^\d+(?=$|: )/.exec(wanted);
    const found = (number && classNumbered(Number(number[0]))) ?? search(wanted)[0]?.one;
    const answer = !found
      ? `No class has the number, the name or a heavy label “${wanted}”.`
      : chosen.includes(found)
        ? `Class ${found.number} is already shown.`
        : "";
    form.lastChild.textContent = answer;
    if (!answer) location.hash = addressOf([...chosen, found]);
  });
  return form;
}

function shareWords(profile, label) {
  const element = profile.inOrder().find((each) => each.label === label);
  return element ? `${percent(element.share, 2)}${interval(element, 2)}` : percent(0, 2);
}

function comparePanel(mode, chosen) {
  const named = chosen.map((one) => ({ one, name: `class ${one.number}`, profile: one.profiles[mode.place] }));
  const labels = [...new Set(named.flatMap(({ profile }) => profile.top(12).map((element) => element.label)))];
  const rows = () =>
    labels.map((label) => [labelLink(mode, label), ...named.map(({ profile }) => shareWords(profile, label))]);
  const isTime = mode.kind === "time";
  const chart = isTime ? series(named) : sideBySide(named);
  return panel(
    bdi(mode.name),
    sameFactor(mode, chosen),
    legend([
      ...chosen.map((one, turn) => [(isTime ? seriesLine : seriesPoint)(turn), `${one.number}: ${one.name}`]),
      isTime ? evenShare(mode) : null,
    ]),
    isTime ? sameLines(named) : null,
    charted(
      `${mode.name} of ${named.map(({ name }) => name).join(", ")}`,
      chart,
      [mode.name, ...named.map(({ name }) => name)],
      rows,
    ),
  );
}

// Which lines of a chart look the same; nothing if none do.
export function sameLines(named) {
  const pairs = named.flatMap((one, n) => named.slice(n + 1).map((other) => [one, other]));
  const same = pairs.filter(([one, other]) => sameLine(one.profile, other.profile));
  if (!same.length) return null;
  const numbers = same.map(([one, other]) => `${one.one.number} and ${other.one.number}`).join(", of ");
  return make("p", { class: "caption" }, `The lines of classes ${numbers} are the same: one covers the other.`);
}

// Whether the classes have the same factor in a mode, and the probability for every two of them.
function sameFactor(mode, chosen) {
  const factors = chosen.map((one) => one.factors[mode.place]);
  const pairs = chosen.flatMap((one, n) => chosen.slice(n + 1).map((other) => [one, other]));
  const sure =
    given.consensus && pairs.length
      ? make(
          "p",
          { class: "quiet" },
          `Probability of the same factor: ${pairs.map((pair) => pairWords(pair, mode)).join(", ")}.`,
        )
      : null;
  if (new Set(factors).size === 1 && chosen.length > 1)
    return [make("p", { class: "samemark" }, "All use the same factor: ", chip(factors[0])), sure];
  const each = chosen.map((one, n) => [n ? ", " : "", `class ${one.number}: `, chip(factors[n])]);
  return [make("p", {}, each), sure];
}

const pairWords = ([one, other], mode) =>
  `${percent(sharingProbability(one, other, mode.place), 0)} for ${one.number} and ${other.number}`;
