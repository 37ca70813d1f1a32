// Charts, drawn by Observable Plot. Colours are variables of the style, so that dark and light need no second drawing.

const ACCENT = "var(--accent)";
const FAINT_INK = "var(--faint)";
const INK = "var(--ink)";
// Okabe and Ito's colours, told apart by people of any colour vision; shapes say the same.
const SERIES = ["var(--s0)", "var(--s1)", "var(--s2)", "var(--s3)", "var(--s4)", "var(--s5)"];
const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "cross"];
const LABEL_LETTERS = 30;
const RANKED = 12;
const LEAST_RANKED = 0.005;
// Where people live: the map leaves out what lies south of Cape Horn.
const INHABITED = { type: "MultiPoint", coordinates: [[-168, 0], [180, 0], [0, 83], [0, -56]] };
const MAP_RATIO = 0.46;
const TINY_AREA = 14; // square pixels below which a country cannot be seen and gets a dot

const cut = (text, letters = LABEL_LETTERS) => ([...text].length > letters ? `${[...text].slice(0, letters - 1).join("")}…` : text);
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = `12px ${getComputedStyle(document.documentElement).fontFamily}`;
const axisMargin = (labels) => 12 + Math.max(...labels.map((label) => ruler.measureText(cut(label)).width));
const base = (width) => ({ width, style: { fontSize: "12px", fontFamily: "inherit", overflow: "visible" } });
const tipStyle = { fill: "var(--paper)", stroke: FAINT_INK };

// The heaviest labels of a factor as stems, heaviest on top.
function ranked(factor, most = RANKED) {
  const elements = factor.heaviest().slice(0, most).filter((element, rank) => element.share > (rank ? LEAST_RANKED : 0));
  const labels = elements.map((element) => element.label);
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 21 * elements.length + 12,
      marginLeft: Math.min(axisMargin(labels), width / 2),
      marginRight: 48,
      marginTop: 4,
      marginBottom: 8,
      x: { axis: null, domain: [0, elements[0].share] },
      y: { label: null, domain: labels, tickSize: 0, tickFormat: (label) => cut(label) },
      marks: [
        Plot.ruleY(elements, { x1: 0, x2: "share", y: "label", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(elements, { x: "share", y: "label", fill: ACCENT, r: 4, ariaLabel: (d) => `${d.label} ${percent(d.share)}` }),
        Plot.text(elements, { x: "share", y: "label", text: (d) => percent(d.share), dx: 9, textAnchor: "start", fill: INK }),
        Plot.ruleX([0], { stroke: FAINT_INK }),
      ],
    });
}

// All labels of a factor in their own order, as in the paper; those below the threshold are grey.
function fingerprint(factor) {
  const elements = factor.inOrder().filter((element) => element.share > 0);
  const threshold = Math.max(0.1 * factor.heaviest()[0].share, FAINT);
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 74,
      marginLeft: 6,
      marginRight: 6,
      marginTop: 6,
      marginBottom: 6,
      x: { axis: null, domain: [-1, factor.mode.labels.length] },
      y: { axis: null },
      marks: [
        Plot.ruleX(elements, {
          x: "row",
          y1: 0,
          y2: "share",
          stroke: (d) => (d.share >= threshold ? ACCENT : FAINT_INK),
          strokeWidth: Math.max(1, Math.min(3, (0.7 * width) / factor.mode.labels.length)),
        }),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(elements, Plot.pointerX({ x: "row", y: "share", title: (d) => `${d.label}  ${percent(d.share)}`, ...tipStyle })),
      ],
    });
}

// Labels that have an order of their own but no calendar: all of them, as stems.
function ordered(factor) {
  const elements = factor.inOrder();
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 190,
      marginLeft: 40,
      marginBottom: 50,
      x: { label: null, domain: factor.mode.labels, tickRotate: factor.mode.labels.length * 42 > width ? -45 : 0, tickFormat: (label) => cut(label, 8) },
      y: { label: null, tickFormat: "%", ticks: 4, grid: true, zero: true },
      marks: [
        Plot.ruleX(elements, { x: "label", y1: 0, y2: "share", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(elements, { x: "label", y: "share", fill: ACCENT, r: 4, ariaLabel: (d) => `${d.label} ${percent(d.share)}` }),
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(elements, Plot.pointerX({ x: "label", y: "share", title: (d) => `${d.label}  ${percent(d.share)}`, ...tipStyle })),
      ],
    });
}

