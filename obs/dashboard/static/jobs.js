"use strict";

/* Keeps the overview current without touching the scroll position, the filters or what is being typed. */
const table = document.getElementById("jobs");
const awaiting = document.getElementById("awaiting"); /* no job is shown yet */
const EVERY_MS = 5000;
let summary = "";

function rowFrom(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const row = holder.content.querySelector("tr");
  sayTimes(row);
  return row;
}

function apply(answer) {
  const body = table.tBodies[0];
  for (const [number, html] of Object.entries(answer.rows)) {
    const row = rowFrom(html);
    const old = document.getElementById(`job-${number}`);
    if (old && old.contains(document.activeElement)) {
      old.replaceWith(row);
      row.querySelector("a").focus({ preventScroll: true });
    } else if (old) {
      old.replaceWith(row);
    } else {
      body.append(row);
    }
  }
  if (answer.order) {
    const wanted = new Set(answer.order.map((number) => `job-${number}`));
    for (const row of [...body.rows]) if (!wanted.has(row.id)) row.remove();
    answer.order.forEach((number, place) => {
      const row = document.getElementById(`job-${number}`);
      if (body.rows[place] !== row) body.insertBefore(row, body.rows[place]);
    });
  }
  if (answer.summary && answer.summary !== summary) { /* unchanged counts are not read out again */
    summary = answer.summary;
    const place = document.getElementById("summary");
    const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    place.innerHTML = answer.summary;
    if (focused) [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    document.title = document.title.replace(/^(\(\d+\) )?/, answer.trouble ? `(${answer.trouble}) ` : "");
  }
}

async function refresh() {
  if (document.hidden) return false;
  const place = table || awaiting;
  const have = table ? [...table.tBodies[0].rows].map((row) => `${row.id.slice(4)}:${row.dataset.v}`).join() : "";
  const response = await fetch(place.dataset.changes, { headers: { "X-Have": have }, redirect: "manual" });
  if (response.type === "opaqueredirect") location.reload();
  if (!response.ok) return false;
  const answer = await response.json();
  if (table) apply(answer);
  else if (answer.order) location.replace(awaiting.dataset.page);
  return Boolean(table && answer.more);
}

async function keepCurrent() {
  try {
    while (await refresh());
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; /* the service is out of reach: try again */
  } finally {
    setTimeout(keepCurrent, awaiting ? 2000 : EVERY_MS);
  }
}

if (table || awaiting) setTimeout(keepCurrent, awaiting ? 2000 : EVERY_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh().catch(() => {}); });
