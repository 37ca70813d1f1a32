// The data of the page: classes, modes, profiles and factors as objects that refer to one another.

import { amount, interval, percent } from "./numbers.js";

const MOST_16_BITS = 65535;

export const given = JSON.parse(document.getElementById("data").textContent);

export const FAINT = given.faint; // labels with a smaller share say little about a profile

// What the ends of all intervals are: the 5% and the 95% quantiles over the draws.
export const LEVEL = "90% interval";

// A label in words: numbers say nothing without the name of their mode, and weeks are named by their first days.
export function inWords(mode, label) {
  if (mode.wording === "numbers") return `${mode.name} ${label}`;
  return mode.wording === "weeks" ? `week of ${label}` : label;
}

// What is shown of a column: its elements in order or by weight, its peaks, and itself in words.
class Profile {
  #column;
  #sorted = null;

  constructor(mode, column, name) {
    this.#column = mode.columns[column];
    this.mode = mode;
    this.name = name;
    this.even = mode.even[column]; // in words, or null
    this.empty = !this.#column.share.some((value) => value > 0);
    this.hasIntervals = mode.intervals !== null;
    // The stretches of time with the largest shares, largest first.
    this.peaks = (mode.peaks?.[column] ?? []).map(([label, share]) => ({ label, share }));
  }

  // The elements in the order of the labels.
  inOrder() {
    const { share, row, low, high, unit } = this.#column;
    return Array.from(share, (value, n) => ({
      label: this.mode.labels[row ? row[n] : n],
      share: value,
      row: row ? row[n] : n,
      low: low ? low[n] * unit : null,
      high: high ? high[n] * unit : null,
    }));
  }

  // The elements, heaviest first; sorted once.
  heaviest() {
    this.#sorted ??= this.inOrder().sort((a, b) => b.share - a.share);
    return this.#sorted;
  }

  top(most) {
    return this.heaviest()
      .slice(0, most)
      .filter((element, rank) => rank === 0 || element.share >= FAINT);
  }

  shareOf(wanted) {
    const { share, row } = this.#column;
    let total = 0;
    for (let n = 0; n < share.length; n++) if (share[n] > 0 && wanted.has(row ? row[n] : n)) total += share[n];
    return total;
  }

  // The stretches of time with the largest shares, or else the heaviest labels, in words.
  named(most) {
    if (this.peaks.length) return this.peaks.slice(0, most);
    return this.top(most).map(({ label, share }) => ({ label: inWords(this.mode, label), share }));
  }

  get words() {
    if (this.empty) return "too small to tell";
    if (this.even) return this.even;
    return this.named(3)
      .map(({ label, share }) => `${label} ${percent(share, 0)}`)
      .join(", ");
  }
}

// A factor in use; `classes` are filled in when all classes are known.
class Factor extends Profile {
  constructor(mode, { number, name, classes: places, mass, column }) {
    super(mode, column, `${mode.name} #${number}${name ? ` ${name}` : ""}`);
    this.number = number;
    this.classes = places;
    this.mass = mass;
    this.link = `#/factor/${mode.place}/${number}`;
  }
}

export const modes = given.modes.map((mode, place) => {
  const made = { ...mode, place };
  made.columns = columnsOf(made);
  made.starts = mode.starts?.map((start) => new Date(start)) ?? null; // when the periods of a mode of time begin
  made.cut = made.columns.some((column) => column.number < mode.length);
  made.factors = mode.factors.map((factor) => new Factor(made, factor));
  made.sharing = mode.sharing === null ? null : unpacked(mode.sharing, Uint8Array);
  return made;
});

// The classes, largest first. A place is a position in this order; a number is what people see.
export const classes = given.classes.map((one, place) => ({
  ...one,
  place,
  profiles: one.profiles.map(
    (column, mode) => new Profile(modes[mode], column, `${modes[mode].name} of class ${one.number}`),
  ),
  factors: one.factors.map((index, mode) => modes[mode].factors[index]),
  cells: given.cells.ofClass[place],
}));
// For each mode, the first classes that share the factor of a class or may share it, and how many there are of each.
for (const one of classes) {
  one.sharers = one.sharers.map(([same, sameNumber, perhaps, perhapsNumber]) => ({
    same: same.map((place) => classes[place]),
    sameNumber,
    perhaps: perhaps.map((place) => classes[place]),
    perhapsNumber,
  }));
}

const byNumber = new Map(classes.map((one) => [one.number, one]));
export const classNumbered = (number) => byNumber.get(number);

// The classes in the order in which they are shown: small and weakly supported ones after the others.
export const inOrder = [...classes.filter((one) => !one.apart), ...classes.filter((one) => one.apart)];

let sum = 0;
for (const one of classes) one.cumulative = sum += one.share;
for (const mode of modes) for (const factor of mode.factors) factor.classes = factor.classes.map((n) => classes[n]);

function unpacked(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

// The columns of a mode: for each, its shares, the ends of their intervals, and its rows if the page has only some.
function columnsOf(mode) {
  const shares = unpacked(mode.shares, Float32Array);
  const rows = mode.rows && unpacked(mode.rows, Uint32Array);
  const low = mode.intervals && unpacked(mode.intervals.low, Uint16Array);
  const high = mode.intervals && unpacked(mode.intervals.high, Uint16Array);
  const number = shares.length / (mode.even.length || 1);
  return mode.even.map((even, index) => {
    const part = (numbers) => numbers && numbers.subarray(index * number, (index + 1) * number);
    const unit = mode.intervals ? mode.intervals.highest[index] / MOST_16_BITS : 0;
    return { number, share: part(shares), row: part(rows), low: part(low), high: part(high), unit };
  });
}

export const titleOf = (one) => `Class ${one.number}: ${one.name}`;

// The size of a class in a sentence.
export function sizeOf(one) {
  const size = `${amount(one.value)} ${given.counted}: ${percent(one.share, 2)} of all${interval(one, 2)}`;
  return `${size}${one.place ? `; ${percent(one.cumulative)} together with all larger classes` : ""}.`;
}

// The probability that two classes have the same factor in a mode; in a single draw it is one or zero.
export function sharingProbability(one, other, place) {
  const { sharing } = modes[place];
  if (sharing === null) return one.factors[place] === other.factors[place] ? 1 : 0;
  const [first, second] = one.place < other.place ? [one.place, other.place] : [other.place, one.place];
  return sharing[first * classes.length - (first * (first + 1)) / 2 + second - first - 1] / 100;
}

// The classes that share at least one factor with this class; those that share the most factors come first.
export function family(one) {
  const found = new Map();
  one.factors.forEach((factor, mode) => {
    for (const other of factor.classes) {
      if (other === one) continue;
      if (!found.has(other)) found.set(other, new Set());
      found.get(other).add(mode);
    }
  });
  return [...found]
    .map(([other, shared]) => ({ other, shared }))
    .sort((a, b) => b.shared.size - a.shared.size || a.other.place - b.other.place);
}
