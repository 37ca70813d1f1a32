// What all charts have in common. Colours are CSS variables, so that the dark and the light theme share one drawing.

export const ACCENT = "var(--accent)";
export const FAINT_INK = "var(--faint)";
export const INK = "var(--ink)";

// The colours of Okabe and Ito, which people of any colour vision can tell apart. The symbols repeat the distinction.
export const SERIES = ["var(--s0)", "var(--s1)", "var(--s2)", "var(--s3)", "var(--s4)", "var(--s5)"];
// From the seventh series on, colours repeat with other dashes: names of CSS, and lengths for SVG.
export const DASHES = [
  ["solid", null],
  ["dashed", "7 3"],
  ["dotted", "1.5 2.5"],
];
export const dashOf = (turn) => DASHES[Math.floor(turn / SERIES.length) % DASHES.length];
export const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "cross"];
// The symbols as letters, for legends.
export const SIGNS = ["●", "■", "▲", "◆", "★", "✚"];

const LABEL_LETTERS = 30;

export const cut = (text, letters = LABEL_LETTERS) =>
  [...text].length > letters ? `${[...text].slice(0, letters - 1).join("")}…` : text;

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = `12px ${getComputedStyle(document.documentElement).fontFamily}`;

export const axisMargin = (labels) => 12 + Math.max(...labels.map((label) => ruler.measureText(cut(label)).width));

// The room that the ticks of a vertical axis need.
export const tickMargin = (texts) => 16 + Math.max(0, ...texts.map((text) => ruler.measureText(text).width));

// A title above the vertical axis, and one below the middle of the horizontal axis: both off the ticks.
export const titleAbove = (label) => ({ label, labelAnchor: "top", labelArrow: "none", labelOffset: 0 });
export const titleBelow = (label) => ({ label, labelAnchor: "center", labelArrow: "none", labelOffset: 34 });
export const ROOM_ABOVE = 26;
export const ROOM_BELOW = 40;

export const base = (width) => ({ width, style: { fontSize: "12px", fontFamily: "inherit", overflow: "visible" } });

export const tipStyle = { fill: "var(--paper)", stroke: FAINT_INK };
