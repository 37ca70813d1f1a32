// Numbers as text.

export const percent = (share, digits = 1) => (share === null ? "–" : `${(100 * share).toFixed(digits)}%`);

const threeDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const amount = (value) =>
  value === null ? "–" : value >= 1000 ? whole.format(value) : threeDigits.format(value);

export const plural = (number, word, more = `${word}s`) => `${whole.format(number)} ${number === 1 ? word : more}`;
