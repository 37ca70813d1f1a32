// Elements of the page. Labels come from the data and are not trusted: they become text and nothing else, each with a
// text direction of its own.

import { inWords } from "./model.js";
import { interval, percent } from "./numbers.js";

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

export const bdi = (text) => make("bdi", {}, text);

export const link = (href, ...children) => make("a", { href }, ...children);

export const classLink = (one, ...children) =>
  link(`#/class/${one.number}`, ...(children.length ? children : [`class ${one.number}`]));

// The name of a class, in which lines do not break within dates.
export const nameOf = (one) =>
  make(
    "bdi",
    {},
    one.name
      .split(" · ")
      .map((part, n) => [
        n ? " · " : "",
        /^(week of )?\d{4}-/.test(part) ? make("span", { class: "stretch" }, part) : part,
      ]),
  );

// The number and the name of a class.
export const fullName = (one) => [`class ${one.number}: `, nameOf(one)];

// The number and the name of a class, as one link.
export const namedLink = (one) => classLink(one, `${one.number}: `, nameOf(one));

// What is said of a class that is small or weakly supported.
export const apartNote = (one) => (one.apart ? make("div", { class: "quiet" }, "small or weakly supported") : null);

// A link to the classes that have this label among the heavy ones of this mode. It is below the name of the mode,
// which numbers need not repeat.
export const labelLink = (mode, label) =>
  link(
    `#/classes?${new URLSearchParams({ [`m${mode.place}`]: label })}`,
    mode.wording === "weeks" ? make("bdi", { class: "stretch" }, inWords(mode, label)) : bdi(label),
  );

// A factor as a chip: its number, how many classes share it, and the link to its view.
export function chip(factor, { plain = false } = {}) {
  const others = factor.classes.length;
  const said = others > 1 ? `, shared by ${others} classes` : ", used by one class";
  return make(
    "a",
    { class: `chip${others > 1 ? " shared" : ""}`, href: factor.link, title: factor.name + said },
    make("span", { class: plain ? "hidden" : "" }, `${factor.mode.name} `),
    `#${factor.number}`,
    others > 1 ? make("span", { class: "count", "aria-hidden": "true" }, `×${others}`) : null,
    make("span", { class: "hidden" }, said),
  );
}

// The heaviest labels of a profile or factor, or its peaks, with their shares.
export function words(profile, most = 3) {
  if (profile.empty || profile.even) return [make("span", { class: "quiet" }, profile.words)];
  return profile
    .named(most)
    .map((element, n) => [
      n ? ", " : "",
      make("bdi", { class: profile.peaks.length ? "stretch" : null }, element.label),
      make("span", { class: "quiet" }, `\u00a0${percent(element.share, 0)}`),
    ]);
}

const BAR = 60; // pixels for the longest bar; all boxes are as long, so that what follows them is aligned

// The share of a class as a bar, with its interval behind it. `most` is the largest number to make room for.
export function shareBar(one, most) {
  const width = (value) => `${((BAR * value) / (most || 1)).toFixed(1)}px`;
  const whisker = (low, high) =>
    make("span", { class: "whisker", style: `inset-inline-start:${width(low)};inline-size:${width(high - low)}` });
  return make(
    "span",
    { class: "sharebar", title: `${percent(one.share, 2)}${interval(one, 2)}` },
    make(
      "span",
      { class: "barbox", style: `inline-size:${BAR}px` },
      one.low === null ? null : whisker(one.low, one.high),
      make("span", { class: "bar", style: `inline-size:${width(one.share)}` }),
    ),
    make("span", { class: "value" }, percent(one.share)),
  );
}

// The room that the bars of some classes need: the largest share, or the highest end of an interval.
export const roomFor = (rows) => Math.max(0, ...rows.map((one) => Math.max(one.share, one.high ?? 0)));

export function panel(title, ...children) {
  return make("section", { class: "panel" }, make("h2", {}, title), ...children);
}

// Boxes of tables. The keyboard reaches those in which there is something to scroll.
export const scrollers = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
    if (scrolls) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

// A table in a box of its own, in which it scrolls if it is too wide or too long.
export function tableBox(kind, caption, ...parts) {
  const box = make(
    "div",
    { class: "tablebox", role: "group", "aria-label": caption },
    make("table", { class: kind }, caption ? make("caption", { class: "hidden" }, caption) : null, parts),
  );
  scrollers.observe(box);
  return box;
}

// A table of text. The cells of the last columns, as many as `numbers` says, are numbers.
export function simpleTable(headings, rows, caption, numbers = 0) {
  const kind = (n) => (n >= headings.length - numbers ? "number" : null);
  return tableBox(
    null,
    caption,
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        headings.map((heading, n) => make("th", { scope: "col", class: kind(n) }, heading)),
      ),
    ),
    make(
      "tbody",
      {},
      rows.map((row) =>
        make(
          "tr",
          {},
          row.map((cell, n) => make(n ? "td" : "th", n ? { class: kind(n) } : { scope: "row" }, cell)),
        ),
      ),
    ),
  );
}

// Tell people who use a screen reader what has changed.
export function say(text) {
  document.getElementById("said").textContent = text;
}
