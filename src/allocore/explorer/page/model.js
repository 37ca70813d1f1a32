// The data of the page: classes, modes and factors as objects that refer to one another.

import { amount, percent } from "./numbers.js";

export const FAINT = 0.02; // labels with a smaller share say little about a factor

export const given = JSON.parse(document.getElementById("data").textContent);

export const modes = given.modes.map((mode, place) => {
  const shares = unpacked(mode.shares, Float32Array);
  const rows = mode.rows && unpacked(mode.rows, Uint32Array);
  const each = shares.length / mode.factors.length;
  const made = { ...mode, place, cut: each < mode.length };
  made.factors = mode.factors.map((factor, index) => {
    const share = shares.subarray(index * each, (index + 1) * each);
    const row = rows ? rows.subarray(index * each, (index + 1) * each) : null;
    return factorOf(made, index, factor, share, row);
  });
  return made;
});

export const classes = given.classes.map((one, number) => ({
  ...one,
  number,
  factors: one.factors.map((index, mode) => modes[mode].factors[index]),
}));

let sum = 0;
for (const one of classes) one.cumulative = sum += one.share;
for (const mode of modes) for (const factor of mode.factors) factor.classes = factor.classes.map((n) => classes[n]);

function unpacked(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

function factorOf(mode, index, factor, share, row) {
  const label = (n) => mode.labels[row ? row[n] : n];
  let sorted = null;
  return {
    ...factor,
    mode,
    index,
    name: `${mode.name} #${factor.number}`,
    link: `#/factor/${mode.place}/${factor.number}`,
    // The elements in the order of the labels.
    inOrder: () => Array.from(share, (value, n) => ({ label: label(n), share: value, row: row ? row[n] : n })),
    // The elements, heaviest first; sorted once.
    heaviest() {
      sorted ??= this.inOrder().sort((a, b) => b.share - a.share);
      return sorted;
    },
    shareOf(wanted) {
      let total = 0;
      for (let n = 0; n < share.length; n++) if (share[n] > 0 && wanted.has(row ? row[n] : n)) total += share[n];
      return total;
    },
    get empty() {
      return !(this.heaviest()[0].share > 0);
    },
    top(most) {
      return this.heaviest()
        .slice(0, most)
        .filter((element, rank) => rank === 0 || element.share >= FAINT);
    },
    // The stretches of time with the largest shares, largest first.
    get peaks() {
      return (mode.peaks?.[index] ?? []).map(([stretch, portion]) => ({ label: stretch, share: portion }));
    },
    // A short name: the heaviest label, and the second one if the first holds less than half.
    get short() {
      if (this.empty) return "too small to tell";
      if (this.even) return `all ${mode.length}`;
      if (this.peaks.length) return this.peaks[0].label;
      const [first, second] = this.top(2);
      return second && first.share < 0.5 ? `${first.label}, ${second.label}` : first.label;
    },
  };
}

// The short names of all its factors.
export function titleOf(one) {
  return one.factors.map((factor) => factor.short).join(" · ");
}

// The size of a class and how often it is found again, in a sentence or two.
export function sizeOf(one) {
  const size = `${amount(one.value)} ${given.counted}: ${percent(one.share, 2)} of all`;
  const together = one.number ? `; ${percent(one.cumulative)} together with all larger classes` : "";
  if (one.stability === null) return `${size}${together}.`;
  const chains = one.chains === null ? "" : ` and in ${percent(one.chains, 0)} of the chains`;
  const again = ` A similar class is in ${percent(one.stability, 0)} of the other draws${chains}.`;
  return `${size}${together}.${again}`;
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
    .sort((a, b) => b.shared.size - a.shared.size || a.other.number - b.other.number);
}

// The moment at which a period begins.
export function momentOf(label) {
  const quarter = /^(\d{4})-Q(\d)$/.exec(label);
  if (quarter) return new Date(Date.UTC(+quarter[1], 3 * (quarter[2] - 1)));
  const week = /^(\d{4})-W(\d\d)$/.exec(label);
  if (week) return new Date(Date.UTC(+week[1], 0, 1 + 7 * (week[2] - 1)));
  const [year, month = 1, day = 1] = label.split("-").map(Number);
  return new Date(Date.UTC(year, month - 1, day));
}
