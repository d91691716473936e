// Countdowns and ages. The server gives moments in seconds since 1970 by the database's clock; words are made here, so
// that markup stays the same while only time passes.

let ahead = 0; // the database's clock minus this browser's, in seconds

/** Take the database's present moment; what the browser's own clock says does not matter. */
export function setClock(seconds) {
  if (Number.isFinite(seconds)) ahead = seconds - monotonic();
}

/** The present moment by the database's clock. */
export function now() {
  return monotonic() + ahead;
}

function monotonic() {
  return (performance.timeOrigin + performance.now()) / 1000;
}

/** A duration in words, as the command line has it: `4 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** Write every countdown (`data-until`) and age (`data-since`) below `root`. */
export function tick(root = document) {
  const moment = now();
  for (const one of root.querySelectorAll("[data-until], [data-since]")) {
    const text = words(one, moment);
    if (one.textContent !== text) one.textContent = text;
  }
}

function words(one, moment) {
  if (one.dataset.since) return span(moment - Number(one.dataset.since));
  const left = Number(one.dataset.until) - moment;
  return left > 0 ? span(left) : one.dataset.over || "now";
}
