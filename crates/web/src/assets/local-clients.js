// Asks whether a page of this machine, such as a notebook, may use an agent (`serve --for`).

import { keyHeader } from "./door.js";
import { signedIn } from "./signed-in.js";

const INTERVAL = 2000;
const box = document.createElement("dialog");
box.id = "local-client";
box.setAttribute("aria-labelledby", "local-client-words");
document.body.append(box);
let shown = null;

async function ask() {
  if (document.hidden || document.body.matches(".is-locked")) return true;
  const answer = await fetch("/in/local-clients", { headers: keyHeader() }).catch(() => null);
  if (!answer?.ok) return true;
  const { questions } = await answer.json();
  if (!questions) return false;
  show(questions[0]);
  return true;
}

function show(question) {
  if (question?.id === shown) return;
  shown = question?.id ?? null;
  if (!question) return box.close();
  const words = document.createElement("p");
  words.id = "local-client-words";
  words.textContent = `A notebook at ${question.origin} wants to use ${question.agent}. Let it in?`;
  const answers = document.createElement("p");
  answers.append(button("Let in", true), " ", button("Refuse", false));
  box.replaceChildren(words, answers);
  if (!box.open) box.showModal();

  function button(label, allow) {
    const it = document.createElement("button");
    it.type = "button";
    it.textContent = label;
    it.addEventListener("click", () => reply(question.id, allow));
    return it;
  }
}

async function reply(id, allow) {
  const headers = { ...keyHeader(), "content-type": "application/json" };
  await fetch("/in/local-clients", { method: "POST", headers, body: JSON.stringify({ id, allow }) }).catch(() => null);
  await ask();
}

async function watch() {
  // The hub says whether there can be questions at all.
  if (await ask()) setTimeout(watch, INTERVAL);
}

signedIn().then(watch);
