// Panels of different heights in two columns that end at about the same height, so that no short panel is beside a
// large blank; the last panel may take both columns. The order in the page, and so for the keyboard, stays as it is.

import { make } from "./elements.js";

const LEAST_WIDTH = 900; // narrower boxes have one column
const GAP = 16;
const SIDES = ["1", "2"];
const NEIGHBOURS = 30; // pixels of blank that are better than two neighbours in one column ..
const ACROSS = 90; // .. and than a panel across both
const MOST_TRIED = 10; // panels; with more of them each goes to the shorter column

export function balanced(panels) {
  const box = make("div", { class: "balanced" }, panels);
  const shown = [...box.children];
  let chosenAt = 0; // the width for which the columns were chosen
  let columns = shown.map((_, n) => SIDES[n % 2]);
  const arrange = () => {
    if (!box.isConnected) return observer.disconnect();
    const width = box.clientWidth;
    box.classList.toggle("two", width >= LEAST_WIDTH && shown.length > 1);
    const heights = shown.map((panel) => panel.offsetHeight + GAP);
    // Once the charts are there the columns stay, so that nothing jumps when a table is opened.
    if (chosenAt !== width) {
      if (areDrawn(box)) [columns, chosenAt] = [bestColumns(heights), width];
      else requestAnimationFrame(arrange);
    }
    shown.forEach((panel, n) => {
      panel.style.gridColumn = columns[n];
      panel.style.gridRow = `span ${heights[n]}`;
    });
  };
  const observer = new ResizeObserver(arrange);
  for (const each of [box, ...shown]) observer.observe(each);
  return box;
}

// Whether all charts that can be seen are as wide as their boxes.
const areDrawn = (box) =>
  [...box.querySelectorAll(".chart")]
    .filter((chart) => !chart.closest("details:not([open])"))
    .every((chart) => Math.abs(chart.clientWidth - (chart.drawnWidth ?? 0)) <= 2);

// The columns of all panels, with the least blank.
function bestColumns(heights) {
  if (heights.length > MOST_TRIED) return inTurn(heights);
  const ways = [bestSides(heights)];
  if (heights.length > 2) {
    const { sides, cost } = bestSides(heights.slice(0, -1));
    ways.push({ sides: [...sides, "1 / -1"], cost: cost + ACROSS });
  }
  return d3.least(ways, (way) => way.cost).sides;
}

// Of all ways to put panels left and right that begin on the left, the best one.
function bestSides(heights) {
  const ways = d3.range(2 ** (heights.length - 1)).map((way) => {
    const right = heights.map((_, n) => n > 0 && ((way >> (n - 1)) & 1) === 1);
    const blank = Math.abs(d3.sum(heights, (height, n) => (right[n] ? height : -height)));
    const together = right.filter((side, n) => n > 0 && side === right[n - 1]).length;
    return { sides: right.map((side) => SIDES[Number(side)]), cost: blank + NEIGHBOURS * together };
  });
  return d3.least(ways, (way) => way.cost);
}

// Each panel in the column that is shorter.
function inTurn(heights) {
  const filled = [0, 0];
  return heights.map((height) => {
    const side = filled[0] <= filled[1] ? 0 : 1;
    filled[side] += height;
    return SIDES[side];
  });
}
