// Elements of the page. Labels come from the data and are not trusted: they become text and nothing else, each with a
// text direction of its own.

import { percent } from "./numbers.js";

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

// A link to the classes that have this label among the heavy ones of this mode.
export const labelLink = (mode, label) =>
  link(`#/classes?${new URLSearchParams({ [`m${mode.place}`]: label })}`, bdi(label));

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

// The heaviest labels of a factor, or its peaks, with their shares.
export function words(factor, most = 3) {
  if (factor.empty || factor.even) return [make("span", { class: "quiet" }, factor.words)];
  const named = factor.peaks.length ? factor.peaks.slice(0, most) : factor.top(most);
  return named.map((element, n) => [
    n ? ", " : "",
    bdi(element.label),
    make("span", { class: "quiet" }, ` ${percent(element.share, 0)}`),
  ]);
}

export const shareBar = (share, most, text = percent(share)) =>
  make(
    "span",
    { class: "sharebar" },
    make("span", { class: "bar", style: `inline-size:${(60 * share) / (most || 1)}px` }),
    make("span", { class: "value" }, text),
  );

export function panel(title, ...children) {
  return make("section", { class: "panel" }, make("h2", {}, title), ...children);
}

export function simpleTable(headings, rows, caption) {
  return make(
    "table",
    {},
    caption ? make("caption", { class: "hidden" }, caption) : null,
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        headings.map((heading) => make("th", { scope: "col" }, heading)),
      ),
    ),
    make(
      "tbody",
      {},
      rows.map((row) =>
        make(
          "tr",
          {},
          row.map((cell, n) => make(n ? "td" : "th", n ? {} : { scope: "row" }, cell)),
        ),
      ),
    ),
  );
}

// Tell people who use a screen reader what has changed.
export function say(text) {
  document.getElementById("said").textContent = text;
}
