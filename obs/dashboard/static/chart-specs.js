"use strict";

/* What each kind of chart draws from the data in the page, as Vega-Lite specifications. Times and durations are milliseconds; in
   a result, times are ISO 8601. "--failed" is a colour of the style sheet. */
const LENGTHS = [[86400000, "days"], [3600000, "hours"], [60000, "minutes"], [1000, "seconds"], [1, "milliseconds"]];
const DURATION = /^(.*)_ms(_before|_after|_previous)?$/; /* a column; with the additions of AROUND and COMPARE WITH */
const PREVIOUS = "_previous";
const COLOURS = 8; /* of lines, in charts.js */
const DASHES = [[1, 0], [6, 3], [2, 2], [10, 3, 2, 3]];
const UNSET = "(not set)"; /* a group without a value, as on the page Projects */
const TICKS = { year: "%Y", quarter: "%b", month: "%b", week: "%d %b", date: "%d %b", day: "%d %b", hours: "%H:%M", minutes: "%H:%M", seconds: "%H:%M:%S", milliseconds: "%H:%M:%S" };
const TIME = {
  field: "t", type: "temporal", title: null, scale: { nice: false },
  axis: { format: TICKS, tickCount: { signal: "ceil(width / 90)" }, labelOverlap: true, labelSeparation: 8, grid: false },
};
const WHEN = { field: "t", type: "temporal", format: "%a %d %b %Y %H:%M", title: "Time" };
const ABOUT_ANNOTATION = [WHEN, { field: "name", title: "Annotation" }, { field: "title", title: "Title" }];

/* The largest unit of which the longest duration has at least 1.5. */
function unitFor(durations) {
  const longest = durations.reduce((most, one) => Math.max(most, one ?? 0), 0);
  return LENGTHS.find(([length]) => longest >= 1.5 * length) ?? LENGTHS.at(-1);
}

/* By what the numbers of a column are divided, and the title of their axis. */
function axisOf(name, numbers) {
  const [, what, when = ""] = DURATION.exec(name) ?? [];
  if (what === undefined) return [1, name];
  const [length, unit] = unitFor(numbers);
  return [length, `${what}${when}, ${unit}`];
}

/* The axis of some values: whole numbers have no ticks between them. */
function ticksOf(values) {
  return values.every(({ y }) => y === null || Number.isInteger(y)) ? { tickMinStep: 1, format: ",d" } : {};
}

/* How high a chart is that has a row for each name. */
function heightOf(values, row) {
  return row * new Set(values.map(({ name }) => name)).size;
}

function inUnit(number, length) {
  return number === null ? null : number / length;
}

function layered(description, layer) {
  return { width: "container", height: 260, description, layer };
}

/* Annotations with an end are bands, cut to the span if there is one; the others are dashed lines. */
function overlay(annotations, span = { start: -Infinity, end: Infinity }) {
  const described = ({ name, title, start_time: t }) => ({ t, name, title });
  const points = annotations.filter((one) => one.end_time === null).map(described);
  const bands = annotations.filter((one) => one.end_time !== null).map((one) => (
    { ...described(one), t: Math.max(one.start_time, span.start), to: Math.min(one.end_time, span.end) }
  ));
  const about = { x: TIME, tooltip: ABOUT_ANNOTATION };
  const layers = [
    [bands, { type: "rect", opacity: 0.18 }, { ...about, x2: { field: "to" } }],
    [points, { type: "rule", strokeWidth: 2, strokeDash: [5, 3] }, { x: TIME, tooltip: null }],
    /* A thin line is hard to point at: an invisible wide one has the tooltip. */
    [points, { type: "rule", strokeWidth: 14, opacity: 0.01 }, about],
  ];
  return layers.filter(([values]) => values.length > 0).map(([values, mark, encoding]) => (
    { data: { values }, mark: { color: "--accent", ...mark }, encoding }
  ));
}

/* The titles of annotations without an end, along their lines; one that is too close to the next is left out. */
function titles(annotations, { start, end }) {
  const closest = (end - start) / 50;
  const points = annotations.filter((one) => one.end_time === null && !one.name.startsWith("incident/"))
    .sort((one, other) => other.start_time - one.start_time);
  const values = [];
  for (const { start_time: t, name, title } of points) if (!values.length || values.at(-1).t - t > closest) values.push({ t, name, title });
  const mark = { type: "text", angle: 270, align: "right", baseline: "top", dx: 4, dy: 3, limit: 190, color: "--quiet" };
  return values.length ? [{ data: { values }, mark, encoding: { x: TIME, y: { value: 0 }, text: { field: "title" }, tooltip: ABOUT_ANNOTATION } }] : [];
}

