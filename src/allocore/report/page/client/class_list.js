// The list of classes, with search, filters and sorting. The address holds all choices, so a link shows the same list.

import { bdi, chip, classLink, make, nameOf, roomFor, shareBar, words } from "./elements.js";
import { classes, given, modes } from "./model.js";
import { percent, plural } from "./numbers.js";
import { sparkline } from "./profile_charts.js";
import { rowsWith, search, weightOn } from "./search.js";

// For each order its name, by what it sorts, and which classes come first.
const SORTS = {
  relevance: [
    "best match",
    null,
    "best match first: those with most of their counts on what was searched for, times their size",
  ],
  value: ["size", (one) => -one.share, "largest first"],
  number: ["number", (one) => one.number, "by number"],
  support: ["support", (one) => -(one.inDraws ?? -1), "those in most draws first"],
  sharing: [
    "most shared factors",
    (one) => -d3.sum(one.factors, (factor) => factor.classes.length - 1),
    "those that share factors with most classes first",
  ],
  peak: ["time of the peak", (one) => peakRow(one), "earliest peak first"],
};

// The order of a list: the one that was chosen, or else the best matches of a search, or else the largest classes.
const orderOf = (state) => SORTS[state.get("sort")] ?? SORTS[state.get("q") ? "relevance" : "value"];

const NONE_FOUND =
  "No class has such a number, name or heavy label. A label counts if it has at least 2% of a profile.";

const room = roomFor(classes);
const overTime = (one) => one.profiles.find((profile) => profile.mode.kind === "time");

function peakRow(one) {
  return overTime(one)?.heaviest()[0].row ?? 0;
}

export function classList(parameters) {
  const list = make("ol", { class: "classlist" });
  const apart = apartList();
  const count = make("p", { class: "quiet", role: "status" });
  const controls = filters(parameters, () => refresh(true));
  const refresh = (changed) => {
    const state = controls.state();
    const found = foundClasses(state);
    count.textContent = `${countOf(found)}${found.length > 1 ? `; ${orderOf(state)[2]}` : ""}.`;
    controls.showOrder(state);
    list.replaceChildren(...found.filter(({ one }) => !one.apart).map(classItem));
    if (!found.length) list.append(make("li", { class: "quiet" }, NONE_FOUND));
    apart.show(
      found.filter(({ one }) => one.apart),
      [...state.keys()].some((key) => key !== "sort"),
    );
    if (changed) history.replaceState(null, "", `#/classes${state.toString() ? `?${state}` : ""}`);
  };
  refresh(false);
  return [make("h1", {}, "Classes"), controls.form, count, list, apart.box];
}

// The classes that are small or weakly supported: behind a heading, and open during a search.
function apartList() {
  const heading = make("h2", {});
  const list = make("ol", { class: "classlist apart" });
  const box = make("details", { class: "apartbox" }, make("summary", {}, heading), list);
  const show = (found, searched) => {
    heading.textContent = `Small or weakly supported (${plural(found.length, "class", "classes")})`;
    list.replaceChildren(...found.map(classItem));
    box.hidden = !found.length;
    box.open = searched;
  };
  return { box, show };
}

function countOf(found) {
  const some = found.length < classes.length ? `${found.length} of ` : "";
  const held = percent(d3.sum(found, ({ one }) => one.share));
  return `${some}${plural(classes.length, "class", "classes")}, ${held} of all ${given.counted}`;
}

function foundClasses(state) {
  const query = state.get("q") ?? "";
  let found = query ? search(query) : classes.map((one) => ({ one, matches: [] }));
  for (const mode of modes) {
    const wanted = state.get(`m${mode.place}`);
    if (!wanted) continue;
    const rows = rowsWith(mode, wanted);
    found = found.filter(({ one }) => weightOn(one.profiles[mode.place], rows) > 0);
  }
  const [, by] = orderOf(state);
  return by ? d3.sort(found, ({ one }) => by(one)) : found;
}

function filters(parameters, changed) {
  const query = make("input", {
    type: "search",
    id: "listquery",
    value: parameters.get("q") ?? "",
    placeholder: "label, name, number",
    oninput: changed,
  });
  const byMode = modes.map((mode) => {
    const id = `filter${mode.place}`;
    const input = make("input", {
      type: "search",
      id,
      list: `${id}list`,
      value: parameters.get(`m${mode.place}`) ?? "",
      placeholder: "any",
      oninput: changed,
    });
    const options = mode.labels.slice(0, 2000).map((label) => make("option", { value: label }));
    return {
      mode,
      input,
      field: make("label", { for: id }, bdi(mode.name), input, make("datalist", { id: `${id}list` }, options)),
    };
  });
  const offered = Object.entries(SORTS).filter(
    ([name]) => name !== "relevance" && (name !== "peak" || modes.some((mode) => mode.kind === "time")),
  );
  const chosen = parameters.get("sort");
  const usual = make("option", { value: "" });
  const showOrder = (state) => (usual.textContent = state.get("q") ? SORTS.relevance[0] : "size (usual order)");
  const sort = make(
    "select",
    { id: "sort", onchange: changed },
    usual,
    offered.map(([name, [text]]) => make("option", { value: name, selected: name === chosen }, text)),
  );
  const form = make(
    "form",
    { class: "filters", "aria-label": "Search, filter and sort" },
    make("label", { for: "listquery" }, "search", query),
    byMode.map(({ field }) => field),
    make("label", { for: "sort" }, "sort by", sort),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  const state = () => {
    const values = [
      ["q", query.value.trim()],
      ...byMode.map(({ mode, input }) => [`m${mode.place}`, input.value.trim()]),
      ["sort", sort.value],
    ];
    return new URLSearchParams(values.filter(([, value]) => value));
  };
  return { form, state, showOrder };
}

function classItem({ one, matches }) {
  return make(
    "li",
    {},
    make(
      "div",
      { class: "itemhead" },
      classLink(one, make("strong", {}, `Class ${one.number}`), " ", nameOf(one)),
      matches.length ? make("span", { class: "matched" }, `matches: ${matches.join(", ")}`) : null,
    ),
    make(
      "div",
      { class: "itemhead" },
      shareBar(one, room),
      one.support ? make("span", { class: "quiet" }, one.support) : null,
    ),
    make(
      "dl",
      { class: "itemmodes" },
      modes.map((mode) => modeOf(one, mode)),
    ),
  );
}

function modeOf(one, mode) {
  const profile = one.profiles[mode.place];
  return make(
    "div",
    {},
    make("dt", {}, bdi(mode.name), " ", chip(one.factors[mode.place], { plain: true })),
    make("dd", {}, mode.kind === "time" ? sparkline(profile) : null, words(profile, mode.kind === "time" ? 2 : 4)),
  );
}
