// The cells that the model expected least, as a table.

import { labelLink, make, say } from "./elements.js";
import { given, modes } from "./model.js";
import { amount, plural, whole } from "./numbers.js";
import { plainText } from "./search.js";
import { sortableTable } from "./tables.js";

function surpriseColumns() {
  return [
    ...modes.map((mode, place) => ({
      heading: mode.name,
      kind: "text",
      value: (cell) => cell.labels[place],
      shown: (cell) => labelLink(mode, cell.labels[place]),
    })),
    {
      heading: "observed",
      kind: "number",
      value: (cell) => cell.observed,
      shown: (cell) => whole.format(cell.observed),
    },
    { heading: "expected", kind: "number", value: (cell) => cell.expected, shown: (cell) => amount(cell.expected) },
    {
      heading: "direction",
      kind: "text",
      value: (cell) => cell.direction,
      shown: (cell) =>
        make("span", { class: `direction ${cell.direction}` }, cell.direction === "more" ? "▲ more" : "▼ fewer"),
    },
    {
      heading: "surprise",
      kind: "number",
      value: (cell) => cell.surprise ?? Infinity,
      shown: (cell) => (cell.surprise === null ? "∞" : cell.surprise.toFixed(1)),
    },
  ];
}

export function surprisesView(parameters) {
  const filter = make("input", {
    type: "search",
    id: "cells",
    value: parameters.get("q") ?? "",
    placeholder: "any label",
  });
  const box = make("div", {});
  const columns = surpriseColumns();
  const draw = (changed) => {
    const wanted = plainText(filter.value.trim());
    const shown = given.surprises.filter((cell) => cell.labels.some((label) => plainText(label).includes(wanted)));
    box.replaceChildren(
      shown.length
        ? sortableTable(shown, columns, "Surprising cells", columns.length - 1)
        : make("p", { class: "quiet" }, "No listed cell has such a label."),
    );
    say(plural(shown.length, "cell"));
    if (changed)
      history.replaceState(
        null,
        "",
        `#/surprises${filter.value.trim() ? `?${new URLSearchParams({ q: filter.value.trim() })}` : ""}`,
      );
  };
  filter.addEventListener("input", () => draw(true));
  draw(false);
  return [
    make("h1", {}, "Surprising cells"),
    make(
      "p",
      {},
      `The ${plural(given.surprises.length, "cell")} that the model expected least. `,
      "A surprise of 6 means that a count at least as extreme has a probability of one in a million ",
      "(two-sided, averaged over all draws). The model was fitted to these cells: they are what it could not explain.",
    ),
    given.allSearched
      ? null
      : make(
          "p",
          { class: "warn" },
          "The search among cells without counts stopped early: it covered those that are the least likely to be zero.",
        ),
    make("div", { class: "filters" }, make("label", { for: "cells" }, "show cells with the label", filter)),
    box,
  ];
}
