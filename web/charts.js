// Two charts in SVG, drawn by hand: lines over time, and stacked areas over time. A chart keeps its elements and changes their paths.
import { h, number, setText } from "/common.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [330, 170, 42, 20, 10];

/** 1, 2 or 5 times a power of ten, not below `value`. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= value * 0.999);
}

/** A chart: series are [{name, colour}]; draw(points, format) with points [{at, values: [number or null, …]}]. */
export function chart(title, series, { stacked = false, span = 300000, whole = false } = {}) {
  const lines = [0, 0.5, 1].map((share) => {
    const y = TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
    return { share, label: h("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }), line: h("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y, y2: y }) };
  });
  const paths = series.map((one) => h("path", { class: `${stacked ? "area" : "line"} c-${one.colour}` }));
  const ends = [h("text", { x: LEFT, y: HEIGHT - 2 }), h("text", { x: WIDTH, y: HEIGHT - 2, "text-anchor": "end" })];
  const summary = h("title");
  const svg = h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title }, summary, ...paths, ...lines.flatMap(({ label, line }) => [line, label]), ...ends);
  const legend = h("span", { class: "legend" }, series.map((one) => h("span", { class: `c-${one.colour}` }, one.name)));
  const figure = h("figure", { class: "chart" }, h("figcaption", {}, title, legend), svg);
  figure.style.margin = "0";
  figure.draw = (points, now, format = number) => {
    const begin = now - span;
    const shown = points.filter((point) => point.at >= begin - 15000);
    const total = (point) => (stacked ? point.values.reduce((sum, value) => sum + (value || 0), 0) : Math.max(0, ...point.values.map((value) => value || 0)));
    let top = roundUp(Math.max(0, ...shown.map(total)));
    if (whole && top < 2) top = 2;
    const x = (at) => LEFT + Math.max(0, (at - begin) / span) * (WIDTH - LEFT);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const dot = (at, value) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`;
    let below = shown.map(() => 0);
    series.forEach((_, place) => {
      if (stacked) {
        const above = shown.map((point, index) => below[index] + (point.values[place] || 0));
        const there = shown.map((point, index) => dot(point.at, above[index]));
        const back = shown.map((point, index) => dot(point.at, below[index])).reverse();
        paths[place].setAttribute("d", shown.length > 1 ? `M${there.join("L")}L${back.join("L")}Z` : "");
        below = above;
      } else {
        let path = "";
        let pen = "M";
        for (const point of shown) {
          const value = point.values[place];
          if (value === null || value === undefined) { pen = "M"; continue; }
          path += `${pen}${dot(point.at, value)}`;
          pen = "L";
        }
        paths[place].setAttribute("d", path);
      }
    });
    for (const { share, label } of lines) setText(label, format(top * share));
    setText(ends[0], new Date(begin).toLocaleTimeString());
    setText(ends[1], new Date(now).toLocaleTimeString());
    const last = shown[shown.length - 1];
    setText(summary, last ? `${title}: ${series.map((one, place) => `${one.name} ${last.values[place] === null ? "–" : format(last.values[place])}`).join(", ")}` : title);
  };
  return figure;
}
