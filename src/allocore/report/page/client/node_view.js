// The view of one node: its communities, its largest partners, and its counts over time.

import { charted, legend, lineSample } from "./chart_box.js";
import { ACCENT, FAINT_INK, ROOM_BELOW, SERIES, base, tickMargin, tipStyle } from "./chart_style.js";
import { bdi, link, make, panel, shareBar, simpleTable } from "./elements.js";
import { given, modes } from "./model.js";
import { amount, percent, whole } from "./numbers.js";
import { classLinks, communityName, inRole, membership, nodeLink } from "./nodes_view.js";

const EXPECTED = SERIES[1];

// The view of the node with this label; nothing if there is none.
export function nodeView(label) {
  const { labels, memberships, directions } = given.nodes;
  const place = labels.indexOf(label);
  if (place < 0) return null;
  return [
    make("p", { class: "crumbs" }, link("#/nodes", "All nodes")),
    make("h1", {}, bdi(label)),
    memberships.map((group) => panel(`Its communities${inRole(group)}`, communities(group, group.nodes[place]))),
    make(
      "div",
      { class: "grid" },
      directions.map((direction) => panel(partnersOf(direction), partners(direction.partners[place]))),
    ),
    make(
      "div",
      { class: "grid" },
      directions
        .filter(({ times }) => times)
        .map(({ role, times }) => panel(`Over time${as(role)}`, overTime(label, times, place))),
    ),
  ];
}

// One direction is all there is if ties have none.
const as = (role) => (given.nodes.directions.length > 1 ? ` as ${role}` : "");

const partnersOf = ({ role }) => `Its largest partners${as(role)}`;

function communities(group, { mixed, other, expected }) {
  const rows = mixed
    .map(membership)
    .map((each) => [
      communityName(group.communities[each.community]),
      shareBar(each, 1),
      classLinks(group.communities[each.community].classes),
    ]);
  return [
    make(
      "p",
      { class: "quiet" },
      `Shares of its ${amount(expected)} ${given.counted}; ${percent(other, 0)} are in no community.`,
    ),
    rows.length ? simpleTable(["community", "membership", "classes"], rows, "Communities") : null,
  ];
}

function partners(rows) {
  if (!rows.length) return make("p", { class: "quiet" }, "None: it has no counts.");
  const known = new Set(given.nodes.labels);
  return simpleTable(
    ["partner", "observed", "expected"],
    rows.map(([label, observed, expected]) => [
      known.has(label) ? nodeLink(label) : bdi(label),
      whole.format(observed),
      amount(expected),
    ]),
    "Largest partners",
    2,
  );
}

function overTime(label, { observed, expected }, place) {
  const mode = modes[given.nodes.time];
  const points = mode.labels.map((period, n) => ({
    period,
    moment: mode.starts[n],
    observed: observed[place][n],
    expected: expected[place][n],
  }));
  const rows = () => points.map((each) => [each.period, amount(each.observed), amount(each.expected)]);
  return [
    legend([
      [lineSample(ACCENT), "counts"],
      [lineSample(EXPECTED, "dashed"), "expected"],
    ]),
    charted(`Counts of ${label} over time`, lines(points), [mode.name, "observed", "expected"], rows),
  ];
}

function lines(points) {
  const ticks = d3.ticks(0, d3.max(points, (each) => Math.max(each.observed, each.expected)) || 1, 4);
  const line = (y, stroke, more = {}) => Plot.lineY(points, { x: "moment", y, stroke, strokeWidth: 1.8, ...more });
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 190,
      marginTop: 10,
      marginLeft: tickMargin(ticks.map(amount)),
      marginRight: 12,
      marginBottom: ROOM_BELOW,
      x: { type: "utc", label: null, ticks: Math.max(3, Math.min(8, width / 90)) },
      y: { label: null, ticks, tickFormat: amount, grid: true, zero: true },
      marks: [
        line("expected", EXPECTED, { strokeDasharray: "5 3" }),
        line("observed", ACCENT),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(
          points,
          Plot.pointerX({
            x: "moment",
            y: "observed",
            title: (each) => `${each.period}  ${amount(each.observed)}, expected ${amount(each.expected)}`,
            ...tipStyle,
          }),
        ),
      ],
    });
}
