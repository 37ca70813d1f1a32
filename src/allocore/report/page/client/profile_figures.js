// The figures of a profile or factor, by what its labels are: a map, bars, or a line over time, each with its numbers.

import { bandSample, charted, drawn, legend, lineSample } from "./chart_box.js";
import { ACCENT, FAINT_INK } from "./chart_style.js";
import { labelLink, make, words } from "./elements.js";
import { LEVEL } from "./model.js";
import { percent, range, whole } from "./numbers.js";
import { RANKED, fingerprint, ordered, ranked, series } from "./profile_charts.js";
import { worldMap } from "./world_map.js";

const MOST_ROWS = 1000;
const MOST_ORDERED = 60;

export function profileFigures(profile) {
  if (profile.empty) return make("p", { class: "quiet" }, "All its weights are too small to compare.");
  const { mode } = profile;
  const even = profile.even ? make("p", { class: "quiet" }, `Spread evenly over all ${mode.length} labels.`) : null;
  if (mode.kind === "time") {
    const peaks = profile.peaks.length ? make("p", { class: "caption" }, "Peaks: ", words(profile)) : even;
    return [peaks, lineLegend(profile), numbered(profile, series([{ name: profile.name, profile }]))];
  }
  if (mode.kind === "order" && mode.labels.length <= MOST_ORDERED) return [even, numbered(profile, ordered(profile))];
  const described = `Map of ${profile.name}: ${profile.words}`;
  return [
    even,
    mode.iso
      ? drawn(make("div", { class: "chart map", role: "img", "aria-label": described }), worldMap(profile))
      : null,
    numbered(profile, ranked(profile)),
    mode.length > RANKED ? allLabels(profile) : null,
    mode.cut ? make("p", { class: "quiet" }, heldByShown(profile)) : null,
  ];
}

// What the line over time, the band and the dotted line are.
const lineLegend = ({ mode, hasIntervals }) =>
  legend([
    [lineSample(ACCENT), `share by ${mode.wording === "weeks" ? "week" : mode.name}`],
    hasIntervals ? [bandSample(ACCENT), LEVEL] : null,
    evenShare(mode),
  ]);

export const evenShare = (mode) => [
  lineSample(FAINT_INK, "dotted"),
  `if spread evenly (${percent(1 / mode.length, mode.length > 50 ? 1 : 0)})`,
];

// A chart with the shares, and their intervals, as a table.
function numbered(profile, chart) {
  const { mode } = profile;
  const ordering = mode.kind === "time" || mode.kind === "order";
  const rows = () =>
    (ordering ? profile.inOrder() : profile.heaviest().slice(0, MOST_ROWS)).map((element) => [
      labelLink(mode, element.label),
      percent(element.share, 2),
      ...(profile.hasIntervals ? [range(element, 2)] : []),
    ]);
  const headings = [mode.name, "share", ...(profile.hasIntervals ? [LEVEL] : [])];
  return charted(`${profile.name}: ${profile.words}`, chart, headings, rows);
}

// All labels as in the paper, for those who look for a pattern in the order of the data. It names none of them, so it
// is closed at first.
function allLabels(profile) {
  const { cut, length } = profile.mode;
  return make(
    "details",
    { class: "astable" },
    make("summary", {}, `${cut ? "These" : `All ${length}`} labels in their original order`),
    drawn(make("div", { class: "chart strip", "aria-hidden": "true" }), fingerprint(profile)),
  );
}

function heldByShown(profile) {
  const shown = d3.sum(profile.inOrder(), (element) => element.share);
  return `The largest of ${whole.format(profile.mode.length)} labels; together they have ${percent(shown)}.`;
}
