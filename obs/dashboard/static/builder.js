"use strict";

/* Dropdowns that write a statement in OQL: what to measure of which source, by what, how often, over which time. They
   take the sources and their columns from the list on the page, and read a statement back that they could have written. */
{
  const AGGREGATES = { p50: "median", avg: "average", p95: "95th percentile", max: "maximum", sum: "sum" };
  const NO_GROUPS = ["run_id", "message", "title", "description", "url", "answer"];
  const WRITTEN = /^SELECT (.+) FROM (\w+)(?: WHERE (\w+ = '[^']+'))?(?: BY (\w+)(?: TOP 10)?)?(?: EVERY (\w+)(?: TIMEZONE '[^']+')?)? LAST (\w+)$/;
  const text = document.getElementById("q");
  const builder = document.getElementById("builder");
  const [measure, source, only, by, every, over] = builder.querySelectorAll("select");

  function columns() {
    const place = [...document.querySelectorAll("#sources .source")].find((one) => one.dataset.source === source.value);
    return [...place.querySelectorAll("[data-type]")].map((one) => ({ ...one.dataset, name: one.textContent }));
  }

  /* Offers other options: [value, words]. What was chosen stays chosen, if it still can be. */
  function offer(select, options) {
    const chosen = select.value;
    select.replaceChildren(...options.map(([value, words]) => new Option(words, value)));
    if (options.some(([value]) => value === chosen)) select.value = chosen;
  }

  function offerColumns() {
    const found = columns();
    const lengths = found.filter((one) => one.type === "duration");
    offer(measure, [["count(*)", "number"], ...lengths.flatMap(({ name }) => (
      Object.entries(AGGREGATES).map(([aggregate, words]) => [`${aggregate}(${name})`, `${words} ${name}`])))]);
    offer(by, [["", "nothing"], ...found.filter((one) => one.type === "text" && !NO_GROUPS.includes(one.name)).map(({ name }) => [name, name])]);
    offer(only, [["", "all"], ...found.flatMap(({ name, values }) => (
      values ? values.split("|").map((value) => [`${name} = '${value}'`, `${name} is ${value}`]) : []))]);
  }

  function read() {
    const [, ...parts] = WRITTEN.exec(text.value.trim()) ?? [];
    const all = [measure, source, only, by, every, over];
    const has = (select, value = "") => [...select.options].some((option) => option.value === value);
    if (!has(source, parts[1])) return;
    source.value = parts[1];
    offerColumns();
    if (all.every((select, place) => has(select, parts[place]))) {
      all.forEach((select, place) => { select.value = parts[place] ?? ""; });
    }
  }

  builder.addEventListener("change", (event) => {
    const zone = ["1d", "1w"].includes(every.value) && ZONE !== "UTC" ? ` TIMEZONE '${ZONE}'` : "";
    offerColumns();
    const written = [`SELECT ${measure.value} FROM ${source.value}`, only.value && `WHERE ${only.value}`,
      by.value && `BY ${by.value} TOP 10`, every.value && `EVERY ${every.value}${zone}`, `LAST ${over.value}`].filter(Boolean).join(" ");
    writeOver(0, text.value.length, written);
    event.target.focus();
  });

  builder.hidden = false;
  offerColumns();
  read();
}
