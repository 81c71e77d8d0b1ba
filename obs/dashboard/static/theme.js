"use strict";

/* The theme that the viewer chose: light, dark, or that of the system. It runs before the page is drawn. */
const DARK = document.querySelector("link[href$='/dark.css']");

function theme() {
  try {
    return localStorage.getItem("theme") ?? "system";
  } catch {
    return "system"; /* a browser that stores nothing */
  }
}

function applyTheme() {
  DARK.media = { light: "not all", dark: "all" }[theme()] ?? "(prefers-color-scheme: dark)";
  document.querySelector("meta[name=color-scheme]").content = { light: "light", dark: "dark" }[theme()] ?? "light dark";
}

applyTheme();
document.documentElement.classList.add("js");
