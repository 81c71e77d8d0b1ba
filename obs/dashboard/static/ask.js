"use strict";

/* The address of another page. */
function addressOf(path) {
  return new URL(path, document.querySelector(".brand").href);
}

/* The JSON in a response of the server; throws an Error with the message of its page for an error. */
async function answerOf(response) {
  if (response.ok) return response.json();
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  throw new Error(page.querySelector("h1")?.textContent ?? "You are signed out. Reload the page to sign in again.");
}

/* Asks the server a statement in OQL, with the rights of the viewer. Returns {columns, rows}; throws as answerOf does. */
async function ask(statement) {
  const address = addressOf("query/answer.json");
  address.searchParams.set("q", statement);
  return answerOf(await fetch(address, { redirect: "manual", cache: "no-store" }));
}

/* A text as OQL writes it. */
function quoted(text) {
  return `'${text.replaceAll("'", "''")}'`;
}
