// What an operator does: a button opens a dialog that asks for the details and why, the API does it, the page looks again.
//
// A button says what it does by itself: data-post (where to), data-body (JSON that is always sent), data-form (the id of a
// template with further fields), data-title, data-text and data-said (what is told afterwards).

/** Have every button of the page with `data-post` ask and act; `done` is called after a deed. */
export function wireActions(dialog, said, done) {
  const form = dialog.querySelector("form");
  let button = null;
  let asked = {};

  document.addEventListener("click", (event) => {
    const pressed = event.target.closest("button[data-post]");
    if (!pressed) return;
    button = pressed;
    // the page goes on while somebody writes: the same element may have become another button by the time of the answer
    asked = { ...pressed.dataset };
    open(dialog, pressed);
  });
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => focusAgain(button));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const confirm = form.querySelector("[type=submit]");
    confirm.disabled = true;
    complain(dialog, "");
    const problem = await send(asked.post, bodyOf(form, asked));
    confirm.disabled = false;
    if (problem.sentence) return complain(dialog, problem.sentence);
    dialog.close();
    tell(said, problem.told || asked.said || "Done.");
    return done();
  });
}

function open(dialog, button) {
  const wanted = document.getElementById(button.dataset.form || "rl-form-reason");
  dialog.querySelector("[data-fields]").replaceChildren(wanted.content.cloneNode(true));
  dialog.querySelector("[data-title]").textContent = button.dataset.title || button.textContent.trim();
  dialog.querySelector("[data-text]").textContent = button.dataset.text || "";
  const confirm = dialog.querySelector("[type=submit]");
  confirm.textContent = button.dataset.confirm || button.textContent.trim();
  confirm.className = `btn ${button.dataset.danger === undefined ? "btn-primary" : "btn-danger"}`;
  complain(dialog, "");
  dialog.showModal();
}

function bodyOf(form, asked) {
  const body = JSON.parse(asked.body || "{}");
  for (const field of form.querySelectorAll("[name]")) {
    const value = field.type === "checkbox" ? field.checked : field.value.trim();
    if (value !== "" && value !== false) body[field.name] = field.dataset.number === undefined ? value : Number(value);
  }
  return body;
}

async function send(address, body) {
  try {
    const answer = await fetch(address, {
      method: "POST", body: JSON.stringify(body), redirect: "manual",
      headers: { "Content-Type": "application/json", "X-XSRFToken": cookie("_xsrf"), "X-Ratelane-Surface": "page" },
    });
    const document = await answer.json().catch(() => null);
    if (answer.ok) return { told: summary(document) };
    return { sentence: document?.detail || document?.title || refusal(answer.status) };
  } catch {
    return { sentence: "Flower does not answer; nothing may have been done. Look before you try again." };
  }
}

function refusal(status) {
  if (status === 401 || status === 0) return "You are no longer logged in; reload the page.";
  if (status === 403) return "Your login may look, but not act.";
  return `Flower answered ${status}.`;
}

/** What an answer of the API comes to, where it counts something. */
function summary(found) {
  if (found === null || typeof found !== "object") return "";
  const parts = [];
  for (const word of ["requeued", "cancelled", "flagged"]) if (found[word]) parts.push(`${found[word]} ${WORDS[word]}`);
  // a run that did not begin is no error of the API's: its document says what became of it
  if (found.entry && IDLE.includes(found.outcome)) parts.push(`${found.entry} did not run: ${found.outcome} (${found.reason})`);
  const refused = found.refused?.length ?? 0;
  if (refused) parts.push(`${refused} refused (${found.refused[0].reason})`);
  if (found.created === false) parts.push(`job ${found.job_id} is queued or running already`);
  else if (found.created) parts.push(`job ${found.job_id} is queued`);
  return parts.length ? `${parts.join(", ")}.` : "";
}

const IDLE = ["skipped", "deferred"];
const WORDS = { requeued: "requeued", cancelled: "cancelled", flagged: "asked to stop" };

function complain(dialog, sentence) {
  const place = dialog.querySelector("[data-error]");
  place.textContent = sentence;
  place.hidden = !sentence;
}

function tell(said, sentence) {
  said.textContent = sentence;
  clearTimeout(said.timer);
  said.timer = setTimeout(() => (said.textContent = ""), 8000);
}

function focusAgain(button) {
  if (!button) return;
  if (button.isConnected) button.focus();
  else document.getElementById("main-content")?.querySelector("h1")?.focus();
}

function cookie(name) {
  const found = document.cookie.split("; ").find((one) => one.startsWith(`${name}=`));
  return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
}
