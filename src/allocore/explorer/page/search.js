// The search for classes that have a label among the heavy ones of their factors.

import { FAINT, classes, modes } from "./model.js";

const OFTEN = 1.5; // a period matches if its share is at least this many times the even share

export const plainText = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

const searched = modes.map((mode) => mode.labels.map(plainText));

// The rows of a mode whose labels contain a text.
export function rowsWith(mode, text) {
  const wanted = plainText(text.trim());
  const labels = searched[mode.place];
  const exact = labels.indexOf(wanted);
  if (exact >= 0) return new Set([exact]); // Niger is not Nigeria
  const rows = new Set();
  if (wanted) labels.forEach((label, row) => label.includes(wanted) && rows.add(row));
  return rows;
}

// The share of a factor on some rows, or 0 if it is too small to match. Nearly every class has some counts in every
// period, so a period must hold clearly more than its even share.
export function weightOn(factor, rows) {
  if (!rows.size || factor.even) return 0;
  const weight = factor.shareOf(rows);
  const mode = factor.mode;
  const expected = mode.kind === "time" || mode.kind === "order" ? Math.min((OFTEN * rows.size) / mode.length, 0.5) : 0;
  return weight >= Math.max(FAINT, expected) ? weight : 0;
}

// The classes that have every word of a query in a heavy label of some factor, best match first.
export function search(query) {
  const phrase = query.trim();
  const words = modes.some((mode) => rowsWith(mode, phrase).size) ? [phrase] : phrase.split(/\s+/).filter(Boolean);
  const rows = words.map((word) => modes.map((mode) => rowsWith(mode, word)));
  const found = [];
  for (const one of classes) {
    const matches = rows.map((byMode) =>
      byMode
        .map((wanted, place) => ({ factor: one.factors[place], wanted, weight: weightOn(one.factors[place], wanted) }))
        .filter((match) => match.weight > 0)
        .sort((a, b) => b.weight - a.weight),
    );
    if (matches.length && matches.every((each) => each.length)) {
      found.push({
        one,
        matches: matches.flat(),
        score: Math.min(...matches.map((each) => each[0].weight)) * one.share,
      });
    }
  }
  return found.sort((a, b) => b.score - a.score);
}
