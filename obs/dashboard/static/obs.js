"use strict";

/* Times: said in the viewer's zone; relative ones are kept current. The title keeps UTC. */
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const sameYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const otherYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const toTheSecond = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function relative(moment, now) {
  const seconds = Math.floor(Math.abs(now - moment) / 1000);
  if (seconds < 5) return "just now";
  const [size, name] = UNITS.find(([size]) => seconds >= size);
  const text = `${Math.floor(seconds / size)} ${name}`;
  return moment < now ? `${text} ago` : `in ${text}`;
}

function sayTimes(root, now = new Date()) {
  for (const place of root.querySelectorAll(".ago")) {
    const text = relative(new Date(place.title.replace(" ", "T").replace(" UTC", "Z")), now);
    if (place.textContent !== text) place.textContent = text;
  }
  for (const place of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(place.dateTime);
    if (!place.dataset.said) {
      const precise = "precise" in place.dataset;
      const format = precise ? toTheSecond : moment.getFullYear() === now.getFullYear() ? sameYear : otherYear;
      place.textContent = format.format(moment);
      place.dataset.said = "yes";
    }
  }
}

/* The server is told the zone, for what it counts by days. */
document.cookie = `obs_zone=${Intl.DateTimeFormat().resolvedOptions().timeZone}; path=/; max-age=31536000; SameSite=Lax`;

sayTimes(document);
setInterval(() => sayTimes(document), 5000);

/* Copy buttons. */
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const code = button.closest(".snippet").querySelector("code");
  for (const other of document.querySelectorAll("[data-copy]")) other.firstChild.data = "Copy";
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.firstChild.data = "Copied";
  } catch {
    /* Without https a page may not write to the clipboard: select the text, so that one key copies it. */
    getSelection().selectAllChildren(code);
    button.firstChild.data = "Selected";
  }
});

/* Filters are applied as soon as they are chosen. */
for (const form of document.querySelectorAll("form[data-submits-itself]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

/* What cannot be undone is asked for. */
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.question;
  if (question && !confirm(question)) event.preventDefault();
});
