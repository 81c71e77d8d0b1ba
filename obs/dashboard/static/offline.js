"use strict";

/* A service worker that shows a page of its own when the server cannot be reached. It keeps nothing but static files. */
const PAGE = new URL("offline.html", location).href;
const FILES = [PAGE, ...["obs.css", "dark.css"].map((name) => new URL(name, location).href)];
const CACHE = "offline-1";

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  if (request.mode === "navigate") event.respondWith(fetch(request).catch(() => caches.match(PAGE)));
  else if (FILES.includes(request.url)) event.respondWith(fetch(request).catch(() => caches.match(request)));
});
