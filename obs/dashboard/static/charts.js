"use strict";

/* Draws the charts of the page, in its colours: "--failed" in a specification is a colour of the style sheet.
   ast: expressions are interpreted, because the page's policy forbids code created from text. */
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

function showTip(handler, event, item, value) {
  tip.hidden = !value;
  if (!value) return;
  tip.replaceChildren(...Object.entries(value).map(([name, text]) => {
    const line = document.createElement("div");
    const label = document.createElement("b");
    label.textContent = `${name} `;
    line.append(label, String(text));
    return line;
  }));
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 12)}px`;
}

function inColours(part, colour) {
  if (typeof part === "string") return part.startsWith("--") ? colour(part) : part;
  if (Array.isArray(part)) return part.map((inner) => inColours(inner, colour));
  if (part === null || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([key, inner]) =>
    [key, key === "data" ? inner : inColours(inner, colour)]));
}

/* The figures of a place in the page, one for each specification; those that it has already are used again. */
function figuresFor(place, specs) {
  return specs.map(({ description }, number) => {
    const found = place.querySelectorAll("figure")[number];
    if (found) return found;
    const figure = document.createElement("figure");
    figure.className = "chart";
    figure.setAttribute("aria-label", description);
    figure.append(document.createElement("div"));
    figure.firstChild.className = "drawing";
    place.append(figure);
    return figure;
  });
}

async function draw(place) {
  const sheet = getComputedStyle(document.documentElement);
  const colour = (name) => sheet.getPropertyValue(name).trim();
  const words = { labelColor: colour("--quiet"), titleColor: colour("--quiet"), labelFont: "system-ui", titleFont: "system-ui" };
  const { data, annotations } = JSON.parse(place.querySelector("script").textContent);
  const specs = CHARTS[place.dataset.chart](data, annotations);
  const figures = figuresFor(place, specs);
  const drawn = await Promise.all(specs.map((spec, number) => vegaEmbed(figures[number].firstChild, inColours(spec, colour), {
    ast: true, actions: false, renderer: "canvas", defaultStyle: false, tooltip: showTip,
    config: {
      background: "transparent", autosize: { type: "fit-x", contains: "padding" }, view: { stroke: null },
      axis: { ...words, gridColor: colour("--line"), domainColor: colour("--line"), tickColor: colour("--line") },
      legend: words, mark: { color: colour("--accent") },
      range: { category: ["--accent", "--overdue", "--running", "--lost", "--ok", "--failed", "--late", "--quiet"].map(colour) },
    },
  })));
  place.views = drawn.map((one) => one.view);
  place.dispatchEvent(new CustomEvent("drawn", { bubbles: true, detail: { data, annotations, views: place.views } }));
}

function drawCharts(root) {
  if (typeof vegaEmbed === "undefined") return; /* the library did not arrive */
  root.querySelectorAll("[data-chart]").forEach(draw);
}

drawCharts(document);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts(document));
document.addEventListener("theme", () => setTimeout(() => drawCharts(document)));
