"use strict";

/* Statements that the viewer saved by name. The browser keeps them, for each organization. */
{
  const section = document.getElementById("saved");
  const key = `statements of ${section.dataset.org}`;
  const list = section.querySelector("ul");
  const form = section.querySelector("form");
  const problem = section.querySelector(".problem");

  function explain(words) {
    problem.textContent = words;
    problem.hidden = !words;
  }

  function link(name, statement) {
    const created = document.createElement("a");
    created.href = `?${new URLSearchParams({ q: statement })}`;
    created.textContent = name;
    return created;
  }

  function button(name) {
    const created = document.createElement("button");
    created.className = "plain";
    created.textContent = "Delete";
    created.setAttribute("aria-label", `Delete ${name}`);
    created.addEventListener("click", () => change((saved) => { delete saved[name]; }));
    return created;
  }

  function show(saved) {
    list.replaceChildren(...Object.entries(saved).map(([name, statement]) => {
      const entry = document.createElement("li");
      const code = document.createElement("code");
      code.textContent = statement;
      entry.append(link(name, statement), " ", button(name), code);
      return entry;
    }));
  }

  function change(edit) {
    try {
      const saved = JSON.parse(localStorage.getItem(key) ?? "{}");
      edit(saved);
      localStorage.setItem(key, JSON.stringify(saved));
      show(saved);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      explain("Your browser does not let this page store anything.");
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const statement = document.getElementById("q").value.trim();
    explain(statement ? "" : "Write a query first.");
    if (statement) change((saved) => { saved[form.elements.name.value.trim()] = statement; });
    if (statement) form.reset();
  });

  section.hidden = false;
  change(() => {});
}
