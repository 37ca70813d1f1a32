// The search for classes by their number, by their name, and by labels among the heavy ones of their profiles.

import { FAINT, classes, inWords, modes } from "./model.js";
import { percent } from "./numbers.js";

const OFTEN = 1.5; // a period matches if its share is at least this many times the even share

export const plainText = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

const searched = modes.map((mode) => mode.labels.map(plainText));

// The rows of a mode whose labels contain a text. The text may be a label in words, such as "store 12".
export function rowsWith(mode, text) {
  const before = plainText(inWords(mode, ""));
  const given = plainText(text.trim());
  const wanted = before && given.startsWith(before) ? given.slice(before.length) : given;
  const labels = searched[mode.place];
  const exact = labels.indexOf(wanted);
  if (exact >= 0) return new Set([exact]); // Niger is not Nigeria
  const rows = new Set();
  if (wanted) labels.forEach((label, row) => label.includes(wanted) && rows.add(row));
  return rows;
}

// The share of a profile on some rows, or 0 if it is too small to match. Nearly every class has some counts in every
// period, so a period must hold clearly more than its even share.
export function weightOn(profile, rows) {
  if (!rows.size || profile.even) return 0;
  const weight = profile.shareOf(rows);
  const mode = profile.mode;
  const expected = mode.kind === "time" || mode.kind === "order" ? Math.min((OFTEN * rows.size) / mode.length, 0.5) : 0;
  return weight >= Math.max(FAINT, expected) ? weight : 0;
}

// The words of a text between blanks, so that whole words can be found in it.
const spaced = (text) =>
  ` ${
    plainText(text)
      .match(/[\p{L}\p{N}]+/gu)
      ?.join(" ") ?? ""
  } `;

const names = new Map(classes.map((one) => [one, spaced(one.name)]));

// Whether a query is the number of a class.
function isNumberOf(query, one) {
  const number = /^(?:class|#)?\s*(\d+)$/i.exec(query);
  return number !== null && Number(number[1]) === one.number;
}

// Whether a query is in the name of a class. Parts of words do not count: Niger is not Nigeria.
function isInName(query, one) {
  const wanted = spaced(query);
  return wanted.trim() !== "" && names.get(one).includes(wanted);
}

// The classes with this number or name, then those that have every word of the query in a heavy label of some profile,
// best match first.
export function search(query) {
  const phrase = query.trim();
  const words = modes.some((mode) => rowsWith(mode, phrase).size) ? [phrase] : phrase.split(/\s+/).filter(Boolean);
  const rows = words.map((word) => modes.map((mode) => rowsWith(mode, word)));
  const found = [];
  for (const one of classes) {
    const numbered = isNumberOf(phrase, one);
    const named = numbered ? `number ${one.number}` : isInName(phrase, one) ? "name" : null;
    const matches = rows.map((byMode) => matchesOf(one, byMode));
    const labelled = matches.length > 0 && matches.every((each) => each.length);
    if (!named && !labelled) continue;
    const weight = labelled ? Math.min(...matches.map((each) => each[0].weight)) : 0;
    const heavy = labelled ? matches.flat().map(({ mode, weight: held }) => `${mode.name} ${percent(held, 0)}`) : [];
    found.push({ one, matches: named ? [named, ...heavy] : heavy, numbered, weight });
  }
  return d3.sort(found, (a, b) => b.numbered - a.numbered || b.weight * b.one.share - a.weight * a.one.share);
}

// The modes in which a class has weight on the wanted rows, heaviest first.
function matchesOf(one, byMode) {
  return byMode
    .map((wanted, place) => ({ mode: modes[place], weight: weightOn(one.profiles[place], wanted) }))
    .filter((match) => match.weight > 0)
    .sort((a, b) => b.weight - a.weight);
}
