// Makes one node equal to another and keeps the equal parts: the browser lays out only the changed parts, and
// selections persist. Returns the resulting node of the page.

export function patch(old, made) {
  if (old.nodeType === Node.TEXT_NODE && made.nodeType === Node.TEXT_NODE) {
    patchText(old, made.data);
    return old;
  }
  if (!areAlike(old, made)) {
    old.replaceWith(made);
    return made;
  }
  let next = old.firstChild;
  for (const child of [...made.childNodes]) {
    const here = next;
    next = next?.nextSibling ?? null;
    if (here) patch(here, child);
    else old.append(child);
  }
  while (next) {
    const surplus = next;
    next = next.nextSibling;
    surplus.remove();
  }
  return old;
}

function patchText(old, data) {
  if (data === old.data) return;
  if (data.startsWith(old.data)) old.appendData(data.slice(old.data.length));
  else old.data = data;
}

function areAlike(old, made) {
  if (old.nodeName !== made.nodeName || old.nodeType !== Node.ELEMENT_NODE) return false;
  if (old.attributes.length !== made.attributes.length) return false;
  return [...made.attributes].every(({ name, value }) => old.getAttribute(name) === value);
}
