// Makes a part of the page look like newer markup in place: what stays keeps its focus, its scroll and its state.

const KEPT = new Set(["open", "data-tick-shown"]);

/** Make the children of `live` those of `wanted`; elements are matched by `id`, `data-key`, or their place. */
export function morphChildren(live, wanted) {
  const held = document.activeElement;
  sync(live, wanted);
  // a row that was moved loses the focus on its way
  if (held && held !== document.activeElement && live.contains(held)) held.focus({ preventScroll: true });
}

function sync(live, wanted) {
  const keyed = new Map();
  for (const child of live.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let place = live.firstChild;
  for (const next of [...wanted.childNodes]) {
    const match = find(place, next, keyed);
    if (match === null) {
      live.insertBefore(document.importNode(next, true), place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    else live.insertBefore(match, place);
    update(match, next);
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

function find(place, next, keyed) {
  const key = keyOf(next);
  if (key) {
    const match = keyed.get(key);
    return match && match.nodeName === next.nodeName ? match : null;
  }
  // without a key only what stands at this very place can be the same thing
  return place && place.nodeName === next.nodeName && !keyOf(place) ? place : null;
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || "" : "";
}

function update(live, wanted) {
  if (live.nodeType !== Node.ELEMENT_NODE) {
    if (live.nodeValue !== wanted.nodeValue) live.nodeValue = wanted.nodeValue;
    return;
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (!KEPT.has(name) && live.getAttribute(name) !== value) live.setAttribute(name, value);
  }
  for (const { name } of [...live.attributes]) {
    if (!KEPT.has(name) && !wanted.hasAttribute(name)) live.removeAttribute(name);
  }
  // the words of a clock are written here, not by the server
  if (!live.hasAttribute("data-until") && !live.hasAttribute("data-since")) sync(live, wanted);
}
