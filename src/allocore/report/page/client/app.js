// The start of the page: the view that belongs to an address, the keys, and the dark or light theme.

import { observer } from "./chart_box.js";
import { classList } from "./class_list.js";
import { classView } from "./class_view.js";
import { compareView } from "./compare_view.js";
import { link, make, scrollers } from "./elements.js";
import { factorView } from "./factor_view.js";
import { forecastView } from "./forecast_view.js";
import { classNumbered, classes, given, inOrder, modes, titleOf } from "./model.js";
import { nodeView } from "./node_view.js";
import { nodesView } from "./nodes_view.js";
import { overview } from "./overview.js";
import { surprisesView } from "./surprises_view.js";

const VIEWS = [
  ["#/", "Overview"],
  ["#/classes", "Classes"],
  [`#/compare/${inOrder.slice(0, 2).map((one) => one.number)}`, "Compare"],
  ...(given.nodes ? [["#/nodes", "Nodes"]] : []),
  ...(given.forecast ? [["#/forecast", "Forecast"]] : []),
  ...(given.surprises ? [["#/surprises", "Surprises"]] : []),
];

// The panels of the overview that have addresses.
const PANELS = ["health", "prediction", "check"];

function viewOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const parameters = new URLSearchParams(query);
  const [first, second] = rest.map((part) => (/^\d+$/.test(part) ? Number(part) : -1));
  if (["", "main", ...PANELS].includes(name)) return ["Overview", overview()];
  if (name === "classes") return ["Classes", classList(parameters)];
  const one = name === "class" && classNumbered(first);
  if (one) return [titleOf(one), classView(one)];
  if (name === "compare") return ["Compare", compareView((rest[0] ?? "").split(",").filter(Boolean).map(Number))];
  if (name === "nodes" && given.nodes) {
    const label = parameters.get("node");
    const node = label === null ? nodesView(parameters) : nodeView(label);
    if (node) return [label ?? "Nodes", node];
  }
  if (name === "surprises" && given.surprises) return ["Surprises", surprisesView(parameters)];
  if (name === "forecast" && given.forecast) return ["Forecast", forecastView()];
  const factor = name === "factor" && modes[first]?.factors.find((each) => each.number === second);
  if (factor) return [factor.name, factorView(factor)];
  return [
    "Not found",
    [make("h1", {}, "Not found"), make("p", {}, "This run has no such page. ", link("#/", "Go to the overview"))],
  ];
}

let shownBefore = false;

function show() {
  observer.disconnect();
  scrollers.disconnect();
  const [title, content] = viewOf(location.hash);
  const main = document.getElementById("main");
  main.replaceChildren(...content.flat().filter(Boolean));
  document.title = `${title} – ${given.title}`;
  drawNavigation();
  window.scrollTo(0, 0);
  if (shownBefore) main.focus({ preventScroll: true });
  shownBefore = true;
  const wanted = PANELS.find((id) => location.hash === `#/${id}`);
  if (wanted) afterCharts(() => showPanel(wanted));
}

// Charts are drawn when their boxes have a width, in the next frame, and move what is below them.
const afterCharts = (then) => requestAnimationFrame(() => requestAnimationFrame(then));

function showPanel(id) {
  const wanted = document.getElementById(id);
  wanted?.scrollIntoView(); // another view may have come in between
  wanted?.focus({ preventScroll: true });
}

function drawNavigation() {
  const here = (location.hash || "#/").split("?")[0];
  const current = (href) =>
    href === "#/"
      ? ["#", "#/", "#/main", ...PANELS.map((id) => `#/${id}`)].includes(here)
      : here.startsWith(href.split("/").slice(0, 2).join("/"));
  document
    .getElementById("nav")
    .replaceChildren(
      ...VIEWS.map(([href, text]) => make("a", { href, "aria-current": current(href) ? "page" : null }, text)),
    );
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the browser would replace the address of the view
  document.getElementById("main").focus();
});

document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = document.getElementById("query").value.trim();
  location.hash = query ? `#/classes?${new URLSearchParams({ q: query })}` : "#/classes";
});

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const address = /^#\/class\/(\d+)$/.exec(location.hash);
  const one = address && classNumbered(Number(address[1]));
  const beside = one && { ArrowRight: classes[one.place + 1], ArrowLeft: classes[one.place - 1] }[event.key];
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("query").focus();
  } else if (beside) location.hash = `#/class/${beside.number}`;
  else if (one && event.key === "c") document.querySelector(".actions a")?.click();
});

document.getElementById("source").textContent = `Shown: ${given.source}`;

const root = document.documentElement;
const themeButton = document.getElementById("theme");

// Some browsers give local files no storage. The choice then lasts until the page is closed.
const remembered = {
  get: () => {
    try {
      return localStorage.getItem("allocore-theme");
    } catch {
      return null;
    }
  },
  set: (theme) => {
    try {
      localStorage.setItem("allocore-theme", theme);
    } catch {
      // The theme still changes; only its memory is missing.
    }
  },
};

function setTheme(theme) {
  root.dataset.theme = theme;
  themeButton.setAttribute("aria-pressed", String(theme === "dark"));
}

themeButton.addEventListener("click", () => {
  setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  remembered.set(root.dataset.theme);
});

setTheme(remembered.get() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
window.addEventListener("hashchange", show);
show();
