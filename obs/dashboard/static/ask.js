"use strict";

/* Asks the server a statement in OQL, with the rights of the viewer. Returns {columns, rows}; throws an Error with the
   server's message. */
async function ask(statement) {
  const address = new URL("query/answer.json", document.querySelector(".brand").href);
  address.searchParams.set("q", statement);
  const response = await fetch(address, { redirect: "manual", cache: "no-store" });
  if (response.ok) return response.json();
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  throw new Error(page.querySelector("h1")?.textContent ?? "You are signed out. Reload the page to sign in again.");
}

/* A text as OQL writes it. */
function quoted(text) {
  return `'${text.replaceAll("'", "''")}'`;
}
