"use strict";

/* Buttons that fill in the start and the end of a form. Each has two functions of now: the start and the end. */
{
  const HOUR = 3600000;
  const at = (now, days, hour) => new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, hour);
  const isNight = (now) => now.getHours() < 6 || now.getHours() >= 22;
  const hours = (count) => [(now) => now, (now) => new Date(now.getTime() + count * HOUR)];
  const PRESETS = {
    "Now, for 1 hour": hours(1),
    "Now, for 4 hours": hours(4),
    "Tonight, 22:00 to 06:00": [(now) => (isNight(now) ? now : at(now, 0, 22)), (now) => at(now, now.getHours() < 6 ? 0 : 1, 6)],
  };

  for (const place of document.querySelectorAll("[data-presets]")) {
    const inputs = place.dataset.presets.split(" ").map((name) => place.closest("form").elements[name]);
    const fill = (times) => {
      const now = new Date();
      inputs.forEach((input, number) => {
        const moment = times[number](now);
        input.value = new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
        input.dispatchEvent(new Event("input"));
      });
    };
    if (place.dataset.zone !== ZONE) continue; /* the form is in another zone, which only the server can convert */
    place.hidden = false;
    for (const [words, times] of Object.entries(PRESETS)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = words;
      button.addEventListener("click", () => fill(times));
      place.append(button);
    }
    if (inputs.every((input) => !input.value)) fill(PRESETS["Now, for 1 hour"]);
  }
}
