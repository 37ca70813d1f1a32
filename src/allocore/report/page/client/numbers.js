// Numbers as text.

export const percent = (share, digits = 1) => (share === null ? "–" : `${(100 * share).toFixed(digits)}%`);

export const range = ({ low, high }, digits = 1) => `${percent(low, digits)} to ${percent(high, digits)}`;

// An interval in brackets after what it belongs to; nothing for a single draw.
export const interval = (one, digits = 1) => (one.low === null ? "" : ` (${range(one, digits)})`);

const threeDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const amount = (value) =>
  value === null ? "–" : value >= 1000 ? whole.format(value) : threeDigits.format(value);

export const plural = (number, word, more = `${word}s`) => `${whole.format(number)} ${number === 1 ? word : more}`;

// Words as a sentence; nothing stays nothing.
export const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "");
