"use strict";

/* Times are shown in the viewer's time zone, and relative times are kept current. The title stays in UTC. */
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const HOUR = new Intl.DateTimeFormat(undefined, { timeStyle: "short" }).resolvedOptions().hour12 ? "numeric" : "2-digit";
const sameYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: HOUR, minute: "2-digit" });
const otherYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const toTheSecond = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function relative(moment, now) {
  const seconds = Math.floor(Math.abs(now - moment) / 1000);
  if (seconds < 5) return "just now";
  const [size, name] = UNITS.find(([size]) => seconds >= size);
  const hours = name === "d" ? Math.floor((seconds % size) / 3600) : 0;
  const text = `${Math.floor(seconds / size)} ${name}${hours ? ` ${hours} h` : ""}`;
  return moment < now ? `${text} ago` : `in ${text}`;
}

/* A duration: "340 ms", "4.2 s", "4 min 12 s", "2 d 4 h". */
function inWords(length) {
  if (length < 1000) return `${Math.round(length)} ms`;
  if (length < 10000) return `${(length / 1000).toFixed(1).replace(".0", "")} s`;
  const of = (seconds) => UNITS.findIndex(([size]) => seconds >= size);
  const [smallest] = UNITS[of(length / 1000) + 1] ?? [1];
  const seconds = Math.round(length / 1000 / smallest) * smallest;
  const [[size, name], [part, partName] = [1, ""]] = UNITS.slice(of(seconds));
  const rest = Math.floor((seconds % size) / part);
  return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${partName}` : ""}`;
}

function showTimes(root, now = new Date()) {
  for (const place of root.querySelectorAll(".ago")) {
    const text = relative(new Date(place.title.replace(" ", "T").replace(" UTC", "Z")), now);
    if (place.textContent !== text) place.textContent = text;
  }
  for (const place of root.querySelectorAll("time[datetime]:not([data-shown])")) {
    const moment = new Date(place.dateTime);
    const precise = "precise" in place.dataset;
    const format = precise ? toTheSecond : moment.getFullYear() === now.getFullYear() ? sameYear : otherYear;
    place.textContent = format.format(moment);
    place.dataset.shown = "";
  }
}

/* The server reads the zone from this cookie: the days of a calendar and the times in forms are in it. */
document.cookie = `obs_zone=${ZONE}; path=/; max-age=31536000; SameSite=Lax`;

