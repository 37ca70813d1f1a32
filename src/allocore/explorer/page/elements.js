// Elements of the page. Labels are data of strangers: they only ever become text, in an isolated direction.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const bdi = (text) => make("bdi", {}, text);
const link = (href, ...children) => make("a", { href }, ...children);
const percent = (share, digits = 1) => (share === null ? "–" : `${(100 * share).toFixed(digits)}%`);
const figures = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const amount = (value) => (value === null ? "–" : value >= 1000 ? whole.format(value) : figures.format(value));
const plural = (number, word, more = `${word}s`) => `${whole.format(number)} ${number === 1 ? word : more}`;

const classLink = (one, ...children) => link(`#/class/${one.number}`, ...(children.length ? children : [`class ${one.number}`]));
// To the classes that have this label among the heavy ones of this mode.
const labelLink = (mode, label) => link(`#/classes?${new URLSearchParams({ [`m${mode.place}`]: label })}`, bdi(label));

// A factor as a chip: its number and how many classes share it; the way to all of them.
function chip(factor, { plain = false } = {}) {
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

function words(factor, most = 3) {
  if (factor.empty || factor.even) return [make("span", { class: "quiet" }, factor.words)];
  const named = factor.peaks.length ? factor.peaks.slice(0, most) : factor.top(most);
  return named.map((element, n) => [n ? ", " : "", bdi(element.label), make("span", { class: "quiet" }, ` ${percent(element.share, 0)}`)]);
}

const shareBar = (share, most, text = percent(share)) =>
  make(
    "span",
    { class: "sharebar" },
    make("span", { class: "bar", style: `inline-size:${(60 * share) / (most || 1)}px` }),
    make("span", { class: "value" }, text),
  );

function panel(title, ...children) {
  return make("section", { class: "panel" }, make("h2", {}, title), ...children);
}

// A chart with what it shows in one sentence for those who do not see it, and all of it as a table.
function charted(described, chart, headings, rows) {
  const body = make("div", { class: "tablebox" });
  const details = make("details", { class: "astable" }, make("summary", {}, "As a table"), body);
  details.addEventListener("toggle", () => {
    if (details.open && !body.firstChild) body.append(simpleTable(headings, rows(), described));
  });
  const box = make("div", { class: "chart", role: "img", "aria-label": described });
  return make("figure", {}, drawn(box, chart), details);
}

// Which colour is which, where a chart has several.
function legend(names) {
  const entries = names.map((name, turn) => make("li", {}, make("span", { class: "dot", style: `background:${SERIES[turn]}` }), name));
  return make("ul", { class: "legend" }, entries);
}

const observer = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const width = Math.round(contentRect.width);
    if (width > 0 && Math.abs(width - (target.drawnWidth ?? 0)) > 2) {
      target.drawnWidth = width;
      const chart = target.chart(width);
      chart.setAttribute("aria-hidden", "true"); // its place says in a sentence what it shows, and the table all of it
      target.replaceChildren(chart);
    }
  }
});

// Draw a chart as wide as its place, and again when that changes.
function drawn(box, chart) {
  box.chart = chart;
  observer.observe(box);
  return box;
}

function simpleTable(headings, rows, caption) {
  return make(
    "table",
    {},
    caption ? make("caption", { class: "hidden" }, caption) : null,
    make("thead", {}, make("tr", {}, headings.map((heading) => make("th", { scope: "col" }, heading)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell, n) => make(n ? "td" : "th", n ? {} : { scope: "row" }, cell))))),
  );
}

function say(text) {
  document.getElementById("said").textContent = text;
}