/* The median of the successful runs around each, and the band that has 80 % of them. */
function trend(values) {
  const runs = values.filter((one) => one.result === "success");
  if (runs.length < 10) return [];
  const around = Math.max(3, Math.round(runs.length / 25));
  const lines = runs.map(({ t }, place) => {
    const near = runs.slice(Math.max(0, place - around), place + around + 1).map((one) => one.y).sort((one, other) => one - other);
    const at = (share) => near[Math.round(share * (near.length - 1))];
    return { t, low: at(0.1), mid: at(0.5), high: at(0.9) };
  });
  const y = (field) => ({ field, type: "quantitative" });
  const layer = [
    { mark: { type: "area", opacity: 0.14 }, encoding: { x: TIME, y: y("low"), y2: { field: "high" } } },
    { mark: { type: "line", strokeWidth: 1.5, opacity: 0.8 }, encoding: { x: TIME, y: y("mid") } },
  ].map(({ mark, encoding }) => ({ mark: { ...mark, color: "--success", tooltip: null }, encoding }));
  return [{ data: { values: lines }, layer }];
}

/* How long after the run before it each run came, where a job reports no durations. Of several runs in a part of the
   time, which are a point for each status, all but the last are taken to be as far apart as usual, so that a gap stays
   visible. */
function waits(points, part) {
  const parts = [];
  for (const { time, runs } of points) {
    const last = parts.at(-1);
    if (last && Math.floor(last.time / part) === Math.floor(time / part)) last.runs += runs;
    else parts.push({ time, runs });
  }
  const each = parts.slice(1).map(({ time }, place) => (time - parts[place].time) / parts[place].runs).sort((one, other) => one - other);
  const usual = each[Math.floor((each.length - 1) / 2)];
  return points.map(({ time }) => {
    const place = parts.findIndex((one) => one.time === time), before = parts[place - 1];
    if (place < 0) return usual ?? null;
    return before ? Math.max(0, time - before.time - (before.runs - 1) * usual) : null;
  });
}

/* The runs of a job, or if none has a duration, the time between them. `signs` has the shapes of statuses. */
function runDurations({ start, end, points, statuses, signs }, annotations) {
  const isTimed = points.some((point) => point.duration_ms !== null);
  const lengths = isTimed ? points.map((point) => point.duration_ms) : waits(points, Math.floor((end - start) / 720));
  const [length, unit] = unitFor(lengths);
  const values = points.map(({ time, status, runs }, place) => (
    { t: time, y: (lengths[place] ?? 0) / length, result: status, words: lengths[place] === null ? "not reported" : inWords(lengths[place]), runs }
  )).filter((_, place) => isTimed || lengths[place] !== null);
  const byStatus = (range) => ({ field: "result", scale: { domain: statuses, range }, legend: null });
  const runs = {
    data: { values },
    mark: { type: "point", filled: true, size: 60, opacity: 0.9, cursor: "pointer" },
    encoding: {
      x: TIME,
      y: { field: "y", type: "quantitative", title: unit, scale: { zero: true } },
      color: byStatus(statuses.map((status) => `--${status}`)),
      shape: byStatus(statuses.map((status) => (signs[status] ?? signs.other).shape)),
      tooltip: [
        { ...WHEN, title: "Started" },
        { field: "result", title: "Result" },
        { field: "words", title: isTimed ? "Duration" : "Since the run before" },
        { field: "runs", title: "Runs" },
      ],
    },
  };
  /* The expression interpreter cannot handle a scale with an explicit domain: two invisible rules span it instead. */
  const span = { data: { values: [{ t: start }, { t: end }] }, mark: { type: "rule", opacity: 0 }, encoding: { x: TIME } };
  const known = isTimed ? trend(values.filter((_, place) => lengths[place] !== null)) : [];
  /* What has a tooltip is above what has none. */
  const layers = [span, ...known, ...overlay(annotations, { start, end }), ...titles(annotations, { start, end }), runs];
  return [layered(isTimed ? "Run duration over time" : "Time between runs", layers)];
}

/* A chart for each number of a timeseries, with its values in the previous window, and a line for each group.
   `numbers` are the places of the columns that contain numbers. */
function timeseries({ columns, rows, numbers }, annotations) {
  const groups = columns.map((_, place) => place).slice(1).filter((place) => !numbers.includes(place));
  const names = numbers.map((place) => columns[place]);
  const isPrevious = (name) => name.endsWith(PREVIOUS) && names.includes(name.slice(0, -PREVIOUS.length));
  return names.filter((name) => !isPrevious(name)).map((name) => {
    const shown = numbers.filter((place) => columns[place] === name || columns[place] === name + PREVIOUS);
    return linesOf(name, columns, rows, shown, groups, annotations);
  });
}

