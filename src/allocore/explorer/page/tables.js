// Tables: classes with their factors in every mode, and rows that can be sorted by any column.

import { bdi, chip, classLink, make, say, shareBar, words } from "./elements.js";
import { sparkline } from "./factor_charts.js";
import { modes } from "./model.js";

const ROWS_AT_ONCE = 25;

// A table of classes. Only its first rows are shown at once; a button shows the rest.
export function classTable(rows, options) {
  const box = make("div", {}, classRows(rows.slice(0, ROWS_AT_ONCE), options));
  if (rows.length > ROWS_AT_ONCE) {
    const all = () => {
      box.replaceChildren(classRows(rows, options));
      say(`All ${rows.length} classes are shown`);
    };
    box.append(make("p", {}, make("button", { type: "button", onclick: all }, `Show all ${rows.length} classes`)));
  }
  return box;
}

// `same` gives for each class the modes in which it has the same factor as the subject of the view.
function classRows(rows, { caption, same = () => new Set(), skip = -1 } = {}) {
  const most = Math.max(...rows.map((one) => one.share));
  const shownModes = modes.filter((mode) => mode.place !== skip);
  const head = ["class", "share", ...shownModes.map((mode) => mode.name)];
  const body = rows.map((one) => {
    const shared = same(one);
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, classLink(one)),
      make("td", {}, shareBar(one.share, most)),
      shownModes.map((mode) => {
        const factor = one.factors[mode.place];
        const known = shared.has(mode.place);
        return make(
          "td",
          { class: known ? "same" : "" },
          mode.kind === "time" ? sparkline(factor, 90, 20) : null,
          make("div", {}, known ? make("span", { class: "samemark" }, "same: ") : null, words(factor, 3)),
          chip(factor, { plain: true }),
        );
      }),
    );
  });
  return make(
    "div",
    { class: "tablebox" },
    make(
      "table",
      { class: "classtable" },
      make("caption", { class: "hidden" }, caption),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          head.map((text) => make("th", { scope: "col" }, bdi(text))),
        ),
      ),
      make("tbody", {}, body),
    ),
  );
}

// A table that can be sorted by any column. A column has a heading, a value to sort by, and what is shown.
export function sortableTable(rows, columns, caption, first) {
  const box = make("div", { class: "tablebox" });
  let by = first;
  let down = true;
  const draw = (focused = false) => {
    const value = columns[by].value;
    const sorted = [...rows].sort((a, b) => (down ? -1 : 1) * d3.ascending(value(a), value(b)));
    const heads = columns.map((column, n) =>
      make(
        "th",
        { scope: "col", "aria-sort": n === by ? (down ? "descending" : "ascending") : "none" },
        make(
          "button",
          { type: "button", class: "sorter", onclick: () => sortBy(n) },
          column.heading,
          n === by ? (down ? " ↓" : " ↑") : "",
        ),
      ),
    );
    box.replaceChildren(
      make(
        "table",
        {},
        make("caption", { class: "hidden" }, caption),
        make("thead", {}, make("tr", {}, heads)),
        make(
          "tbody",
          {},
          sorted.map((row) =>
            make(
              "tr",
              {},
              columns.map((column) => make("td", { class: column.kind }, column.shown(row))),
            ),
          ),
        ),
      ),
    );
    if (focused) heads[by].firstChild.focus();
  };
  const sortBy = (n) => {
    down = n === by ? !down : columns[n].kind === "number";
    by = n;
    draw(true);
    say(`Sorted by ${columns[n].heading}, ${down ? "largest" : "smallest"} first`);
  };
  draw();
  return box;
}
