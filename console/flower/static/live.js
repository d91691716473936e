// Keeps the live part of a page up to date: asks for its markup every second or two, and changes only what is different.

import { morphChildren } from "./morph.js";
import { setClock, now, tick } from "./moments.js";

const SOONEST_MS = 300;
const SLOWEST_MS = 15000;

/** The live part of the page; `refresh` asks at once, `toggle` stops and goes on. */
export class Live {
  constructor(root, bar) {
    this.root = root;
    this.bar = bar;
    this.version = root.dataset.version || "";
    this.every = Number(root.dataset.every || 1500);
    this.failures = 0;
    this.stopped = false;
    this.timer = 0;
    this.asking = null;
    this.read = Number(root.dataset.read);
    setClock(Number(root.dataset.clock));
  }

  start() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.refresh()));
    setInterval(() => this.showAge(), 500);
    this.showAge();
    this.schedule();
  }

  toggle() {
    this.stopped = !this.stopped;
    if (this.stopped) this.rest();
    else this.refresh();
    this.showAge();
    return !this.stopped;
  }

  rest() {
    clearTimeout(this.timer);
  }

  schedule() {
    this.rest();
    if (this.stopped || document.hidden) return;
    // what others asked for a moment ago is shared: ask again when it will be too old, not a whole round later
    const age = (now() - this.read) * 1000;
    const next = this.failures ? Math.min(this.every * 2 ** this.failures, SLOWEST_MS) : this.every - age;
    this.timer = setTimeout(() => this.refresh(), Math.max(SOONEST_MS, next + 50));
  }

  /** Ask now; two questions at the same time become one. */
  refresh() {
    this.asking ??= this.ask().finally(() => {
      this.asking = null;
      this.schedule();
    });
    return this.asking;
  }

  async ask() {
    try {
      const answer = await fetch(this.root.dataset.source, {
        headers: { "If-None-Match": this.version, "X-Requested-With": "fetch" }, cache: "no-store", redirect: "manual",
      });
      await this.take(answer);
    } catch {
      this.failed("Flower does not answer");
    }
    this.showAge();
  }

  async take(answer) {
    if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) {
      this.failed("you are no longer logged in; reload the page");
    } else if (answer.status === 404) {
      this.failed("this is not there any more");
    } else if (answer.status !== 200 && answer.status !== 304) {
      this.failed((await answer.text()).slice(0, 200) || `Flower answered ${answer.status}`);
    } else {
      this.failures = 0;
      this.problem = "";
      setClock(Number(answer.headers.get("X-Ratelane-Clock")));
      this.read = Number(answer.headers.get("X-Ratelane-Read"));
      if (answer.status === 200) this.show(await answer.text(), answer.headers.get("ETag"));
    }
  }

  show(markup, version) {
    const made = document.createElement("template");
    made.innerHTML = markup;
    morphChildren(this.root, made.content);
    this.version = version || "";
    tick(this.root);
    this.root.dispatchEvent(new CustomEvent("ratelane:changed", { bubbles: true }));
  }

  failed(sentence) {
    this.failures = Math.min(this.failures + 1, 4);
    this.problem = sentence;
  }

  showAge() {
    const age = Math.max(0, now() - this.read);
    this.bar.querySelector("[data-age]").textContent = age < 1 ? "under 1 s old" : `${Math.floor(age)} s old`;
    this.bar.classList.toggle("rl-stale", Boolean(this.problem) || this.stopped);
    const note = this.bar.querySelector("[data-problem]");
    const text = this.problem ? `Not up to date: ${this.problem}` : "";
    if (note.textContent !== text) note.textContent = text;
  }
}
