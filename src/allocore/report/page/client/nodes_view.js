// The nodes of a network: its communities, and a table that says to which of them every node belongs.

import { bdi, classLink, link, make, panel, say, shareBar, simpleTable } from "./elements.js";
import { LEVEL, classNumbered, given } from "./model.js";
import { amount, percent, plural, whole } from "./numbers.js";
import { plainText } from "./search.js";
import { sortableTable } from "./tables.js";

export const nodeLink = (label) => link(`#/nodes?${new URLSearchParams({ node: label })}`, bdi(label));

// The number and the name of a community.
export const communityName = ({ number, name }) => [`${number}: `, bdi(name)];

// The links to classes, by their numbers.
export const classLinks = (numbers) =>
  numbers.map((number, n) => [n ? ", " : "", classLink(classNumbered(number), String(number))]);

// A membership as the page draws it: the share of a node in a community, and its interval.
export const membership = ([community, share, low, high]) => ({ community, share, low, high });

// In which role nodes have the memberships of a group, if it matters.
export const inRole = ({ roles }) => (given.nodes.memberships.length > 1 ? ` as ${roles[0]}` : "");

export function nodesView(parameters) {
  const { number, labels, memberships } = given.nodes;
  const filter = make("input", {
    type: "search",
    id: "nodes",
    value: parameters.get("q") ?? "",
    placeholder: "node or community",
  });
  const boxes = memberships.map((group) => ({ group, rows: rowsOf(group), box: make("div", {}) }));
  const draw = (changed) => {
    const query = filter.value.trim();
    const wanted = plainText(query);
    for (const { group, rows, box } of boxes) {
      const shown = rows.filter((row) => row.text.includes(wanted));
      box.replaceChildren(
        shown.length
          ? sortableTable(
              shown,
              columnsOf(group),
              `Nodes${inRole(group)} and their communities`,
              columnsOf(group).length - 1,
            )
          : make("p", { class: "quiet" }, "No node has such a label or community."),
      );
      say(plural(shown.length, "node"));
    }
    if (changed) history.replaceState(null, "", `#/nodes${query ? `?${new URLSearchParams({ q: query })}` : ""}`);
  };
  filter.addEventListener("input", () => draw(true));
  draw(false);
  return [
    make("h1", {}, "Nodes"),
    make(
      "p",
      {},
      "A community is a factor that classes share. The membership of a node is the share of its expected counts in ",
      "the classes of a community; the main community of a node has most of them.",
      number > labels.length ? ` Shown are the ${whole.format(labels.length)} largest of ${whole.format(number)}.` : "",
    ),
    make("div", { class: "filters" }, make("label", { for: "nodes" }, "show nodes with", filter)),
    ...boxes.map(({ group, box }) => [
      panel(`Who belongs where${inRole(group)}`, box),
      panel(`The communities${inRole(group)}`, communityTable(group)),
    ]),
  ];
}

function rowsOf({ communities, nodes }) {
  return nodes.map((node, n) => {
    const label = given.nodes.labels[n];
    const main = node.main === null ? null : communities[node.main];
    const mixed = node.mixed.map(membership);
    const text = plainText(`${label} ${main ? `${main.number}: ${main.name}` : ""}`);
    return { ...node, label, main, mixed, text, own: mixed.find((each) => communities[each.community] === main) };
  });
}

const columnsOf = ({ communities }) => [
  { heading: "node", kind: "text", value: (row) => row.label, shown: (row) => nodeLink(row.label) },
  {
    heading: "main community",
    kind: "text",
    value: (row) => row.main?.number ?? Infinity,
    shown: (row) => (row.main ? communityName(row.main) : make("span", { class: "quiet" }, "none")),
  },
  {
    heading: "probability",
    kind: "number",
    value: (row) => row.probability ?? -1,
    shown: (row) => percent(row.probability, 0),
  },
  {
    heading: "membership",
    kind: "number",
    value: (row) => row.own?.share ?? -1,
    shown: (row) => (row.own ? shareBar(row.own, 1) : "–"),
  },
  {
    heading: "others",
    kind: "text",
    value: (row) => 1 - (row.own?.share ?? 0),
    shown: (row) =>
      row.mixed
        .filter((each) => each !== row.own)
        .slice(0, 3)
        .map((each) => `${communities[each.community].number}: ${percent(each.share, 0)}`)
        .join(", "),
  },
  { heading: "expected counts", kind: "number", value: (row) => row.expected, shown: (row) => amount(row.expected) },
];

function communityTable({ communities }) {
  return [
    make("p", { class: "quiet" }, `Largest first; bars in the table above have ${LEVEL}s behind them.`),
    simpleTable(
      ["community", "classes", "nodes", "share of all"],
      communities.map((each) => [
        communityName(each),
        classLinks(each.classes),
        whole.format(each.nodes),
        percent(each.share),
      ]),
      "Communities",
      2,
    ),
  ];
}
