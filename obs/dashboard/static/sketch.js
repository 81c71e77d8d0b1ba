"use strict";

/* Draws the durations of runs as a small SVG at once: the library that draws charts takes seconds to arrive on a slow network.
   It then takes the place of this drawing, in the same size. Of the specification, this knows the marks that it contains. */
{
  const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [294, 40, 1, 20, 22];
  const SHAPES = {
    circle: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", cross: "M-1.5-4h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z",
    diamond: "M0-5l4 5-4 5-4-5z", "triangle-right": "M-3-4l7 4-7 4z", square: "M-3.5-3.5h7v7h-7z",
  };
  const DAY = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });
  const HOUR = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

  function element(parent, name, attributes, style = {}) {
    const created = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
    for (const [key, value] of Object.entries(style)) created.style[key] = /^--/.test(value) ? `var(${value})` : value;
    parent.append(created);
    return created;
  }

  function label(svg, x, y, text, anchor, more = {}) {
    element(svg, "text", { x, y, "text-anchor": anchor, "font-size": 10, ...more }, { fill: "--quiet" }).textContent = text;
  }

  function upright(svg, x, y, text, anchor, more) {
    label(svg, 0, 0, text, anchor, { transform: `translate(${x} ${y}) rotate(-90)`, ...more });
  }

  function drawAxes(svg, { width, x, y, top, start, end, unit }) {
    upright(svg, 10, (TOP + HEIGHT - BOTTOM) / 2, unit, "middle", { "font-size": 11, "font-weight": "bold" });
    const step = [1, 2, 5, 10].map((one) => one * 10 ** Math.floor(Math.log10(top / 5))).find((one) => top / one <= 6) ?? top;
    for (let tick = 0; tick <= top; tick += step) {
      element(svg, "line", { x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }, { stroke: "--line" });
      label(svg, LEFT - 5, y(tick) + 3, String(Number(tick.toPrecision(6))), "end");
    }
    const count = Math.max(2, Math.floor((width - LEFT) / 90));
    for (let place = 0; place < count; place += 1) {
      const moment = start + (end - start) * (place + 0.5) / count;
      label(svg, x(moment), HEIGHT - 6, (end - start > 2 * 86400000 ? DAY : HOUR).format(moment), "middle");
    }
  }

  function drawLayer(svg, layer, values, { x, y, floor, statuses }) {
    const { mark, encoding } = layer;
    const line = (field) => values.map((one) => `${x(one.t)} ${y(one[field])}`);
    if (layer.layer) layer.layer.forEach((inner) => drawLayer(svg, inner, values, { x, y, floor, statuses }));
    else if (mark.type === "area") element(svg, "path", { d: `M${[...line("low"), ...line("high").reverse()].join("L")}z`, opacity: mark.opacity }, { fill: mark.color });
    else if (mark.type === "line") element(svg, "path", { d: `M${line("mid").join("L")}`, fill: "none", opacity: mark.opacity }, { stroke: mark.color });
    else for (const one of (mark.opacity ?? 1) < 0.1 ? [] : values) {
      if (mark.type === "rect") element(svg, "rect", { x: x(one.t), width: Math.max(1, x(one.to) - x(one.t)), y: TOP, height: floor - TOP, opacity: mark.opacity }, { fill: mark.color });
      if (mark.type === "rule") element(svg, "line", { x1: x(one.t), x2: x(one.t), y1: TOP, y2: floor, "stroke-width": mark.strokeWidth, "stroke-dasharray": mark.strokeDash }, { stroke: mark.color });
      if (mark.type === "text") upright(svg, x(one.t) + 12, TOP - 4, one.title, "end", { "font-size": 11 });
      if (mark.type === "point") {
        const shape = encoding.shape.scale.range[statuses.indexOf(one.result)];
        element(svg, "path", { d: SHAPES[shape] ?? SHAPES.square, transform: `translate(${x(one.t)} ${y(one.y)})`, opacity: 0.9 }, { fill: `--${one.result}` });
      }
    }
  }

  function sketch(place) {
    const { data, annotations } = JSON.parse(place.querySelector("script").textContent);
    const { start, end, statuses } = data;
    const [{ description, layer }] = runDurations(data, annotations);
    const figure = document.createElement("figure");
    const drawing = document.createElement("div");
    figure.className = "chart";
    figure.setAttribute("aria-label", description);
    drawing.className = "drawing";
    figure.append(drawing);
    place.append(figure);
    const width = drawing.clientWidth;
    const svg = element(drawing, "svg", { width, height: HEIGHT, "aria-hidden": "true" });
    const floor = HEIGHT - BOTTOM;
    const top = 1.05 * Math.max(1e-3, ...layer.flatMap((one) => one.data.values.map((value) => Math.max(value.y ?? 0, value.high ?? 0))));
    const x = (moment) => LEFT + (width - LEFT - RIGHT) * (moment - start) / (end - start);
    const y = (number) => floor - (floor - TOP) * number / top;
    drawAxes(svg, { width, x, y, top, start, end, unit: layer.at(-1).encoding.y.title });
    for (const one of layer) drawLayer(svg, one, one.data.values, { x, y, floor, statuses });
    place.dispatchEvent(new CustomEvent("sketched", { bubbles: true, detail: { data, annotations } }));
  }

  document.querySelectorAll('[data-chart="durations"]').forEach(sketch);
}
