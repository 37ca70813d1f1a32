// The list of classes, with search, filters and sorting. The address holds all choices, so a link shows the same list.

import { bdi, chip, classLink, make, shareBar, words } from "./elements.js";
import { sparkline } from "./factor_charts.js";
import { classes, given, modes } from "./model.js";
import { percent, plural } from "./numbers.js";
import { rowsWith, search, weightOn } from "./search.js";

const SORTS = {
  relevance: ["relevance", null],
  value: ["size", (one) => -one.share],
  stability: ["stability", (one) => -(one.stability ?? -1)],
  sharing: ["most shared factors", (one) => -d3.sum(one.factors, (factor) => factor.classes.length - 1)],
  peak: ["time of the peak", (one) => peakRow(one)],
};

const NONE_FOUND = "No class has such a heavy label. A label counts if it holds at least 2% of a factor.";

function peakRow(one) {
  const factor = one.factors.find((each) => each.mode.kind === "time");
  return factor ? factor.heaviest()[0].row : 0;
}

export function classList(parameters) {
  const list = make("ol", { class: "classlist" });
  const count = make("p", { class: "quiet", role: "status" });
  const controls = filters(parameters, () => refresh(true));
  const refresh = (changed) => {
    const state = controls.state();
    const found = foundClasses(state);
    count.textContent = countOf(found);
    list.replaceChildren(...found.map(({ one, matches }) => classItem(one, matches)));
    if (!found.length) list.append(make("li", { class: "quiet" }, NONE_FOUND));
    if (changed) history.replaceState(null, "", `#/classes${state.toString() ? `?${state}` : ""}`);
  };
  refresh(false);
  return [make("h1", {}, "Classes"), controls.form, count, list];
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
    found = found.filter(({ one }) => weightOn(one.factors[mode.place], rows) > 0);
  }
  const [, by] = SORTS[state.get("sort")] ?? SORTS[query ? "relevance" : "value"];
  return by ? d3.sort(found, ({ one }) => by(one)) : found;
}

function filters(parameters, changed) {
  const query = make("input", {
    type: "search",
    id: "listquery",
    value: parameters.get("q") ?? "",
    placeholder: "any label",
    oninput: changed,
  });
  const byMode = modes.map((mode) => {
    const id = `filter${mode.place}`;
    const input = make("input", {
      type: "search",
      id,
      list: `${id}list`,
      value: parameters.get(`m${mode.place}`) ?? "",
      placeholder: `any ${mode.name}`,
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
    ([name]) => name !== "peak" || modes.some((mode) => mode.kind === "time"),
  );
  const chosen = parameters.get("sort");
  const sort = make(
    "select",
    { id: "sort", onchange: changed },
    make("option", { value: "" }, "default order"),
    offered.slice(1).map(([name, [text]]) => make("option", { value: name, selected: name === chosen }, text)),
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
  return { form, state };
}

function classItem(one, matches) {
  const time = one.factors.find((factor) => factor.mode.kind === "time");
  const matched = matches.map(({ factor, weight }) => `${factor.mode.name} ${percent(weight, 0)}`);
  return make(
    "li",
    {},
    make(
      "div",
      { class: "itemhead" },
      classLink(one, make("strong", {}, `Class ${one.number}`)),
      shareBar(one.share, classes[0].share),
      one.stability === null ? null : make("span", { class: "quiet" }, `in ${percent(one.stability, 0)} of draws`),
      time ? sparkline(time) : null,
      matched.length ? make("span", { class: "matched" }, `matches: ${matched.join(", ")}`) : null,
    ),
    make(
      "dl",
      { class: "itemmodes" },
      one.factors.map((factor) => [
        make("dt", {}, bdi(factor.mode.name), " ", chip(factor, { plain: true })),
        make("dd", {}, words(factor, 4)),
      ]),
    ),
  );
}
