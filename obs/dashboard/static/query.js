"use strict";

/* The editor: it selects an error, runs the query on Ctrl+Enter, and completes words. */
const editor = document.getElementById("q");
const list = document.getElementById("completions");
const KEYWORDS = ("SELECT FROM WHERE BY EVERY AUTO LAST BETWEEN SINCE UNTIL HAVING ORDER TOP LIMIT OFFSET FILL TIMEZONE COMPARE WITH AGO " +
  "AROUND WITHIN AND OR NOT IN LIKE ILIKE ESCAPE CONTAINS STARTS IS NULL TRUE FALSE AS DESC ASC CASE WHEN THEN ELSE END FILTER " +
  "DISTINCT GROUP EXPLAIN SHOW SOURCES COLUMNS NOW TODAY YESTERDAY").split(" ");
const FUNCTIONS = editor.dataset.functions.split(" ").map((name) => `${name}(`);
const NAMES = [...document.querySelectorAll("[data-name]")].map((place) => place.textContent);
const WORDS = [...new Set([...NAMES, ...FUNCTIONS, ...KEYWORDS])];
let chosen = 0;

function wordBefore() {
  return /[A-Za-z_][A-Za-z0-9_]*$/.exec(editor.value.slice(0, editor.selectionStart))?.[0] ?? "";
}

/* Writes over a part of the statement. Unlike an assignment, it can be undone. */
function writeOver(start, end, text) {
  editor.focus();
  editor.setSelectionRange(start, end);
  document.execCommand("insertText", false, text);
  list.hidden = true;
}

function complete(text) {
  writeOver(editor.selectionStart - wordBefore().length, editor.selectionStart, text);
}

function offer() {
  const word = wordBefore().toLowerCase();
  const found = word.length < 2 ? [] : WORDS.filter((one) => one.toLowerCase().startsWith(word) && one.toLowerCase() !== word).slice(0, 8);
  chosen = 0;
  list.replaceChildren(...found.map((one, place) => {
    const entry = document.createElement("li");
    entry.textContent = one;
    entry.setAttribute("role", "option");
    entry.setAttribute("aria-selected", String(place === chosen));
    entry.addEventListener("mousedown", (event) => { event.preventDefault(); complete(one); });
    return entry;
  }));
  list.hidden = found.length === 0;
}

function move(step) {
  chosen = (chosen + step + list.children.length) % list.children.length;
  [...list.children].forEach((entry, place) => entry.setAttribute("aria-selected", String(place === chosen)));
}

editor.addEventListener("input", offer);
editor.addEventListener("blur", () => { list.hidden = true; });
editor.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    editor.form.requestSubmit();
  } else if (!list.hidden) {
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if (event.key === "Tab" || event.key === "Enter") complete(list.children[chosen].textContent);
    else if (event.key === "Escape") list.hidden = true;
    else return;
    event.preventDefault();
  }
});

if (editor.dataset.offset) {
  /* The server counts characters, the browser their UTF-16 units: an emoji is two. */
  const units = (count) => [...editor.value].slice(0, count).join("").length;
  const [start, length] = [Number(editor.dataset.offset), Number(editor.dataset.length)];
  if (!document.querySelector("#parameters [autofocus]")) editor.focus();
  editor.setSelectionRange(units(start), units(start + Math.max(1, length)));
}
