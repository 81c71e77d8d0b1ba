"use strict";

/* A field for each parameter in the statement, such as :job. What was entered stays while the statement is edited. */
{
  const text = document.getElementById("q");
  const place = document.getElementById("parameters");
  /* Texts, quoted names and comments first, so that nothing in them is taken for a parameter. */
  const FOUND = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--(?=\s|$).*|(?<!\S)--.*|\/\*[^]*?(?:\*\/|$)|(:[\p{L}\p{Nl}_][\p{L}\p{N}_]*)/gmu;
  const fields = new Map([...place.querySelectorAll("label")].map((label) => [label.querySelector("input").name, label]));

  function field(name) {
    const label = document.createElement("label");
    const words = document.createElement("span");
    const input = document.createElement("input");
    words.textContent = name;
    input.name = name;
    input.autocomplete = "off";
    label.append(words, input);
    return label;
  }

  function update() {
    const names = [...new Set([...text.value.matchAll(FOUND)].map((found) => found[1]).filter(Boolean))];
    for (const name of names) if (!fields.has(name)) fields.set(name, field(name));
    for (const [name, label] of fields) {
      if (!names.includes(name)) label.remove();
      else if (!label.isConnected) place.append(label);
    }
    place.hidden = names.length === 0;
  }

  text.addEventListener("input", update);
  document.getElementById("builder").addEventListener("change", () => setTimeout(update));
  update();
}