// Factors over time; the even share as a line to compare with.
function series(named) {
  const points = named.flatMap(({ name, factor }, turn) =>
    factor.inOrder().map((element) => ({ ...element, name, turn, moment: momentOf(element.label) })),
  );
  const even = 1 / named[0].factor.mode.length;
  const single = named.length === 1;
  return (width) =>
    Plot.plot({
      ...base(width),
      height: single ? 190 : 230,
      marginLeft: 44,
      marginRight: 12,
      x: { type: "utc", label: null, ticks: Math.max(3, Math.min(8, width / 90)) },
      y: { label: null, tickFormat: (value) => percent(value, value < 0.01 && value > 0 ? 1 : 0), ticks: 4, grid: true, zero: true },
      marks: [
        Plot.ruleY([even], { stroke: FAINT_INK, strokeDasharray: "3,3" }),
        single ? Plot.areaY(points, { x: "moment", y: "share", fill: ACCENT, fillOpacity: 0.15 }) : null,
        Plot.lineY(points, { x: "moment", y: "share", z: "name", stroke: single ? ACCENT : (d) => SERIES[d.turn], strokeWidth: 1.8 }),
        single && points.length <= 200 ? Plot.dot(points, { x: "moment", y: "share", fill: ACCENT, r: 1.8 }) : null,
        Plot.ruleY([0], { stroke: FAINT_INK }),
        Plot.tip(points, Plot.pointer({ x: "moment", y: "share", title: (d) => `${single ? "" : `${d.name}  `}${d.label}  ${percent(d.share)}`, ...tipStyle })),
      ],
    });
}

let shapes = null;

// Countries of the map, read once, when the first map is drawn.
function countries() {
  if (!shapes) {
    const world = JSON.parse(document.getElementById("world").textContent);
    shapes = topojson.feature(world, world.objects.countries).features;
  }
  return shapes;
}

// A factor on the map. The area of the colour says as much as its darkness, so shares go in by their square roots.
function worldMap(factor) {
  const shares = new Map();
  for (const element of factor.inOrder()) {
    const iso = factor.mode.iso[element.row];
    if (iso) shares.set(iso, (shares.get(iso) ?? 0) + element.share);
  }
  const most = Math.max(...shares.values());
  return (width) => {
    const height = Math.round(MAP_RATIO * width);
    const drawnOf = (feature) => ({ feature, share: shares.get(feature.id), name: feature.properties.name });
    const known = countries().map(drawnOf).filter((one) => one.share !== undefined);
    const projection = d3.geoEqualEarth().rotate([-10, 0]).fitExtent([[1, 1], [width - 1, height - 1]], INHABITED);
    const path = d3.geoPath(projection);
    const coloured = known.filter((one) => one.share >= 0.002 * most);
    const tiny = coloured.filter((one) => path.area(one.feature) < TINY_AREA && one.share >= 0.02 * most);
    const darkness = (one) => 0.06 + 0.94 * Math.sqrt(one.share / most);
    const told = (one) => `${one.name}  ${percent(one.share)}`;
    const geometry = (one) => one.feature;
    return Plot.plot({
      ...base(width),
      height,
      margin: 0,
      projection: () => projection,
      marks: [
        Plot.geo(countries(), { fill: "var(--land)", stroke: "var(--paper)", strokeWidth: 0.4 }),
        Plot.geo(coloured, { geometry, fill: ACCENT, fillOpacity: darkness, stroke: "var(--paper)", strokeWidth: 0.4, ariaLabel: told }),
        Plot.dot(tiny, Plot.centroid({ geometry, r: 3.5, fill: ACCENT, fillOpacity: darkness, stroke: "var(--paper)", strokeWidth: 0.5, ariaLabel: told })),
        Plot.tip(known, Plot.pointer(Plot.centroid({ geometry, title: told, maxRadius: 25, ...tipStyle }))),
      ],
    });
  };
}

// The heaviest labels of several factors beside one another.
function sideBySide(named, most = 7) {
  const labels = [...new Set(named.flatMap(({ factor }) => factor.top(most).map((element) => element.label)))];
  const wanted = new Map(labels.map((label, place) => [label, place]));
  const points = named.flatMap(({ name, factor }, turn) =>
    factor.inOrder().filter((element) => wanted.has(element.label)).map((element) => ({ ...element, name, turn })),
  );
  const order = factorOrder(labels, named[0].factor.mode);
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 22 * labels.length + 34,
      marginLeft: Math.min(axisMargin(labels), width / 2),
      marginRight: 20,
      marginTop: 4,
      marginBottom: 28,
      x: { label: null, tickFormat: "%", ticks: 5, grid: true, zero: true },
      y: { label: null, domain: order, tickSize: 0, tickFormat: (label) => cut(label) },
      symbol: { range: SYMBOLS },
      marks: [
        Plot.ruleY(order, { y: (label) => label, stroke: FAINT_INK, strokeOpacity: 0.35 }),
        Plot.dot(points, { x: "share", y: "label", fill: (d) => SERIES[d.turn], symbol: "name", r: 5, fillOpacity: 0.9 }),
        Plot.tip(points, Plot.pointer({ x: "share", y: "label", title: (d) => `${d.name}  ${d.label}  ${percent(d.share)}`, ...tipStyle })),
      ],
    });
}

// Labels with an order keep it; others stay as the factors rank them.
function factorOrder(labels, mode) {
  if (mode.kind !== "order" && mode.kind !== "time") return labels;
  return mode.labels.filter((label) => labels.includes(label));
}

