"use strict";

/* While a schedule is typed: its next times in its zone and in the viewer's, and how many of the last runs it would have
   called overdue. The server computes the times of a cron expression. */
{
  const WAIT_MS = 300;
  const place = document.getElementById("pin-preview");
  const form = place.closest("form");
  const { kind, timezone, interval, grace } = form.elements;
  const format = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  const inZone = (moment, zone) => new Intl.DateTimeFormat(undefined, { ...format, timeZone: zone }).format(moment);
  let runs;
  let timer;
  let asked = 0;

  async function timesAfter(since) {
    const fields = new FormData(form);
    fields.set("since", since);
    const response = await fetch(place.dataset.times, { method: "POST", body: fields, redirect: "manual" });
    if (response.ok) return response.json();
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    throw new Error(page.querySelector("h1")?.textContent.replace(/^[\w.]+: /, "") ?? "You are signed out.");
  }

  async function lastRuns() {
    const { rows } = await ask(`SELECT time, ended_at FROM runs WHERE job = ${quoted(place.dataset.job)} ` +
      "ORDER BY time DESC LIMIT 300 LAST 90d");
    return rows.reverse().map(([start, end]) => ({ start: Date.parse(start), end: Date.parse(end ?? start) }));
  }

  /* `dueAfter` is when the next run is due after one that ended. */
  function judge(found, dueAfter) {
    if (found.length < 2) return "";
    const late = found.slice(1).filter((run, before) => run.start > dueAfter(found[before].end) + Number(grace.value || 1) * 60000);
    return `Of the last ${found.length - 1} runs, ${late.length || "none"} would have been overdue.`;
  }

  function line(name, text) {
    const created = document.createElement(name);
    created.textContent = text;
    return created;
  }

  async function preview() {
    if (kind.value === "interval") {
      return interval.value ? [line("p", judge(await runs, (end) => end + Number(interval.value) * 60000))] : [];
    }
    if (kind.value !== "cron") return [];
    const zone = timezone.value.trim() || "UTC";
    const list = document.createElement("ul");
    const next = (await timesAfter(Date.now())).slice(0, 5);
    list.append(...next.map((moment) => line("li", inZone(moment, zone) + (zone === ZONE ? "" : ` (${inZone(moment, ZONE)} here)`))));
    const found = await runs;
    const times = found.length ? await timesAfter(found[0].end) : [];
    const isTooOften = times.at(-1) < found.at(-1)?.start; /* the server sends the first 1,000 */
    const verdict = isTooOften ? "It expects far more runs than there were."
      : judge(found, (end) => times.find((moment) => moment > end) ?? Infinity);
    return [line("p", `Next times, ${zone}:`), list, line("p", verdict)];
  }

  async function show() {
    const mine = ++asked;
    runs ??= lastRuns();
    const parts = await preview().catch((error) => [line("p", error.message)]);
    if (mine === asked) place.replaceChildren(...parts); /* not if more was typed in the meantime */
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, WAIT_MS);
  });
}
