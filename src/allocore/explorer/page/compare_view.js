// Up to three classes side by side.

import { charted, legend } from "./chart_box.js";
import { SERIES } from "./chart_style.js";
import { bdi, chip, classLink, labelLink, link, make, panel } from "./elements.js";
import { series, sideBySide } from "./factor_charts.js";
import { classes, modes, sizeOf, titleOf } from "./model.js";
import { percent } from "./numbers.js";

export const MOST_COMPARED = 3;

export function compareView(numbers) {
  const chosen = [...new Set(numbers)]
    .map((number) => classes[number])
    .filter(Boolean)
    .slice(0, MOST_COMPARED);
  const add = make("input", { type: "number", id: "add", min: 0, max: classes.length - 1, placeholder: "number" });
  const full = chosen.length === MOST_COMPARED;
  const form = make(
    "form",
    { class: "filters" },
    make("label", { for: "add" }, full ? "remove a class to add another" : "add a class", add),
    make("button", { disabled: full }, "Add"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (add.value === "") return;
    location.hash = `#/compare/${[...chosen.map((one) => one.number), add.value]}`;
  });
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
      make("p", {}, bdi(titleOf(one))),
      make("p", { class: "quiet" }, sizeOf(one)),
      chosen.length > 1
        ? link(`#/compare/${chosen.filter((other) => other !== one).map((other) => other.number)}`, "remove")
        : null,
    ),
  );
  return [
    make("h1", {}, "Compare"),
    make("p", { class: "quiet" }, `Up to ${MOST_COMPARED} classes side by side.`),
    form,
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

function comparePanel(mode, chosen) {
  const named = chosen.map((one) => ({ name: `class ${one.number}`, factor: one.factors[mode.place] }));
  const kinds = new Set(named.map(({ factor }) => factor));
  const same =
    kinds.size === 1 && chosen.length > 1
      ? make("p", { class: "samemark" }, "All use the same factor: ", chip(named[0].factor))
      : make(
          "p",
          {},
          named.map(({ name, factor }, n) => [n ? ", " : "", name, ": ", chip(factor)]),
        );
  const labels = [...new Set(named.flatMap(({ factor }) => factor.top(12).map((element) => element.label)))];
  const rows = () =>
    labels.map((label) => [
      labelLink(mode, label),
      ...named.map(({ factor }) => percent(factor.inOrder().find((element) => element.label === label)?.share ?? 0, 2)),
    ]);
  const chart = mode.kind === "time" ? series(named) : sideBySide(named);
  return panel(
    bdi(mode.name),
    same,
    legend(named.map(({ name }) => name)),
    charted(
      `${mode.name} of ${named.map(({ name }) => name).join(", ")}`,
      chart,
      [mode.name, ...named.map(({ name }) => name)],
      rows,
    ),
  );
}
