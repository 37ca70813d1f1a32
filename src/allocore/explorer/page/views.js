// A class, a factor with all classes that share it, classes side by side, and the surprising cells.

const MOST_COMPARED = 3;
const OVERLAID = 6;

function classView(one) {
  const relatives = family(one);
  const sharedBy = new Map(relatives.map(({ other, shared }) => [other, shared]));
  return [
    make("p", { class: "crumbs" }, neighbour(one.number - 1, "← larger"), neighbour(one.number + 1, "smaller →")),
    make("h1", {}, `Class ${one.number}`),
    make("p", { class: "lead" }, bdi(titleOf(one))),
    make("p", {}, facts(one)),
    make("p", { class: "actions" }, link(`#/compare/${one.number}${relatives.length ? `,${relatives[0].other.number}` : ""}`, relatives.length ? `Compare with class ${relatives[0].other.number}` : "Compare with others"), copyButton()),
    make("div", { class: "columns" }, one.factors.map((factor) => factorPanel(factor, one))),
    panel(
      `Classes that share its factors (${relatives.length})`,
      relatives.length
        ? classTable(relatives.map(({ other }) => other), { caption: `Classes that share factors with class ${one.number}`, same: (other) => sharedBy.get(other) })
        : make("p", { class: "quiet" }, "None: each of its factors is its own."),
    ),
  ];
}

function neighbour(number, text) {
  return number in classes ? link(`#/class/${number}`, text) : make("span", { class: "quiet" }, text);
}

function facts(one) {
  const held = one.stability === null ? "" : ` A class like it is in ${percent(one.stability, 0)} of the other draws${one.chains === null ? "" : ` and in ${percent(one.chains, 0)} of the chains`}.`;
  return `${amount(one.value)} expected counts: ${percent(one.share, 2)} of all, ${percent(one.cumulative)} with all larger classes.${held}`;
}

function copyButton() {
  const button = make("button", { type: "button", onclick: () => copied() }, "Copy the link to this page");
  const copied = () => {
    const done = () => say("The link was copied");
    // Browsers keep the clipboard from some local files: then the address bar has the same link.
    if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(done, () => say("The link stands in the address bar"));
    else say("The link stands in the address bar");
    button.textContent = navigator.clipboard ? "Copied" : "See the address bar";
  };
  return button;
}

// The charts of one factor, by what its labels are, and the way to those who share it.
function factorPanel(factor, one = null) {
  const others = factor.classes.filter((other) => other !== one);
  const sharing = one === null ? null : make("p", { class: "sharing" }, chip(factor), others.length ? [" shared with ", listed(others)] : " used by this class alone");
  return panel(bdi(factor.mode.name), sharing, factorCharts(factor));
}

function listed(others) {
  const most = 8;
  const shown = others.slice(0, most).map((other, n) => [n ? ", " : "", classLink(other, String(other.number))]);
  return [others.length === 1 ? "class " : "classes ", shown, others.length > most ? ` and ${others.length - most} more` : ""];
}

function factorCharts(factor) {
  if (factor.empty) return make("p", { class: "quiet" }, "All its weights are too small to tell.");
  const mode = factor.mode;
  const described = `${factor.name}: ${factor.words}`;
  const ordering = mode.kind === "time" || mode.kind === "order";
  const rows = () => (ordering ? factor.inOrder() : factor.heaviest().slice(0, 1000)).map((element) => [labelLink(mode, element.label), percent(element.share, 2)]);
  const headings = [mode.name, "share"];
  const even = factor.even ? make("p", { class: "quiet" }, `Evenly over all ${mode.length}.`) : null;
  if (mode.kind === "time") {
    const told = factor.peaks.length ? make("p", {}, "Peaks: ", words(factor)) : even;
    return [charted(described, series([{ name: factor.name, factor }]), headings, rows), told];
  }
  if (mode.kind === "order" && mode.labels.length <= 60) return [charted(described, ordered(factor), headings, rows), even];
  const rest = mode.cut ? make("p", { class: "quiet" }, `The heaviest of ${whole.format(mode.length)} labels; they hold ${percent(d3.sum(factor.inOrder(), (element) => element.share))}.`) : null;
  return [
    mode.iso ? drawn(make("div", { class: "chart map", role: "img", "aria-label": `Map of ${described}` }), worldMap(factor)) : null,
    charted(described, ranked(factor), headings, rows),
    mode.length > RANKED ? make("p", { class: "caption" }, `${mode.cut ? "Its" : `All ${mode.length}`} labels in their own order:`) : null,
    mode.length > RANKED ? drawn(make("div", { class: "chart strip", "aria-hidden": "true" }), fingerprint(factor)) : null,
    rest,
    even,
  ];
}

