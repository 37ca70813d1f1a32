// A profile over countries as a map of the world.

import { ACCENT, base, tipStyle } from "./chart_style.js";
import { interval, percent } from "./numbers.js";

// The inhabited world: the map leaves out everything south of Cape Horn.
const INHABITED = {
  type: "MultiPoint",
  coordinates: [
    [-168, 0],
    [180, 0],
    [0, 83],
    [0, -56],
  ],
};
const MAP_RATIO = 0.46;
const TINY_AREA = 14; // countries with fewer square pixels cannot be seen and get a dot

let shapes = null;

// The shapes of the countries, read when the first map is drawn.
function countries() {
  if (!shapes) {
    const world = JSON.parse(document.getElementById("world").textContent);
    shapes = topojson.feature(world, world.objects.countries).features;
  }
  return shapes;
}

const countryText = (one) => `${one.name}  ${percent(one.share)}${interval(one)}`;
const geometry = (one) => one.feature;

// The share of each country, with its interval if a single label is that country: the ends of several do not add up.
function sharesByCountry(profile) {
  const shares = new Map();
  for (const { row, share, low, high } of profile.inOrder()) {
    const iso = profile.mode.iso[row];
    if (!iso) continue;
    const before = shares.get(iso);
    shares.set(iso, before ? { share: before.share + share, low: null, high: null } : { share, low, high });
  }
  return shares;
}

// A profile on the map. Darkness grows with the square root of the share, so that small shares can be seen too.
export function worldMap(profile) {
  const shares = sharesByCountry(profile);
  const most = Math.max(...[...shares.values()].map(({ share }) => share));
  const known = countries()
    .filter((feature) => shares.has(feature.id))
    .map((feature) => ({ feature, ...shares.get(feature.id), name: feature.properties.name }));
  const coloured = known.filter((one) => one.share >= 0.002 * most);
  const darkness = (one) => 0.06 + 0.94 * Math.sqrt(one.share / most);
  return (width) => {
    const height = Math.round(MAP_RATIO * width);
    const projection = d3
      .geoEqualEarth()
      .rotate([-10, 0])
      .fitExtent(
        [
          [1, 1],
          [width - 1, height - 1],
        ],
        INHABITED,
      );
    const path = d3.geoPath(projection);
    const tiny = coloured.filter((one) => path.area(one.feature) < TINY_AREA && one.share >= 0.02 * most);
    return Plot.plot({
      ...base(width),
      height,
      margin: 0,
      projection: () => projection,
      marks: [
        Plot.geo(countries(), { fill: "var(--land)", stroke: "var(--paper)", strokeWidth: 0.4 }),
        Plot.geo(coloured, {
          geometry,
          fill: ACCENT,
          fillOpacity: darkness,
          stroke: "var(--paper)",
          strokeWidth: 0.4,
          ariaLabel: countryText,
        }),
        Plot.dot(
          tiny,
          Plot.centroid({
            geometry,
            r: 3.5,
            fill: ACCENT,
            fillOpacity: darkness,
            stroke: "var(--paper)",
            strokeWidth: 0.5,
            ariaLabel: countryText,
          }),
        ),
        Plot.tip(known, Plot.pointer(Plot.centroid({ geometry, title: countryText, maxRadius: 25, ...tipStyle }))),
      ],
    });
  };
}
