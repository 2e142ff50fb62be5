"use strict";
const root = document.documentElement;
const button = document.getElementById("theme");
const dark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const label = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
button.hidden = false;
label();

// A cited row may lie in a closed part of the page: open it, show it and give it the focus.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target.scrollIntoView({ block: "center" });
  target.focus({ preventScroll: true });
};
addEventListener("hashchange", reveal);
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link && link.getAttribute("href") === location.hash) reveal();
});
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
reveal();
