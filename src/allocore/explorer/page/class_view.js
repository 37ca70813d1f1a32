// The view of one class: its size and support, its profile in every mode, its top cells, and its relatives.

import { balanced } from "./balanced.js";
import { bdi, chip, classLink, fullName, labelLink, link, make, nameOf, panel, say, simpleTable } from "./elements.js";
import { LEVEL, classes, family, given, modes, partners, sizeOf, supportOf } from "./model.js";
import { amount, percent, sentence, whole } from "./numbers.js";
import { profileFigures } from "./profile_figures.js";
import { classTable } from "./tables.js";

const MOST_NAMED = 8;

export function classView(one) {
  const relatives = family(one);
  const sharedBy = new Map(relatives.map(({ other, shared }) => [other, shared]));
  return [
    make("p", { class: "crumbs" }, neighbour(one.place - 1, "← larger"), neighbour(one.place + 1, "smaller →")),
    make("h1", {}, make("span", { class: "eyebrow" }, `Class ${one.number}`), " ", nameOf(one)),
    make("p", { class: "lead" }, [sentence(supportOf(one)), sizeOf(one)].filter(Boolean).join(" ")),
    one.apart
      ? make("p", { class: "warn" }, "This class is small or weakly supported. It is listed apart from the others.")
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
  const intervals = given.consensus ? ` Bands and bars behind them are ${LEVEL}s over the draws.` : "";
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
  const { same, perhaps } = partners(one, place);
  if (!same.length && !perhaps.length) return "used by this class alone";
  return [
    same.length ? ["shared with ", listed(same)] : null,
    same.length && perhaps.length ? "; " : null,
    perhaps.length ? ["perhaps shared with ", listed(perhaps)] : null,
  ];
}

// Numbers of classes with the probability that they share a factor, which a single draw does not have.
function listed(partnersOf) {
  const shown = partnersOf
    .slice(0, MOST_NAMED)
    .map(({ other, sure }, n) => [
      n ? ", " : "",
      make(
        "span",
        { class: "partner" },
        classLink(other, String(other.number)),
        given.consensus ? probability(sure) : "",
      ),
    ]);
  const more = partnersOf.length - MOST_NAMED;
  return [partnersOf.length === 1 ? "class " : "classes ", shown, more > 0 ? ` and ${more} more` : ""];
}

const probability = (sure) => `: ${percent(sure, 0)}`;

// Missing cells take their counts out of the profile of a class, but not out of its factor.
function factorItself(factor) {
  const body = make("div", {});
  const shown = factor.classes[0];
  const whose =
    factor.classes.length > 1 && given.consensus ? ` It is shown as its largest class, ${shown.number}, has it.` : "";
  const details = make("details", { class: "astable itself" }, make("summary", {}, "The factor itself"), body);
  details.addEventListener("toggle", () => {
    if (!details.open || body.firstChild) return;
    const told = `The factor does not depend on which cells are missing.${whose} `;
    body.append(make("p", { class: "quiet" }, told, link(factor.link, `All about ${factor.name}`)));
    body.append(...[profileFigures(factor)].flat(Infinity).filter(Boolean));
  });
  return details;
}

function topCells(one) {
  const listedModes = given.cells.modes.map((place) => modes[place]);
  if (!one.cells.length) return make("p", { class: "quiet" }, "No observed cell has an expected count above zero.");
  const summed = modes.filter((mode) => !listedModes.includes(mode)).map((mode) => mode.name);
  const rows = one.cells.map((cell) => [
    ...listedModes.map((mode, n) => labelLink(mode, given.cells.labels[n][cell[n]])),
    ...cell.slice(listedModes.length, -1).map(amount),
    whole.format(cell.at(-1)),
  ]);
  const headings = [
    ...listedModes.map((mode) => bdi(mode.name)),
    "expected of this class",
    "expected of all classes",
    "observed",
  ];
  return [
    make(
      "p",
      { class: "quiet" },
      `Where the class explains the most counts${summed.length ? `, summed over ${summed.join(" and ")}` : ""}: `,
      "what it expects there, what all classes expect together, and what was observed.",
    ),
    make("div", { class: "tablebox cells" }, simpleTable(headings, rows, `Top cells of class ${one.number}`, 3)),
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