/* What a job sends may set colours, as terminals show them (ANSI escapes). */
const ESCAPE = /\x1b\[([0-9;:?]*)([A-Za-z])/g;
const IN_COLOURS = [["30", "90", "black"], ["31", "91", "red"], ["32", "92", "green"], ["33", "93", "yellow"],
  ["34", "94", "blue"], ["35", "95", "magenta"], ["36", "96", "cyan"], ["37", "97", "white"]];

function showColours(place) {
  const text = place.textContent;
  if (!text.includes("\x1b")) return;
  let colour = "";
  let isBold = false;
  let start = 0;
  const parts = [];
  const add = (end) => {
    const words = text.slice(start, end);
    const className = [colour && `ansi-${colour}`, isBold && "ansi-bold"].filter(Boolean).join(" ");
    if (className && words) parts.push(Object.assign(document.createElement("span"), { className, textContent: words }));
    else if (words) parts.push(words);
  };
  for (const escape of text.matchAll(ESCAPE)) {
    add(escape.index);
    start = escape.index + escape[0].length;
    if (escape[2] !== "m") continue;
    for (const code of (escape[1] || "0").split(/[;:]/)) {
      if (code === "38" || code === "48") break; /* one of 256 colours, or of millions */
      if (code === "0" || code === "") [colour, isBold] = ["", false];
      else if (code === "39") colour = "";
      else if (code === "1" || code === "22") isBold = code === "1";
      else colour = IN_COLOURS.find((codes) => codes.includes(code))?.[2] ?? colour;
    }
  }
  add(text.length);
  place.replaceChildren(...parts);
}

/* What a page, or a new part of it, needs before it is shown. */
function prepare(root) {
  showTimes(root);
  root.querySelectorAll(".log pre").forEach(showColours);
}

prepare(document);
setInterval(() => showTimes(document), 5000);

/* A time that is picked in a form is shown in UTC beside it. */
for (const place of document.querySelectorAll("[data-utc-of]")) {
  const input = document.getElementById(place.dataset.utcOf);
  const zone = place.dataset.zone;
  const show = () => {
    const moment = new Date(input.value);
    const isOther = zone === ZONE && zone !== "UTC" && !Number.isNaN(moment.getTime());
    place.textContent = isOther ? ` (${moment.toISOString().slice(0, 16).replace("T", " ")} UTC)` : "";
  };
  input.addEventListener("input", show);
  show();
}

/* On a phone, the links to the pages scroll; the page does not, which may be at a refused field. */
{
  const here = document.querySelector(".top nav [aria-current]");
  const center = (place) => (place.getBoundingClientRect().left + place.getBoundingClientRect().right) / 2;
  if (here) here.parentElement.scrollLeft += center(here) - center(here.parentElement);
}

/* Copy buttons. */
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const code = button.closest(".snippet, .log").querySelector("code, pre");
  for (const other of document.querySelectorAll("[data-copy]")) other.firstChild.data = "Copy";
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.firstChild.data = "Copied";
  } catch {
    /* Without https, a page cannot write to the clipboard: select the text, so that one key copies it. */
    getSelection().selectAllChildren(code);
    button.firstChild.data = "Selected";
  }
});

/* A filter applies as soon as it is chosen; text applies with Enter, so that leaving the search field does nothing. */
for (const form of document.querySelectorAll("form[data-submits-itself]")) {
  form.addEventListener("change", (event) => { if (event.target.matches("select")) form.requestSubmit(); });
}

/* Keys: "/" and Ctrl+K lead to the search field, on another page to that of the overview. */
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping;
  const isCtrlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  const home = document.querySelector(".brand");
  if (!(isSlash || isCtrlK) || !document.body.dataset.count) return;
  event.preventDefault();
  const field = document.getElementById("search");
  if (field) field.select();
  else location.href = `${home.href}#search`;
});
if (location.hash === "#search") document.getElementById("search")?.select();

/* A click anywhere on the row of a job, a run or an incident opens the job or the run. */
document.addEventListener("click", (event) => {
  const link = event.target.closest(":is(.jobs, .runs, .incidents) tbody tr")?.querySelector("a");
  if (!link || event.target.closest("a, input") || !getSelection().isCollapsed) return;
  if (event.ctrlKey || event.metaKey) open(link.href);
  else link.click();
});

/* The theme. */
{
  const place = document.getElementById("theme");
  const select = place?.querySelector("select");
  if (place) {
    place.hidden = false;
    select.value = theme();
    select.addEventListener("change", () => {
      localStorage.setItem("theme", select.value);
      applyTheme();
      document.dispatchEvent(new Event("theme"));
    });
  }
}

/* With https, the browser keeps a page that says that the server cannot be reached. */
navigator.serviceWorker?.register(document.currentScript.src.replace("obs.js", "offline.js"), { scope: "/" })
  .catch(() => {}); /* a browser that stores nothing, or a private window */

/* Ask before a change that cannot be undone. */
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

/* A double click sends a form once. The form can be sent again when the page is shown again, or if it stays: after a request
   that was stopped, or a download. */
{
  const AGAIN_MS = 30000;
  const letAgain = (form) => { delete form.dataset.sent; };
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if ("sent" in form.dataset) event.preventDefault();
    else setTimeout(letAgain, AGAIN_MS, form);
    form.dataset.sent = "";
  });
  addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach(letAgain));
}
