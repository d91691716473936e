// Starts what every page of ours has: the live part, clocks, and actions.

import { wireActions } from "./actions.js";
import { Live } from "./live.js";
import { tick } from "./moments.js";

const root = document.getElementById("rl-live");
const bar = document.getElementById("rl-bar");
const live = new Live(root, bar);

bar.hidden = false;
live.start();
tick();
setInterval(tick, 500);

const toggle = bar.querySelector("button[data-toggle-updates]");
toggle.addEventListener("click", () => (toggle.textContent = live.toggle() ? "Stop updates" : "Go on updating"));

// who may only look gets no dialog
const dialog = document.getElementById("rl-dialog");
if (dialog) wireActions(dialog, document.getElementById("rl-said"), () => live.refresh());

for (const field of document.querySelectorAll("form[data-auto] select")) {
  field.addEventListener("change", () => field.form.requestSubmit());
}
