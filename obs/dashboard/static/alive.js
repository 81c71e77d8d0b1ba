"use strict";

/* Says how old the page is and how many jobs need attention, and within 15 seconds that the server does not respond, and when it
   responds again. A page with a version is also kept current: the server responds with 204 while nothing has changed, else with the page, whose parts replace those here. */
{
  const NEXT_MS = 5000;
  const HIDDEN_MS = 60000;
  const RETRY_MS = 2000;
  const TIMEOUT_MS = 4000;
  const GONE_AFTER_MS = 8000; /* a restart is shorter */
  const CAN_HAVE_FOCUS = "a, button, [tabindex]";
  const CAN_SCROLL = ".scroll, .log, pre";
  const main = document.getElementById("main");
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const shown = document.getElementById("fresh");
  const icon = document.querySelector("link[rel=icon]");
  const isLive = Boolean(main.dataset.version || document.querySelector("[data-changes]"));
  let reachedAt = Date.now();
  let updatedAt = Date.now();
  let timer;

  function say(words) {
    const place = document.getElementById("connection");
    if (place.textContent !== words) place.textContent = words;
    place.hidden = !words;
  }

  /* A page that is not kept current says when it was loaded, even if the server responds. */
  function sayAge() {
    const seconds = Math.floor((Date.now() - updatedAt) / 1000);
    const [size, unit] = UNITS.find(([length]) => seconds >= length) ?? [1, "s"];
    shown.textContent = `${isLive ? "updated" : "loaded"} ${Math.floor(seconds / size)} ${unit} ago`;
  }

  function count(trouble) {
    if (trouble === undefined || trouble === document.body.dataset.trouble) return;
    document.body.dataset.trouble = trouble;
    document.title = document.title.replace(/^(\(\d+\) )?/, Number(trouble) ? `(${trouble}) ` : "");
    icon.href = Number(trouble) ? icon.dataset.trouble : icon.dataset.fine;
  }

  /* Replaces a part of the page, and keeps the focus, what is chosen, and what is scrolled in it. */
  function replace(part, newer) {
    if (part.querySelector(":focus:is(input, select, textarea)")) return;
    const focused = [...part.querySelectorAll(CAN_HAVE_FOCUS)].indexOf(document.activeElement);
    const address = focused < 0 ? null : document.activeElement.getAttribute("href");
    const scrolled = [...part.querySelectorAll(CAN_SCROLL)].map((one) => [one.scrollLeft, one.scrollTop]);
    for (const select of part.querySelectorAll("select")) {
      const again = newer.querySelector(`[name="${select.name}"]`);
      if (again) again.value = select.value;
    }
    prepare(newer);
    part.replaceWith(newer);
    [...newer.querySelectorAll(CAN_SCROLL)].forEach((one, place) => {
      [one.scrollLeft, one.scrollTop] = scrolled[place] ?? [0, 0];
    });
    if (focused >= 0) {
      const places = [...newer.querySelectorAll(CAN_HAVE_FOCUS)];
      const again = places.find((one) => address && one.getAttribute("href") === address) ?? places[focused];
      again?.focus({ preventScroll: true });
    }
    if (newer.querySelector("[data-chart]")) typeof drawCharts === "function" ? drawCharts(newer) : location.reload();
  }

  function update(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const parts = [...document.querySelectorAll("[data-part]")];
    const top = (part) => document.getElementById(part.id).getBoundingClientRect().top;
    const first = parts.find((part) => part.getBoundingClientRect().bottom > 0); /* what is visible should not move */
    const before = first && top(first);
    for (const part of parts) {
      const newer = page.getElementById(part.id);
      if (newer) replace(part, document.adoptNode(newer));
    }
    if (first && scrollY > 0) scrollBy({ top: top(first) - before, behavior: "instant" });
    count(page.body.dataset.trouble);
    main.dataset.version = page.getElementById("main").dataset.version;
  }

  async function poll() {
    const version = main.dataset.version;
    const response = await fetch(version ? location.href : document.body.dataset.count ?? "/healthz", {
      headers: version ? { "X-Have": version } : {}, redirect: "manual", cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (response.status >= 500) throw new TypeError(`status ${response.status}`);
    reachedAt = Date.now();
    say(response.type === "opaqueredirect" ? "You are signed out. Reload the page to sign in again." : "");
    if (!version && response.status === 200 && document.body.dataset.count) count(await response.text());
    if (!version) return;
    if (response.status === 204) updatedAt = reachedAt;
    if (response.status === 404) location.reload();
    /* Text that is being selected stays, and the page gets older; the next poll tries again. */
    if (response.status !== 200 || !getSelection().isCollapsed) return;
    update(await response.text());
    updatedAt = reachedAt;
  }

  async function keepAlive() {
    clearTimeout(timer);
    let next = NEXT_MS;
    try {
      await poll();
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
      next = RETRY_MS;
      if (Date.now() - reachedAt >= GONE_AFTER_MS) {
        say(`No connection to the server since ${clock.format(reachedAt)}. What you see may be outdated.`);
      }
    } finally {
      clearTimeout(timer);
      timer = setTimeout(keepAlive, document.hidden ? HIDDEN_MS : next);
    }
  }

  sayAge();
  setInterval(sayAge, 1000);
  document.addEventListener("updated", () => { updatedAt = Date.now(); });
  timer = setTimeout(keepAlive, NEXT_MS);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) keepAlive(); });
}
