// The way from an address to a view, keys, and dark or light.

const VIEWS = [
  ["#/", "Overview"],
  ["#/classes", "Classes"],
  ["#/compare/0,1", "Compare"],
  ...(given.surprises ? [["#/surprises", "Surprises"]] : []),
];

function viewOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const parameters = new URLSearchParams(query);
  const [first, second] = rest.map((part) => (/^\d+$/.test(part) ? Number(part) : -1));
  if (name === "" || name === "main") return ["Overview", overview()];
  if (name === "classes") return ["Classes", classList(parameters)];
  if (name === "class" && classes[first]) return [`Class ${first}`, classView(classes[first])];
  if (name === "compare") return ["Compare", compareView((rest[0] ?? "").split(",").filter(Boolean).map(Number))];
  if (name === "surprises" && given.surprises) return ["Surprises", surprisesView(parameters)];
  const factor = name === "factor" && modes[first]?.factors.find((each) => each.number === second);
  if (factor) return [factor.name, factorView(factor)];
  return ["Not here", [make("h1", {}, "Not in this run"), make("p", {}, "There is no such page. ", link("#/", "To the overview"))]];
}

function show() {
  observer.disconnect();
  const [title, content] = viewOf(location.hash);
  const main = document.getElementById("main");
  main.replaceChildren(...content.flat().filter(Boolean));
  document.title = `${title} – ${given.title}`;
  drawNavigation();
  window.scrollTo(0, 0);
  if (show.before) main.focus({ preventScroll: true });
  show.before = true;
}

function drawNavigation() {
  const here = (location.hash || "#/").split("?")[0];
  const current = (href) => (href === "#/" ? here === "#/" || here === "#" : here.startsWith(href.split("/").slice(0, 2).join("/")));
  document.getElementById("nav").replaceChildren(...VIEWS.map(([href, text]) => make("a", { href, "aria-current": current(href) ? "page" : null }, text)));
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // or the address of the view would be lost
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
  const one = /^#\/class\/(\d+)$/.exec(location.hash);
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("query").focus();
  } else if (one && event.key === "ArrowRight" && classes[+one[1] + 1]) location.hash = `#/class/${+one[1] + 1}`;
  else if (one && event.key === "ArrowLeft" && classes[one[1] - 1]) location.hash = `#/class/${one[1] - 1}`;
  else if (one && event.key === "c") document.querySelector(".actions a")?.click();
});

const root = document.documentElement;
const themeButton = document.getElementById("theme");
// Some browsers keep no storage for local files: then the choice lasts as long as the page.
const remembered = { get: () => { try { return localStorage.getItem("allocore-theme"); } catch { return null; } }, set: (theme) => { try { localStorage.setItem("allocore-theme", theme); } catch { /* kept for this page */ } } };

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
