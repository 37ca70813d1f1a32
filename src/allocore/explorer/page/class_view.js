// The view of one class.

import { bdi, link, make, panel, say } from "./elements.js";
import { factorPanel } from "./factor_view.js";
import { classes, family, sizeOf, titleOf } from "./model.js";
import { classTable } from "./tables.js";

export function classView(one) {
  const relatives = family(one);
  const sharedBy = new Map(relatives.map(({ other, shared }) => [other, shared]));
  return [
    make("p", { class: "crumbs" }, neighbour(one.number - 1, "← larger"), neighbour(one.number + 1, "smaller →")),
    make("h1", {}, `Class ${one.number}`),
    make("p", { class: "lead" }, bdi(titleOf(one))),
    make("p", {}, sizeOf(one)),
    make(
      "p",
      { class: "actions" },
      link(
        `#/compare/${one.number}${relatives.length ? `,${relatives[0].other.number}` : ""}`,
        relatives.length ? `Compare with class ${relatives[0].other.number}` : "Compare with others",
      ),
      copyButton(),
    ),
    make(
      "div",
      { class: "columns" },
      one.factors.map((factor) => factorPanel(factor, one)),
    ),
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

function neighbour(number, text) {
  return number in classes ? link(`#/class/${number}`, text) : make("span", { class: "quiet" }, text);
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
