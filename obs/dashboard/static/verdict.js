"use strict";

/* Above the chart of a job, in words: how long its runs take this week and took the week before, and between which
   annotations they took longer or shorter than otherwise. */
{
  const ASK_AGAIN_MS = 60000;
  const FEWEST_RUNS = 4;
  const MOST_MARKS = 40;
  const LEAST_CHANGE = 1.25;
  let weekly = { words: "", until: 0 };

  const sorted = (numbers) => Float64Array.from(numbers).sort();
  const at = (numbers, share) => numbers[Math.min(numbers.length - 1, Math.floor(share * numbers.length))];
  const distance = (numbers) => numbers.reduce((sum, one) => sum + Math.abs(one - at(numbers, 0.5)), 0);

  /* The two annotations between which, or the one since which, the durations are best described by another median. */
  function findChange(points, annotations, end) {
    const runs = points.filter((point) => point.status === "success" && point.duration_ms > 0)
      .map((point) => ({ time: point.time, length: Math.log(point.duration_ms) }));
    const marks = annotations.filter((one) => one.end_time === null && !one.name.startsWith("incident/"))
      .map(({ start_time: time, title }) => ({ time, title })).sort((one, other) => one.time - other.time).slice(-MOST_MARKS);
    const ends = [...marks.slice(1), { time: end + 1, title: "" }];
    let best = { cost: distance(sorted(runs.map((run) => run.length))) };
    marks.forEach((from, first) => ends.slice(first).forEach((to) => {
      const isIn = (run) => run.time >= from.time && run.time < to.time;
      const inside = sorted(runs.filter(isIn).map((run) => run.length));
      const outside = sorted(runs.filter((run) => !isIn(run)).map((run) => run.length));
      if (Math.min(inside.length, outside.length) < FEWEST_RUNS) return;
      const cost = distance(inside) + distance(outside);
      if (cost < best.cost) best = { cost, from, to, inside, outside };
    }));
    return best;
  }

  function wordsForChange({ from, to, inside, outside }) {
    if (!from) return "";
    const times = Math.exp(at(inside, 0.5) - at(outside, 0.5));
    const isLonger = times >= LEAST_CHANGE && at(inside, 0.1) > at(outside, 0.75);
    const isShorter = times <= 1 / LEAST_CHANGE && at(inside, 0.9) < at(outside, 0.25);
    if (!isLonger && !isShorter) return "";
    const change = isLonger ? `${times.toFixed(1)} times as long` : `${Math.round(100 - 100 * times)} % shorter`;
    return `${change} ${to.title ? `from “${from.title}” to “${to.title}”` : `since “${from.title}”`}.`;
  }

  async function wordsForWeek(job) {
    if (Date.now() < weekly.until) return weekly.words;
    weekly.until = Date.now() + ASK_AGAIN_MS;
    const { rows: [[now, before]] } = await ask("SELECT p50(duration_ms) FROM runs " +
      `WHERE job = ${quoted(job)} AND status = 'success' COMPARE WITH 7d AGO LAST 7d`);
    if (now === null) return "";
    const change = before ? Math.round(100 * (now / before - 1)) : null;
    const compared = change === null ? "" : `, ${change < 0 ? "−" : "+"}${Math.abs(change)} % vs. the week before`;
    return `Median of the last 7 days: ${inWords(now)}${compared}.`;
  }

  const judge = async ({ detail: { data, annotations } }) => {
    const change = wordsForChange(findChange(data.points, annotations, data.end));
    const show = () => {
      document.getElementById("verdict").textContent = [weekly.words, change].filter(Boolean).join(" ");
    };
    show();
    try {
      weekly.words = await wordsForWeek(document.getElementById("verdict").dataset.job);
    } catch {
      weekly.words = ""; /* the limit of queries is reached, or the server is gone: the chart shows the rest */
    }
    show();
  };
  document.addEventListener("sketched", judge);
  document.addEventListener("drawn", judge);
}