function factorView(factor) {
  const users = factor.classes;
  const time = modes.find((mode) => mode.kind === "time" && mode !== factor.mode);
  const overlaid = users.slice(0, OVERLAID).map((one) => ({ name: `class ${one.number}`, factor: time && one.factors[time.place] }));
  return [
    make("p", { class: "crumbs" }, link("#/", "Overview"), users.length ? classLink(users[0]) : null),
    make("h1", {}, bdi(factor.name)),
    make("p", { class: "lead" }, words(factor, 5)),
    make("p", {}, users.length > 1 ? `${users.length} classes share this ${factor.mode.name} factor; together they hold ${percent(factor.mass)} of all. This is how they differ:` : `One class uses this factor; it holds ${percent(factor.mass)} of all.`),
    classTable(users, { caption: `Classes that use ${factor.name}`, skip: factor.mode.place, same: sameAsFirst(users, factor.mode.place) }),
    users.length > 1 && users.length <= MOST_COMPARED ? make("p", {}, link(`#/compare/${users.map((one) => one.number)}`, "See them side by side")) : null,
    make(
      "div",
      { class: "grid" },
      panel(`The factor: ${factor.name}`, factorCharts(factor)),
      time && users.length > 1
        ? panel(
            `When: ${time.name} of its ${users.length > OVERLAID ? `${OVERLAID} largest ` : ""}classes`,
            legend(users.slice(0, OVERLAID).map((one) => classLink(one))),
            charted(`Shares over ${time.name} of the classes that use ${factor.name}`, series(overlaid), [time.name, ...overlaid.map(({ name }) => name)], () =>
              time.labels.map((label, n) => [label, ...overlaid.map((each) => percent(each.factor.inOrder()[n].share, 2))]),
            ),
          )
        : null,
    ),
  ];
}

// Which other factors a class has in common with the largest of the group.
function sameAsFirst(users, skip) {
  return (one) => new Set(one === users[0] ? [] : modes.filter((mode) => mode.place !== skip && one.factors[mode.place] === users[0].factors[mode.place]).map((mode) => mode.place));
}

function compareView(numbers) {
  const chosen = [...new Set(numbers)].map((number) => classes[number]).filter(Boolean).slice(0, MOST_COMPARED);
  const add = make("input", { type: "number", id: "add", min: 0, max: classes.length - 1, placeholder: "number" });
  const full = chosen.length === MOST_COMPARED;
  const form = make("form", { class: "filters" }, make("label", { for: "add" }, full ? "leave one out to add another" : "add a class", add), make("button", { disabled: full }, "Add"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (add.value === "") return;
    location.hash = `#/compare/${[...chosen.map((one) => one.number), add.value]}`;
  });
  const heads = chosen.map((one, turn) =>
    make("div", { class: "compared", style: `border-color:${SERIES[turn]}` }, make("h2", {}, make("span", { class: "dot", style: `background:${SERIES[turn]}` }), classLink(one, `Class ${one.number}`)), make("p", {}, bdi(titleOf(one))), make("p", { class: "quiet" }, facts(one)), chosen.length > 1 ? link(`#/compare/${chosen.filter((other) => other !== one).map((other) => other.number)}`, "leave out") : null),
  );
  return [
    make("h1", {}, "Compare"),
    make("p", { class: "quiet" }, `Up to ${MOST_COMPARED} classes side by side.`),
    form,
    make("div", { class: "compare" }, heads),
    chosen.length ? make("div", { class: "grid" }, modes.map((mode) => comparePanel(mode, chosen))) : null,
  ];
}

