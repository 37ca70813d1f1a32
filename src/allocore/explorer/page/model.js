// The data of the page: classes, modes and factors as objects that know one another, and how to search them.

const OFTEN = 1.5; // periods count as a match where they have so many times an even share
const FAINT = 0.02; // a label below this share of a factor says little about it

const given = JSON.parse(document.getElementById("data").textContent);

const modes = given.modes.map((mode, place) => {
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

const classes = given.classes.map((one, number) => ({
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
    // Elements in the order of the labels, and heaviest first.
    inOrder: () => Array.from(share, (value, n) => ({ label: label(n), share: value, row: row ? row[n] : n })),
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
      return this.heaviest().slice(0, most).filter((element, rank) => rank === 0 || element.share >= FAINT);
    },
    // The stretches of time that have most of it, largest first.
    get peaks() {
      return (mode.peaks?.[index] ?? []).map(([stretch, portion]) => ({ label: stretch, share: portion }));
    },
    // In a word or two: the heaviest label, and the next where the first has less than half.
    get short() {
      if (this.empty) return "too small to tell";
      if (this.even) return `all ${mode.length}`;
      if (this.peaks.length) return this.peaks[0].label;
      const [first, second] = this.top(2);
      return second && first.share < 0.5 ? `${first.label}, ${second.label}` : first.label;
    },
  };
}

function titleOf(one) {
  return one.factors.map((factor) => factor.short).join(" · ");
}

// Classes that share at least one factor with a class, those that share most first.
function family(one) {
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

const plainText = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
const searched = modes.map((mode) => mode.labels.map(plainText));

// The rows of a mode whose labels hold a text.
function rowsWith(mode, text) {
  const wanted = plainText(text.trim());
  const labels = searched[mode.place];
  const exact = labels.indexOf(wanted);
  if (exact >= 0) return new Set([exact]); // Niger is not Nigeria
  const rows = new Set();
  if (wanted) labels.forEach((label, row) => label.includes(wanted) && rows.add(row));
  return rows;
}

// How much of a factor lies on some rows. A year or a month of a factor over time counts where it has more than an even
// spread would give it: nearly every class has a little of everything then.
function weightOn(factor, rows) {
  if (!rows.size || factor.even) return 0;
  const weight = factor.shareOf(rows);
  const mode = factor.mode;
  const expected = mode.kind === "time" || mode.kind === "order" ? Math.min((OFTEN * rows.size) / mode.length, 0.5) : 0;
  return weight >= Math.max(FAINT, expected) ? weight : 0;
}

// Classes that have every word of a query in a heavy label of some factor; the best match first.
function search(query) {
  const whole = query.trim();
  const words = modes.some((mode) => rowsWith(mode, whole).size) ? [whole] : whole.split(/\s+/).filter(Boolean);
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
      found.push({ one, matches: matches.flat(), score: Math.min(...matches.map((each) => each[0].weight)) * one.share });
    }
  }
  return found.sort((a, b) => b.score - a.score);
}

// The moment at which a period begins; weeks and days are written as days.
function momentOf(label) {
  const quarter = /^(\d{4})-Q(\d)$/.exec(label);
  if (quarter) return new Date(Date.UTC(+quarter[1], 3 * (quarter[2] - 1)));
  const week = /^(\d{4})-W(\d\d)$/.exec(label);
  if (week) return new Date(Date.UTC(+week[1], 0, 1 + 7 * (week[2] - 1)));
  const [year, month = 1, day = 1] = label.split("-").map(Number);
  return new Date(Date.UTC(year, month - 1, day));
}
