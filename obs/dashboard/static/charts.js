"use strict";

/* Draws the Vega-Lite specifications in the page, in its colours: "--failed" is a colour of the style sheet.
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

async function draw(place) {
  const sheet = getComputedStyle(document.documentElement);
  const colour = (name) => sheet.getPropertyValue(name).trim();
  const words = { labelColor: colour("--quiet"), titleColor: colour("--quiet"), labelFont: "system-ui", titleFont: "system-ui" };
  const spec = inColours(JSON.parse(place.querySelector("script").textContent), colour);
  const drawn = await vegaEmbed(place.querySelector(".drawing"), spec, {
    ast: true, actions: false, renderer: "canvas", defaultStyle: false, tooltip: showTip,
    config: {
      background: "transparent", autosize: { type: "fit-x", contains: "padding" }, view: { stroke: null },
      axis: { ...words, gridColor: colour("--line"), domainColor: colour("--line"), tickColor: colour("--line") },
      legend: words, mark: { color: colour("--accent") },
      range: { category: ["--accent", "--overdue", "--running", "--lost", "--ok", "--failed", "--late", "--quiet"].map(colour) },
    },
  });
  place.view = drawn.view;
}

function drawCharts(root) {
  root.querySelectorAll("[data-chart]").forEach(draw);
}

drawCharts(document);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts(document));
document.addEventListener("theme", () => setTimeout(() => drawCharts(document)));
