// Charts over time in SVG: lines, or stacked areas. A chart keeps its elements and changes only their paths and texts.
import { number } from "/common/language.js";
import { h, setText } from "/common/page.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [330, 170, 42, 20, 10];
const PLOT_HEIGHT = HEIGHT - TOP - BOTTOM;
// Points that are this much too old are still drawn, so that a line reaches the left edge.
const OVERHANG_MS = 15000;

/** The next 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= value * 0.999);
}

/**
 * Makes a chart. `series` is [{name, colour}]; `whole` is for figures that have no fractions. Its draw(points, now,
 * format) takes points [{at, values: [number or null, …]}], one value for each of the series.
 */
export function chart(title, series, { stacked = false, span = 300000, whole = false } = {}) {
  const gridLines = [0, 0.5, 1].map((share) => {
    const y = TOP + (1 - share) * PLOT_HEIGHT;
    const label = h("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" });
    return { share, label, line: h("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y, y2: y }) };
  });
  const paths = series.map((one) => h("path", { class: `${stacked ? "area" : "line"} c-${one.colour}` }));
  const startLabel = h("text", { x: LEFT, y: HEIGHT - 2 });
  const endLabel = h("text", { x: WIDTH, y: HEIGHT - 2, "text-anchor": "end" });
  const summary = h("title");
  const grid = gridLines.flatMap(({ label, line }) => [line, label]);
  const svg = h(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
    summary,
    paths,
    grid,
    startLabel,
    endLabel,
  );
  const legend = series.map((one) => h("span", { class: `c-${one.colour}` }, one.name));
  const caption = h("figcaption", {}, title, h("span", { class: "legend" }, legend));
  const figure = h("figure", { class: "chart" }, caption, svg);

  figure.draw = (points, now, format = number) => {
    const start = now - span;
    const shown = points.filter((point) => point.at >= start - OVERHANG_MS);
    const heights = shown.map(({ values }) =>
      stacked
        ? values.reduce((sum, value) => sum + (value || 0), 0)
        : Math.max(0, ...values.map((value) => value || 0)),
    );
    let top = roundUp(Math.max(0, ...heights));
    if (whole && top < 2) top = 2;
    const x = (at) => LEFT + Math.max(0, (at - start) / span) * (WIDTH - LEFT);
    const y = (value) => TOP + (1 - value / top) * PLOT_HEIGHT;
    const dot = (at, value) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`;
    const drawn = stacked ? areas(shown, series.length, dot) : lines(shown, series.length, dot);
    paths.forEach((path, place) => path.setAttribute("d", drawn[place]));
    for (const { share, label } of gridLines) setText(label, format(top * share));
    setText(startLabel, new Date(start).toLocaleTimeString());
    setText(endLabel, new Date(now).toLocaleTimeString());
    setText(summary, summaryOf(shown.at(-1), format));
  };

  const summaryOf = (last, format) => {
    if (!last) return title;
    const value = (place) => (last.values[place] === null ? "–" : format(last.values[place]));
    return `${title}: ${series.map((one, place) => `${one.name} ${value(place)}`).join(", ")}`;
  };
  return figure;
}

/** One area for each of the series, each on top of the one before. */
function areas(points, count, dot) {
  let below = points.map(() => 0);
  return Array.from({ length: count }, (_, place) => {
    const above = points.map((point, index) => below[index] + (point.values[place] || 0));
    const there = points.map((point, index) => dot(point.at, above[index]));
    const back = points.map((point, index) => dot(point.at, below[index])).reverse();
    below = above;
    return points.length > 1 ? `M${there.join("L")}L${back.join("L")}Z` : "";
  });
}

/** One line for each of the series, interrupted where a value is missing. */
function lines(points, count, dot) {
  return Array.from({ length: count }, (_, place) => {
    let path = "";
    let pen = "M";
    for (const { at, values } of points) {
      const value = values[place];
      const isMissing = value === null || value === undefined;
      if (!isMissing) path += `${pen}${dot(at, value)}`;
      pen = isMissing ? "M" : "L";
    }
    return path;
  });
}
