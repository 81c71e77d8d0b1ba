"use strict";

/* Searches the messages that a job sent, newest first. Text from jobs is only ever set as text. */
{
  const MOST = 50;
  const MOST_LINES = 5;
  const form = document.getElementById("log-search");
  const found = document.getElementById("log-found");
  form.hidden = false;

  function element(name, className, ...children) {
    const created = document.createElement(name);
    created.className = className;
    created.append(...children);
    return created;
  }

  /* The lines of a message that contain the text, with the text marked. */
  function lines(message, text) {
    const hits = message.split("\n").filter((line) => line.toLowerCase().includes(text)).slice(0, MOST_LINES);
    return hits.map((line) => {
      const start = line.toLowerCase().indexOf(text);
      const end = start + text.length;
      return element("div", "", line.slice(0, start), element("mark", "", line.slice(start, end)), line.slice(end));
    });
  }

  function entry([time, run, hits]) {
    const moment = element("time", "");
    moment.dateTime = time;
    moment.title = `${time.slice(0, 19).replace("T", " ")} UTC`;
    const link = element("a", "", moment);
    if (run !== null) link.href = addressOf(`job/run/${run}`);
    return element("li", "", link, element("pre", "", ...hits));
  }

  async function search(text) {
    const pattern = text.replace(/[\\%_]/g, "\\$&");
    const { rows } = await ask(`SELECT time, run_id, message FROM events WHERE job = ${quoted(form.dataset.job)} ` +
      `AND message ILIKE ${quoted(`%${pattern}%`)} ESCAPE '\\' ORDER BY time DESC LIMIT ${MOST} LAST 90d`);
    /* A message may have the text only in the escape sequences of a terminal. */
    const entries = rows.map(([time, run, message]) => [time, run, lines(message.replace(ESCAPE, ""), text.toLowerCase())])
      .filter(([, , hits]) => hits.length > 0).map(entry);
    const list = element("ul", "found", ...entries);
    showTimes(list);
    const count = rows.length === MOST ? "The newest messages" : `${entries.length || "No"} message${entries.length === 1 ? "" : "s"}`;
    return [element("p", "quiet", `${count} of the last 90 days with “${text}”${entries.length ? ":" : "."}`), list];
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = form.elements.text.value.trim();
    try {
      found.replaceChildren(...await search(text));
    } catch (error) {
      found.replaceChildren(element("p", "problem", `The search failed: ${error.message}`));
    }
  });
}
