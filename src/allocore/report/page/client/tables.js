// Tables: classes with their factors in every mode, and rows that can be sorted by any column.

import {
  apartNote,
  bdi,
  chip,
  classLink,
  make,
  namedLink,
  roomFor,
  say,
  shareBar,
  tableBox,
  words,
} from "./elements.js";
import { sparkline } from "./profile_charts.js";
import { modes } from "./model.js";
import { percent } from "./numbers.js";

const ROWS_AT_ONCE = 25;

// A table of classes. Those that are small or weakly supported come last and are faint. Only the first rows are shown
// at once; a button shows the rest.
export function classTable(chosen, options) {
  const rows = d3.sort(chosen, (one) => one.apart);
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

// `same` gives for each class the modes in which it has the same factor as the subject of the view; `sure` the other
// classes with which it shares the factor of the view most surely, and the probabilities.
function classRows(rows, { caption, same = () => new Set(), sure = null, skip = -1 } = {}) {
  const room = roomFor(rows);
  const shownModes = modes.filter((mode) => mode.place !== skip);
  const head = ["class", "share", ...(sure ? ["shares the factor with"] : []), ...shownModes.map((mode) => mode.name)];
  const body = rows.map((one) => {
    const shared = same(one);
    return make(
      "tr",
      { class: one.apart ? "apart" : null },
      make("th", { scope: "row" }, namedLink(one), apartNote(one)),
      make("td", {}, shareBar(one, room)),
      sure ? make("td", {}, surest(sure(one))) : null,
      shownModes.map((mode) => {
        const [profile, factor] = [one.profiles[mode.place], one.factors[mode.place]];
        const known = shared.has(mode.place);
        return make(
          "td",
          { class: known ? "same" : "" },
          mode.kind === "time" ? sparkline(profile, 90, 20) : null,
          make("div", {}, known ? make("span", { class: "samemark" }, "same: ") : null, words(profile, 3)),
          chip(factor, { plain: true }),
        );
      }),
    );
  });
  return tableBox(
    "classtable",
    caption,
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
  );
}

const surest = (others) =>
  others.map(({ other, sure }) => make("div", { class: "partner" }, classLink(other), `: ${percent(sure, 0)}`));

// A table that can be sorted by any column. A column has a heading, a value to sort by, and what is shown.
export function sortableTable(rows, columns, caption, first) {
  const box = make("div");
  let by = first;
  let down = true;
  const draw = (focused = false) => {
    const value = columns[by].value;
    const sorted = [...rows].sort((a, b) => (down ? -1 : 1) * d3.ascending(value(a), value(b)));
    const heads = columns.map((column, n) =>
      make(
        "th",
        { scope: "col", class: column.kind, "aria-sort": n === by ? (down ? "descending" : "ascending") : "none" },
        make(
          "button",
          { type: "button", class: "sorter", onclick: () => sortBy(n) },
          column.heading,
          n === by ? (down ? " ↓" : " ↑") : "",
        ),
      ),
    );
    box.replaceChildren(
      tableBox(
        null,
        caption,
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
