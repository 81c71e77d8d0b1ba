"use strict";

/* Times are shown in the viewer's time zone, and relative times are kept current. The title stays in UTC. */
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const sameYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
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

showTimes(document);
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

/* Ask before a change that cannot be undone. */
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