// How few classes hold how much.
function massCurve() {
  const points = classes.map((one) => ({ number: one.number + 1, held: one.cumulative }));
  const marks = [0.5, 0.95].map((level) => points.find((point) => point.held >= level) ?? points.at(-1));
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 200,
      marginLeft: 44,
      x: { label: "classes, largest first", labelAnchor: "center", ticks: Math.min(8, classes.length), tickFormat: "d" },
      y: { label: null, tickFormat: "%", domain: [0, 1], ticks: 5, grid: true },
      marks: [
        Plot.lineY([{ number: 0, held: 0 }, ...points], { x: "number", y: "held", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(marks, { x: "number", y: "held", fill: ACCENT, r: 4 }),
        Plot.text(marks, { x: "number", y: "held", text: (d) => `${plural(d.number, "class", "classes")}: ${percent(d.held, 0)}`, dx: 8, dy: 12, textAnchor: "start", fill: INK }),
        Plot.tip(points, Plot.pointerX({ x: "number", y: "held", title: (d) => `${plural(d.number, "class", "classes")} hold ${percent(d.held)}`, ...tipStyle })),
      ],
    });
}

// The log-likelihood of every chain; the burn-in is shaded.
function chainTraces() {
  const { sweeps, burnIn, logLikelihood } = given.traces;
  const points = logLikelihood.flatMap((row, chain) => row.map((value, n) => ({ sweep: sweeps[n], value, chain })));
  const late = points.filter((point) => point.sweep > Math.min(burnIn, sweeps.at(-1)) / 4 && point.value !== null);
  const range = d3.extent(late.length ? late : points, (point) => point.value);
  return (width) =>
    Plot.plot({
      ...base(width),
      height: 200,
      marginLeft: 66,
      clip: true,
      x: { label: "sweep", labelAnchor: "center", ticks: 6 },
      y: { label: null, domain: range, ticks: 4, grid: true, tickFormat: "~s" },
      marks: [
        burnIn ? Plot.rectX([0], { x1: 0, x2: Math.min(burnIn, sweeps.at(-1)), fill: FAINT_INK, fillOpacity: 0.15 }) : null,
        Plot.lineY(points, { x: "sweep", y: "value", z: "chain", stroke: (d) => SERIES[d.chain % SERIES.length], strokeWidth: 1.2, clip: true }),
      ],
    });
}

// Where the classes lie in the core: a row a class, a group of columns a mode; a factor that several use is one line.
function coreMap(shown) {
  const dots = [];
  const links = [];
  modes.forEach((mode) => {
    const columns = new Map();
    for (const one of shown) {
      const factor = one.factors[mode.place];
      if (!columns.has(factor)) columns.set(factor, columns.size);
      const inside = factor.classes.filter((other) => other.number < shown.length);
      dots.push({ mode: mode.name, column: columns.get(factor), one, factor, shared: inside.length > 1 });
    }
    for (const [factor, column] of columns) {
      const inside = factor.classes.filter((other) => other.number < shown.length);
      if (inside.length > 1) links.push({ mode: mode.name, column, from: inside[0].number, to: inside.at(-1).number });
    }
  });
  return (width) => {
    const chart = Plot.plot({
      ...base(width),
      height: Math.max(180, 10 * shown.length + 60),
      marginLeft: 40,
      marginTop: 36,
      fx: { label: null, axis: "top", domain: modes.map((mode) => mode.name), padding: 0.06 },
      x: { axis: null, domain: [-1, d3.max(dots, (dot) => dot.column) + 1] },
      y: { label: "class", reverse: true, domain: [-1, shown.length], ticks: Math.min(12, shown.length), tickFormat: "d" },
      marks: [
        Plot.frame({ stroke: FAINT_INK, strokeOpacity: 0.5 }),
        Plot.ruleX(links, { fx: "mode", x: "column", y1: "from", y2: "to", stroke: ACCENT, strokeOpacity: 0.45 }),
        Plot.dot(dots, {
          fx: "mode",
          x: "column",
          y: (d) => d.one.number,
          r: 3.2,
          fill: (d) => (d.shared ? ACCENT : FAINT_INK),
          tip: { format: { fx: false, x: false, y: false, fill: false }, ...tipStyle },
          title: (d) => `class ${d.one.number}, ${d.factor.name}: ${d.factor.words}${d.factor.classes.length > 1 ? `; shared by ${d.factor.classes.length} classes` : ""}`,
        }),
      ],
    });
    // By keyboard the table leads to the same places; hundreds of dots should not be in its way.
    d3.select(chart).selectAll("circle").style("cursor", "pointer").on("click", (_, place) => (location.hash = dots[place].factor.link));
    return chart;
  };
}

// A small line without axes, for lists.
function sparkline(factor, width = 110, height = 24) {
  const shares = factor.inOrder().map((element) => element.share);
  const most = Math.max(...shares) || 1;
  const step = width / Math.max(1, shares.length - 1);
  const points = shares.map((share, n) => `${(n * step).toFixed(1)},${(height - 1 - (height - 3) * (share / most)).toFixed(1)}`);
  const svg = d3.create("svg").attr("class", "spark").attr("width", width).attr("height", height).attr("aria-hidden", "true");
  svg.append("path").attr("d", `M0,${height} L${points.join(" L")} L${width},${height} Z`);
  return svg.node();
}
