"use strict";

/* Fetches the page again while its run is open, and shows what is new. */
async function follow() {
  const place = document.getElementById("live");
  if (!document.hidden) {
    try {
      const response = await fetch(location.href, { redirect: "manual" });
      if (response.ok) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.getElementById("live");
        showTimes(fresh);
        if (fresh.innerHTML !== place.innerHTML) place.replaceWith(fresh);
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; /* the server cannot be reached: try again */
    }
  }
  if ("live" in document.getElementById("live").dataset) setTimeout(follow, 3000);
}

setTimeout(follow, 3000);