function comparePanel(mode, chosen) {
  const named = chosen.map((one) => ({ name: `class ${one.number}`, factor: one.factors[mode.place] }));
  const kinds = new Set(named.map(({ factor }) => factor));
  const same = kinds.size === 1 && chosen.length > 1 ? make("p", { class: "samemark" }, `All use the same factor, `, chip(named[0].factor)) : make("p", {}, named.map(({ name, factor }, n) => [n ? ", " : "", name, ": ", chip(factor)]));
  const labels = [...new Set(named.flatMap(({ factor }) => factor.top(12).map((element) => element.label)))];
  const rows = () => labels.map((label) => [labelLink(mode, label), ...named.map(({ factor }) => percent(factor.inOrder().find((element) => element.label === label)?.share ?? 0, 2))]);
  const chart = mode.kind === "time" ? series(named) : sideBySide(named);
  return panel(bdi(mode.name), same, legend(named.map(({ name }) => name)), charted(`${mode.name} of ${named.map(({ name }) => name).join(", ")}`, chart, [mode.name, ...named.map(({ name }) => name)], rows));
}

function surprisesView(parameters) {
  const filter = make("input", { type: "search", id: "cells", value: parameters.get("q") ?? "", placeholder: "any label" });
  const box = make("div", {});
  const columns = [
    ...modes.map((mode, place) => ({ heading: mode.name, kind: "text", value: (cell) => cell.labels[place], shown: (cell) => labelLink(mode, cell.labels[place]) })),
    { heading: "observed", kind: "number", value: (cell) => cell.observed, shown: (cell) => whole.format(cell.observed) },
    { heading: "expected", kind: "number", value: (cell) => cell.expected, shown: (cell) => amount(cell.expected) },
    { heading: "direction", kind: "text", value: (cell) => cell.direction, shown: (cell) => make("span", { class: `direction ${cell.direction}` }, cell.direction === "more" ? "▲ more" : "▼ fewer") },
    { heading: "surprise", kind: "number", value: (cell) => cell.surprise ?? Infinity, shown: (cell) => (cell.surprise === null ? "∞" : cell.surprise.toFixed(1)) },
  ];
  const draw = (changed) => {
    const wanted = plainText(filter.value.trim());
    const shown = given.surprises.filter((cell) => cell.labels.some((label) => plainText(label).includes(wanted)));
    box.replaceChildren(shown.length ? sortableTable(shown, columns, "Surprising cells", columns.length - 1) : make("p", { class: "quiet" }, "No such cell among them."));
    say(plural(shown.length, "cell"));
    if (changed) history.replaceState(null, "", `#/surprises${filter.value.trim() ? `?${new URLSearchParams({ q: filter.value.trim() })}` : ""}`);
  };
  filter.addEventListener("input", () => draw(true));
  draw(false);
  return [
    make("h1", {}, "Surprising cells"),
    make("p", {}, `The ${plural(given.surprises.length, "cell")} least expected by the model: how often they happened, and how often they would have been expected to. A surprise of 6 means that a count as far off comes once in a million (two-sided, averaged over all draws). The model has seen these cells, so what it calls surprising is what it could not explain.`),
    given.allSearched ? null : make("p", { class: "warn" }, "The search for cells without counts was stopped early: of those, only the ones with the largest expected counts are among them."),
    make("div", { class: "filters" }, make("label", { for: "cells" }, "show cells with", filter)),
    box,
  ];
}
