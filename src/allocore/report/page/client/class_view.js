// The view of one class: its size and support, its profile in every mode, its top cells, and its relatives.

import { balanced } from "./balanced.js";
import { bdi, chip, classLink, fullName, labelLink, link, make, nameOf, panel, say, simpleTable } from "./elements.js";
import { LEVEL, classes, family, given, modes, sharingProbability, sizeOf } from "./model.js";
import { amount, percent, sentence, whole } from "./numbers.js";
import { profileFigures } from "./profile_figures.js";
import { classTable } from "./tables.js";

export function classView(one) {
  const relatives = family(one);
  const sharedBy = new Map(relatives.map(({ other, shared }) => [other, shared]));
  return [
    make("p", { class: "crumbs" }, neighbour(one.place - 1, "← larger"), neighbour(one.place + 1, "smaller →")),
    make("h1", {}, make("span", { class: "eyebrow" }, `Class ${one.number}`), " ", nameOf(one)),
    make("p", { class: "lead" }, [sentence(one.support), sizeOf(one)].filter(Boolean).join(" ")),
    one.apart
      ? make("p", { class: "warn" }, "This class is small or weakly supported. It is listed below the others.")
      : null,
    make("p", { class: "quiet" }, whatIsShown()),
    make(
      "p",
      { class: "actions" },
      link(
        `#/compare/${one.number}${relatives.length ? `,${relatives[0].other.number}` : ""}`,
        relatives.length ? ["Compare with ", fullName(relatives[0].other)] : "Compare with others",
      ),
      copyButton(),
    ),
    panel("Top cells", topCells(one)),
    balanced(modes.map((mode) => modePanel(one, mode))),
    panel(
      `Classes that share its factors (${relatives.length})`,
      relatives.length
        ? classTable(
            relatives.map(({ other }) => other),
            { caption: `Classes that share factors with class ${one.number}`, same: (other) => sharedBy.get(other) },
          )
        : make("p", { class: "quiet" }, "None: no other class uses any of its factors."),
    ),
  ];
}

function whatIsShown() {
  const cells = given.data.missing ? "the observed cells" : "all cells";
  const intervals = given.consensus ? ` The bands and bars behind them are ${LEVEL}s over the draws.` : "";
  return `The charts show the shares of its ${given.counted} in ${cells}.${intervals}`;
}

function neighbour(place, text) {
  return place in classes ? classLink(classes[place], text) : make("span", { class: "quiet" }, text);
}

// The profile of a class in one mode, who shares its factor, and the factor itself where it is not the same.
function modePanel(one, mode) {
  const factor = one.factors[mode.place];
  return panel(
    bdi(mode.name),
    make("p", { class: "sharing" }, chip(factor), " ", sharingWords(one, mode.place)),
    profileFigures(one.profiles[mode.place]),
    given.data.missing ? factorItself(factor) : null,
  );
}

function sharingWords(one, place) {
  const { same, sameNumber, perhaps, perhapsNumber } = one.sharers[place];
  if (!sameNumber && !perhapsNumber) return "not shared";
  return [
    sameNumber ? ["shared with ", classLinks(one, same, sameNumber, place)] : null,
    sameNumber && perhapsNumber ? "; " : null,
    perhapsNumber ? ["perhaps shared with ", classLinks(one, perhaps, perhapsNumber, place)] : null,
  ];
}

// Numbers of classes with the probability that they share the factor of a class, which a single draw does not have.
function classLinks(one, others, number, place) {
  const shown = others.map((other, n) => [
    n ? ", " : "",
    make(
      "span",
      { class: "partner" },
      classLink(other, String(other.number)),
      given.consensus ? `: ${percent(sharingProbability(one, other, place), 0)}` : "",
    ),
  ]);
  const more = number - others.length;
  return [number === 1 ? "class " : "classes ", shown, more > 0 ? ` and ${more} more` : ""];
}

// Missing cells take their counts out of the profile of a class, but not out of its factor.
function factorItself(factor) {
  const body = make("div", {});
  const shown = factor.classes[0];
  const whose =
    factor.classes.length > 1 && given.consensus ? ` It is shown as its largest class, ${shown.number}, has it.` : "";
  const details = make("details", { class: "astable itself" }, make("summary", {}, "The factor itself"), body);
  details.addEventListener("toggle", () => {
    if (!details.open || body.firstChild) return;
    const note = `The factor does not depend on which cells are missing.${whose} `;
    body.append(make("p", { class: "quiet" }, note, link(factor.link, `More on ${factor.name}`)));
    body.append(...[profileFigures(factor)].flat(Infinity).filter(Boolean));
  });
  return details;
}

function topCells(one) {
  const shownModes = given.cells.modes.map((place) => modes[place]);
  if (!one.cells.length) return make("p", { class: "quiet" }, "No observed cell has an expected count above zero.");
  const summed = modes.filter((mode) => !shownModes.includes(mode)).map((mode) => mode.name);
  const rows = one.cells.map((cell) => [
    ...shownModes.map((mode, n) => labelLink(mode, given.cells.labels[n][cell[n]])),
    ...cell.slice(shownModes.length, -1).map(amount),
    whole.format(cell.at(-1)),
  ]);
  const headings = [
    ...shownModes.map((mode) => bdi(mode.name)),
    "expected of this class",
    "expected of all classes",
    "observed",
  ];
  const box = simpleTable(headings, rows, `Top cells of class ${one.number}`, 3);
  box.classList.add("cells");
  return [
    make(
      "p",
      { class: "quiet" },
      `Where the class explains the most counts${summed.length ? `, summed over ${summed.join(" and ")}` : ""}: `,
      "what it expects there, what all classes expect together, and what was observed.",
    ),
    box,
  ];
}

function copyButton() {
  const button = make("button", { type: "button", onclick: () => copyLink(button) }, "Copy the link to this page");
  return button;
}

// Browsers deny the clipboard to some local files; the address bar shows the same link.
async function copyLink(button) {
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
    say("The link was copied");
  } catch {
    button.textContent = "Copy it from the address bar";
    say("The link could not be copied; it is in the address bar");
  }
}
