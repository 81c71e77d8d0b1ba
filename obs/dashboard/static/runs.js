"use strict";

/* On the page of a job, a click on a point of the chart opens its run, and one on a day of the calendar leads to its runs. */
function showDay(moment, status = "") {
  const address = new URL(location.href);
  address.searchParams.set("day", new Intl.DateTimeFormat("sv").format(moment)); /* as 2026-06-21 */
  address.searchParams.delete("cursor");
  if (status) address.searchParams.set("show", status);
  address.hash = "runs";
  location.href = address;
}

async function openPoint(job, { t, result, runs }) {
  const start = new Date(t).toISOString();
  const end = new Date(t + 1).toISOString();
  const showAround = () => showDay(t, ["failed", "lost"].includes(result) ? result : "");
  if (runs > 1) return showAround();
  try {
    const { rows: [[id]] } = await ask(`SELECT id FROM runs WHERE job = ${quoted(job)} BETWEEN '${start}' AND '${end}' LIMIT 1`);
    location.href = addressOf(`job/run/${id}`);
  } catch {
    showAround(); /* the limit of queries is reached, or the run was deleted */
  }
}

document.addEventListener("drawn", ({ target, detail: { views } }) => {
  const { job } = document.getElementById("verdict").dataset;
  views.forEach((view) => view.addEventListener("click", (_, item) => {
    if (item?.mark.marktype === "symbol") openPoint(job, item.datum);
  }));
});

document.addEventListener("click", (event) => {
  const day = event.target.closest(".calendar g")?.querySelector("title").textContent.split(":")[0];
  if (day) showDay(new Date(day));
});
