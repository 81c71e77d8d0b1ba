"use strict";

/* Keeps the overview current without changing the scroll position, the filters or the text in the search field. */
const table = document.getElementById("jobs");
const awaiting = document.getElementById("awaiting"); /* instead of the table, when no job is shown */
const EVERY_MS = 5000;
let summary = "";

function rowFrom(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const row = holder.content.querySelector("tr");
  prepare(row);
  return row;
}

function apply(changes) {
  const body = table.tBodies[0];
  for (const [number, html] of Object.entries(changes.rows)) {
    const row = rowFrom(html);
    const old = document.getElementById(`job-${number}`);
    const box = row.querySelector("[name=job]");
    if (box && old) box.checked = old.querySelector("[name=job]").checked;
    if (old && old.contains(document.activeElement)) {
      const focused = document.activeElement.matches("[name=job]") ? box : row.querySelector("a");
      old.replaceWith(row);
      focused.focus({ preventScroll: true });
    } else if (old) {
      old.replaceWith(row);
    } else {
      body.append(row);
    }
  }
  if (changes.order) {
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    const kept = new Set(changes.order.map((number) => `job-${number}`));
    for (const row of [...body.rows]) if (!kept.has(row.id)) row.remove();
    changes.order.forEach((number, place) => {
      const row = document.getElementById(`job-${number}`);
      if (body.rows[place] !== row) body.insertBefore(row, body.rows[place]);
    });
    if (focused?.isConnected) focused.focus({ preventScroll: true }); /* a row that moves loses it */
  }
  countSelected();
  if (changes.summary !== summary) { /* a screen reader should not repeat unchanged counts */
    summary = changes.summary;
    const place = document.getElementById("summary");
    const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    place.innerHTML = changes.summary;
    if (focused) [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }
}

/* How many of the rows are selected. */
function countSelected() {
  const count = table.querySelectorAll("[name=job]:checked").length;
  const place = document.querySelector("[data-selected]");
  const words = count ? `${count} selected` : "";
  if (place && place.textContent !== words) place.textContent = words;
}

async function refresh() {
  if (document.hidden) return;
  const place = table || awaiting;
  const have = table ? [...table.tBodies[0].rows].map((row) => `${row.id.slice(4)}:${row.dataset.v}`).join() : "";
  const address = new URL(place.dataset.changes, location.href);
  if (place.dataset.version) address.searchParams.set("since", place.dataset.version);
  const response = await fetch(address, { headers: { "X-Have": have }, redirect: "manual" });
  if (response.type === "opaqueredirect") location.reload();
  if (response.ok) document.dispatchEvent(new Event("updated"));
  if (!response.ok || response.status === 204) return; /* 204: nothing has changed */
  const changes = await response.json();
  place.dataset.version = changes.version;
  if (table) apply(changes);
  else if (changes.order) location.replace(awaiting.dataset.page);
}

async function keepCurrent() {
  try {
    await refresh();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; /* the server cannot be reached: try again */
  } finally {
    setTimeout(keepCurrent, awaiting ? 2000 : EVERY_MS);
  }
}

/* Enter on a checkbox would submit the form with its first button. */
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("[type=checkbox]")) event.preventDefault();
});

if (table) {
  table.addEventListener("change", countSelected);
  countSelected(); /* a browser may restore what was selected */
}
if (table || awaiting) setTimeout(keepCurrent, awaiting ? 2000 : EVERY_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh().catch(() => {}); });
