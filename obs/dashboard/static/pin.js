"use strict";

/* The schedule of a job: only the fields of the chosen type are shown. While one is typed: its next times in its zone and in
   the viewer's, and how many of the last runs it would have called overdue. The server computes the times of a cron expression. */
{
  const FIELDS = { cron: ["cron", "timezone", "grace"], interval: ["interval", "grace"] };
  const WAIT_MS = 300;
  const NO_MINUTES = "Enter a number of minutes, e.g. 30.";
  const place = document.getElementById("pin-preview");
  const form = place.closest("form");
  const { kind, cron, timezone, interval, grace } = form.elements;
  const format = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  const yearIn = (zone, moment) => new Intl.DateTimeFormat("en", { year: "numeric", timeZone: zone }).format(moment);
  const isMinutes = (field, least) => Number(field.value) >= least && Number.isFinite(Number(field.value));
  let runs;
  let timer;
  let asked = 0;

  /* With the year if it is another one. */
  function inZone(moment, zone) {
    const year = yearIn(zone, moment) === yearIn(zone, Date.now()) ? {} : { year: "numeric" };
    return new Intl.DateTimeFormat(undefined, { ...format, ...year, timeZone: zone }).format(moment);
  }

  async function timesAfter(since) {
    const fields = new FormData(form);
    if (since) fields.set("since", since);
    return answerOf(await fetch(place.dataset.times, { method: "POST", body: fields, redirect: "manual" }));
  }

  async function lastRuns() {
    runs ??= (await ask(`SELECT time, ended_at FROM runs WHERE job = ${quoted(place.dataset.job)} ` +
      "ORDER BY time DESC LIMIT 300 LAST 90d")).rows.reverse()
      .map(([start, end]) => ({ start: Date.parse(start), end: Date.parse(end ?? start) }));
    return runs;
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
    const isTyped = { cron, interval }[kind.value]?.value.trim();
    if (!isTyped) return [];
    if (!isMinutes(grace, 0) || (kind.value === "interval" && !isMinutes(interval, 1 / 60))) return [line("p", NO_MINUTES)];
    if (kind.value === "interval") {
      return [line("p", judge(await lastRuns(), (end) => end + Number(interval.value) * 60000))];
    }
    const zone = timezone.value.trim() || "UTC";
    const list = document.createElement("ul");
    const [next, found] = await Promise.all([timesAfter(), lastRuns()]);
    list.append(...next.slice(0, 5).map((moment) => line("li", inZone(moment, zone) + (zone === ZONE ? "" : ` (${inZone(moment, ZONE)})`))));
    const times = found.length ? await timesAfter(found[0].end) : [];
    const isTooOften = times.at(-1) < found.at(-1)?.start; /* the server sends the first 1,000 */
    const verdict = isTooOften ? "It expects far more runs than there were."
      : judge(found, (end) => times.find((moment) => moment > end) ?? Infinity);
    return [line("p", `Next times in ${zone}${zone === ZONE ? "" : ` (in ${ZONE})`}:`), list, line("p", verdict)];
  }

  async function show() {
    const mine = ++asked;
    const parts = await preview().catch((error) => [line("p", error.message.replace(/^[\w.]+: /, ""))]); /* the field */
    if (mine === asked) place.replaceChildren(...parts); /* not if more was typed in the meantime */
  }

  function showFields() {
    for (const name of ["cron", "timezone", "interval", "grace"]) {
      form.elements[name].closest(".field").hidden = !FIELDS[kind.value]?.includes(name);
    }
  }

  function offerZones() {
    const zones = document.createElement("datalist");
    zones.id = "zones";
    zones.append(...(Intl.supportedValuesOf?.("timeZone") ?? []).map((zone) => new Option("", zone)));
    form.append(zones);
    timezone.setAttribute("list", zones.id);
  }

  timezone.addEventListener("focus", offerZones, { once: true });
  showFields();
  window.addEventListener("pageshow", showFields); /* after "Back", the browser restores what was chosen */
  kind.addEventListener("change", showFields);
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, WAIT_MS);
  });
}