/* Lines by colour, and where there are more of them than colours, by dashes. */
function toldApart(values) {
  const legend = { orient: "bottom", symbolType: "stroke", columns: { expr: "max(1, floor(containerSize()[0] / 150))" } };
  const by = { field: "line", type: "nominal", title: null, legend };
  const range = [...new Set(values.map(({ line }) => line))].map((_, place) => DASHES[Math.floor(place / COLOURS) % DASHES.length]);
  return { color: by, ...range.length > COLOURS && { strokeDash: { ...by, scale: { range } } } };
}

function linesOf(name, columns, rows, numbers, groups, annotations) {
  const hasSeveral = numbers.length > 1 || groups.length > 0;
  const [length, title] = axisOf(name, rows.flatMap((row) => numbers.map((place) => row[place])));
  const nameOf = (row, place) => {
    const group = groups.map((one) => row[one] ?? UNSET);
    return (numbers.length > 1 ? [...group, columns[place]] : group).join(" · ");
  };
  const values = rows.flatMap((row) => numbers.map((place) => (
    { t: row[0], y: inUnit(row[place], length), line: nameOf(row, place) }
  )));
  const encoding = {
    x: TIME,
    y: { field: "y", type: "quantitative", title, axis: ticksOf(values) },
    tooltip: [
      WHEN,
      { field: "y", type: "quantitative", title, format: ",.4~g" },
      ...hasSeveral ? [{ field: "line", title: "Line" }] : [],
    ],
    ...hasSeveral && toldApart(values),
  };
  const lines = { data: { values }, mark: { type: "line" }, encoding };
  const points = { data: { values: rows.length < 200 ? values : between(values) }, mark: { type: "point", filled: true, opacity: 1, size: 30 }, encoding };
  return layered(`${name} over time`, [...overlay(annotations), lines, points]);
}

/* The values between two gaps of their line: a line alone would not show them. */
function between(values) {
  const before = {};
  const after = new Map();
  for (const value of values) {
    if (value.line in before) after.set(before[value.line], value);
    before[value.line] = value;
  }
  const isGap = (value) => (value?.y ?? null) === null;
  const found = new Set(values);
  for (const [value, next] of after) {
    if (isGap(value) || isGap(next)) continue;
    found.delete(value);
    found.delete(next);
  }
  return [...found].filter((value) => !isGap(value));
}

/* What an alert would have compared: a line for each group, and the threshold. Without a number, a group has the `absent` one. */
function preview({ numbers, absent, threshold }, annotations) {
  const groups = [...new Set(numbers.flatMap(([, found]) => Object.keys(found)))];
  const named = groups.filter(Boolean);
  const rows = numbers.flatMap(([moment, found]) => [
    ...(named.length ? named : groups).map((group) => [moment, group || "value", group in found ? found[group] : absent]),
    [moment, "threshold", threshold],
  ]);
  return timeseries({ columns: ["t", "group", "value"], rows, numbers: [2] }, annotations);
}

/* A bar for each row: the first column is its name, the second its length. */
function bars({ columns: [group, name], rows }) {
  const [length, title] = axisOf(name, rows.map((row) => row[1]));
  const values = rows.map((row) => ({ name: String(row[0] ?? UNSET), y: inUnit(row[1], length) }));
  const encoding = {
    y: { field: "name", type: "nominal", title: group, sort: null },
    x: { field: "y", type: "quantitative", title, axis: ticksOf(values) },
    tooltip: [{ field: "name", title: group }, { field: "y", title, format: ",.4~g" }],
  };
  return [{ ...layered("The result by group", [{ data: { values }, mark: "bar", encoding }]), height: heightOf(values, 24) }];
}

/* Annotations alone, in a row for each name. */
function strip(_, annotations) {
  const values = annotations.map(({ name, title, start_time: t, end_time: end }) => ({ t, to: end ?? t, name, title }));
  const encoding = { x: TIME, y: { field: "name", type: "nominal", title: null }, tooltip: ABOUT_ANNOTATION };
  const bands = { mark: { type: "bar", opacity: 0.4, height: 12 }, encoding: { ...encoding, x2: { field: "to" } } };
  const ticks = { mark: { type: "tick", thickness: 3, size: 14 }, encoding };
  return [{ ...layered("Annotations over time", [bands, ticks]), data: { values }, height: heightOf(values, 22) }];
}

/* Each takes the data and the annotations of the page, and returns a specification for each of its charts. */
const CHARTS = { durations: runDurations, timeseries, preview, bar: bars, strip };
