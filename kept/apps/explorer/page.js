"use strict";
// Spans are counted in characters as Python counts them: code points, not UTF-16 units.
const start = JSON.parse(document.getElementById("data").textContent);
const answers = start.answers && unpacked(start.answers); // what a page as a file carries; null where a server answers
const state = { text: "", links: [], choices: new Map(), targets: [], changes: [], picked: null, turn: 0 };
const by = (id) => document.getElementById(id);
const readers = new Map(start.readers.map((reader) => [reader.key, reader]));
const runs = start.readers.filter((reader) => reader.is_run);
const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("kept-drawing", { createHTML: (drawing) => drawing })
  : { createHTML: (drawing) => drawing };

// Characters that turn the direction of a line, or are obeyed elsewhere, are shown by their number.
const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const visible = (text) => String(text).replace(OBEYED, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// ---- building ---------------------------------------------------------------
function make(tag, text, fields = {}) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = visible(text);
  for (const [name, value] of Object.entries(fields)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  return made;
}

function row(...cells) {
  const made = make("tr");
  for (const cell of cells) {
    const td = make("td", cell instanceof Node ? null : cell);
    if (cell instanceof Node) td.append(cell);
    made.append(td);
  }
  return made;
}

function options(select, list, chosen) {
  select.replaceChildren(...list.map(([value, name]) => make("option", name, { value })));
  if (list.some(([value]) => value === chosen)) select.value = chosen;
}

function draw(place, svg) { // the server escapes every label; the policy of the page lets no script run
  const holder = new DOMParser().parseFromString(policy.createHTML(svg), "text/html").body;
  for (const node of holder.querySelectorAll("[tabindex]")) node.removeAttribute("tabindex");
  place.replaceChildren(...holder.querySelectorAll("svg"));
}

const signed = (x) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(3);
const percent = (x) => (100 * x).toFixed(1) + " %";

// ---- asking -----------------------------------------------------------------
let last = Promise.resolve(); // one question at a time
function ask(call, body) {
  const turn = state.turn;
  const next = last.then(() => (turn === state.turn ? answer(call, body) : null));
  last = next.catch(() => null);
  return next;
}

async function answer(call, body) {
  if (answers) return carried(call, body);
  if (start.framed) return throughFrame(call, body);
  const reply = await fetch("call/" + call, { method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body), credentials: "omit", cache: "no-store" });
  const found = await reply.json();
  if (found.error) throw new Error(found.error);
  return found;
}

// In a notebook the page lies in a frame; who holds the frame hands questions on and answers back.
const unanswered = new Map();
function throughFrame(call, body) {
  return new Promise((resolve, reject) => {
    const kept = unanswered.size ? Math.max(...unanswered.keys()) + 1 : 1;
    unanswered.set(kept, { resolve, reject });
    parent.postMessage({ kept, call, body }, "*");
  });
}
if (start.framed) addEventListener("message", (event) => {
  const { kept, found } = event.data || {};
  if (event.source !== parent || !unanswered.has(kept)) return;
  const { resolve, reject } = unanswered.get(kept);
  unanswered.delete(kept);
  if (found.error) reject(new Error(found.error)); else resolve(found);
});

async function unpacked(packed) {
  if (!window.DecompressionStream) throw new Error("This browser is too old for this page: it needs DecompressionStream (2023).");
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

async function carried(call, body) {
  const found = (await answers)[[call, body.reader || "", body.text].join("|")];
  if (!found || (body.changes || []).length || (body.choices || []).length || body.about)
    throw new Error("This page is a file and carries the answers it was written with. Start kept explore to ask anew.");
  if (found.error) throw new Error(found.error);
  return found;
}

async function pane(id, work) {
  const section = by(id), told = section.querySelector(".error");
  const turn = state.turn;
  section.setAttribute("aria-busy", "true");
  try {
    await work();
    told.textContent = "";
  } catch (error) {
    if (turn === state.turn) told.textContent = error.message === "Failed to fetch"
      ? "kept explore does not answer any more; start it again." : error.message;
  } finally {
    section.removeAttribute("aria-busy");
  }
}

const choicesNow = () => [...state.choices.values()];
// ---- 1 text -----------------------------------------------------------------
function link(text) {
  Object.assign(state, { text, links: [], choices: new Map(), targets: [], changes: [], picked: null, turn: state.turn + 1 });
  return pane("text-pane", async () => {
    const found = await ask("link", { text });
    if (!found) return;
    state.links = found.links;
    const most = Math.max(0, ...runs.map((run) => run.n_targets));
    state.targets = state.links.slice(0, most).map((each) => [each.start, each.end]);
    showText();
    by("mention").replaceChildren();
    if (state.links.length) pick(0, false);
    refresh();
  });
}

function chosen(link) {
  const choice = state.choices.get(link.start + "-" + link.end);
  if (!choice) return link;
  const named = link.candidates.find((each) => each.entity === choice.entity);
  return { ...link, entity: choice.entity, label: choice.entity === null ? null : named ? named.label : choice.label || choice.entity };
}

function isAmbiguous(link) { // until a person has chosen
  return link.ambiguous && !state.choices.has(link.start + "-" + link.end);
}

function showText() {
  const letters = Array.from(state.text), parts = [];
  let end = 0;
  state.links.forEach((found, number) => {
    if (found.start < end) return; // within another mention
    const now = chosen(found);
    const mark = make("button", found.words, { type: "button", class: now.entity ? (isAmbiguous(found) ? "ambiguous" : "") : "nil",
      "aria-pressed": String(state.picked === number), onclick: () => pick(number, true),
      "aria-label": `${found.words}: ${now.entity ? now.label : "linked to nothing"}${isAmbiguous(found) ? ", ambiguous" : ""}` });
    if (!now.entity || now.label !== found.words) mark.append(make("small", now.entity ? now.label : "nothing"));
    parts.push(visible(letters.slice(end, found.start).join("")), mark);
    end = found.end;
  });
  by("sentence").replaceChildren(...parts, visible(letters.slice(end).join("")));
  if (!state.links.length) by("sentence").append(make("small", "No name of the graph was found in this text."));
}

function pick(number, focus) {
  state.picked = number;
  showText();
  const found = state.links[number], now = chosen(found), card = make("div", null, { class: "card" });
  card.append(make("h3", `“${found.words}” ${now.entity ? "was linked to " + now.label : "was linked to nothing"}${state.choices.has(found.start + "-" + found.end) ? ", by you" : ""}`));
  if (isAmbiguous(found)) card.append(make("p", `Ambiguous: ${found.equals.join(", ")} is as likely as ${now.label}; the first of them was taken.`, { class: "ambiguity" }));
  const list = make("ul", null, { class: "candidates" });
  for (const each of found.candidates) list.append(candidate(found, now, each));
  const none = make("li");
  none.append(make("button", "None of them: not in the graph (NIL)", { type: "button", "aria-pressed": String(now.entity === null),
    onclick: () => correct(found, null) }));
  list.append(none);
  card.append(list);
  if (found.n_more) card.append(make("p", `${found.n_more} more candidates are not shown.`, { class: "soft" }));
  card.append(another(found), targetButton(found));
  if (state.choices.has(found.start + "-" + found.end))
    card.append(make("button", "Take my choice back", { type: "button", onclick: () => takeBack(found) }));
  by("mention").replaceChildren(card);
  if (focus) by("sentence").querySelector('[aria-pressed="true"]').focus();
}

function candidate(found, now, each) {
  const item = make("li"), parts = Object.entries(each.parts).map(([name, value]) => `${name} ${signed(value)}`);
  item.append(
    make("button", each.label, { type: "button", "aria-pressed": String(now.entity === each.entity), onclick: () => correct(found, each.entity) }),
    make("span", each.entity, { class: "id" }), make("span", percent(each.confidence)), make("span", each.description, { class: "soft" }),
    make("span", [each.why ? "found by " + each.why : "", `${each.n_facts} facts`, ...parts].filter(Boolean).join("; "), { class: "why" }));
  return item;
}

function another(found) {
  const form = make("form"), field = make("input", null, { maxlength: 500, "aria-label": "Another entity: a name or an identifier" });
  const list = make("ul", null, { class: "candidates" });
  form.append(make("span", "Another entity: "), field, " ", make("button", "Look up", { type: "submit" }), list);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    pane("text-pane", async () => {
      const { entities } = await ask("names", { name: field.value });
      list.replaceChildren(...entities.map((each) => {
        const item = make("li");
        item.append(make("button", each.label, { type: "button", onclick: () => correct(found, each.entity, each.label) }),
          make("span", each.entity, { class: "id" }), make("span", each.description, { class: "soft" }));
        return item;
      }));
      if (!entities.length) list.replaceChildren(make("li", "no entity of that name"));
    });
  });
  return answers ? make("span") : form;
}

function targetButton(found) {
  const most = Math.max(0, ...runs.map((run) => run.n_targets));
  if (!most || answers) return make("span");
  return make("button", "Ask the model about this name", { type: "button", onclick: () => {
    state.targets = [...state.targets.filter(([a, b]) => a !== found.start || b !== found.end), [found.start, found.end]].slice(-most);
    refresh();
  } });
}

function correct(found, entity, label) {
  state.choices.set(found.start + "-" + found.end, { start: found.start, end: found.end, entity, label });
  return corrected();
}

function takeBack(found) {
  state.choices.delete(found.start + "-" + found.end);
  if (found.added) { // the linker did not find it: it goes
    state.links = state.links.filter((each) => each !== found);
    state.picked = 0;
  }
  return corrected();
}

function mark(words) { // the first place of these words that is no mention yet
  const letters = Array.from(state.text), wanted = Array.from(words);
  for (let at = 0; at + wanted.length <= letters.length; at += 1) {
    const end = at + wanted.length, isFree = state.links.every((each) => each.end <= at || end <= each.start);
    if (isFree && letters.slice(at, end).join("") === words) return relink(at, end);
  }
  by("text-pane").querySelector(".error").textContent = "These words stand nowhere in the text, or are marked already.";
  return null;
}

function relink(from, end) {
  state.choices.set(from + "-" + end, { start: from, end, entity: null });
  state.turn += 1;
  return pane("text-pane", async () => {
    const found = await ask("link", { text: state.text, choices: plainChoices() });
    if (!found) return;
    const old = state.links;
    state.links = found.links.map((each) => old.find((known) => known.start === each.start && known.end === each.end) || { ...each, added: true });
    pick(state.links.findIndex((each) => each.start === from && each.end === end), true);
    refresh();
  });
}

const plainChoices = () => choicesNow().map(({ start: from, end, entity }) => ({ start: from, end, entity }));

function corrected() {
  state.turn += 1;
  if (state.links.length) pick(state.picked, true);
  else { showText(); by("mention").replaceChildren(); }
  return pane("text-pane", async () => {
    if (answers) { // a file cannot write: the line is shown
      by("gold").textContent = "A line for gold.jsonl: " + JSON.stringify({ id: "", text: state.text, mentions: plainChoices() });
      return;
    }
    refresh();
    if (!start.gold) { by("gold").textContent = "Start kept explore with --gold FILE to keep corrections."; return; }
    const { path, n_texts, n_links } = await ask("correct", { text: state.text, choices: plainChoices() });
    by("gold").textContent = `Written to ${path}. It holds the links that you chose or confirmed (links: ${n_links}, texts: ${n_texts}), for kept link train and kept link score.`;
  });
}

// ---- 2 graph ----------------------------------------------------------------
function question(reader, narrow = window.innerWidth < 700) {
  return { text: state.text, reader, choices: plainChoices(), narrow,
    targets: state.targets.slice(0, readers.get(reader).n_targets) };
}

function showGraph() {
  return pane("graph-pane", async () => {
    const found = await ask("read", question(by("reader").value));
    if (!found) return;
    draw(by("drawing"), found.svg);
    by("summary").replaceChildren(...found.summary.map((line) => make("li", line)));
    by("facts").replaceChildren(...found.facts.map((each) => row(each.words, each.read ? "yes" : "no")));
    if (!found.facts.length) by("facts").replaceChildren(row("The linked entities have no facts.", ""));
  });
}

// ---- 3 what was used --------------------------------------------------------
function showUsed(about) {
  if (!runs.length) return Promise.resolve();
  return pane("used-pane", async () => {
    const run = readers.get(by("run").value);
    showTargets(run);
    const body = { ...question(run.key) };
    if (about) body.about = about;
    const found = await ask("used", body);
    if (!found) return;
    options(by("about"), run.classes.map((name) => [name, name]), found.about);
    by("answer").replaceChildren(answerLine(found.label, scoresOf(found.scores)));
    showInfluences(found);
  });
}

function showTargets(run) {
  const letters = Array.from(state.text);
  const words = state.targets.slice(0, run.n_targets).map(([a, b]) => `“${letters.slice(a, b).join("")}”`);
  by("targets").textContent = run.n_targets ? `Asked about ${words.join(" and ") || "nothing yet: the text has no name of the graph"}. `
    + (answers ? "" : "Choose another name in pane 1 and press “Ask the model about this name”.") : "";
}

const scoresOf = (scores) => Object.entries(scores).map(([name, score]) => ({ name, score })).sort((a, b) => b.score - a.score);

function answerLine(label, scores) {
  const box = make("div"), table = make("table"), body = make("tbody");
  box.append(make("p", label || `no class is sure enough (likeliest: ${scores[0].name})`, { class: "big" }));
  for (const { name, score } of scores.slice(0, 6)) {
    const meter = make("meter", null, { min: 0, max: 1, value: Math.max(0, Math.min(1, score)), "aria-label": `${name} ${score.toFixed(3)}` });
    body.append(row(name, meter, score.toFixed(3)));
  }
  table.append(body);
  box.append(table);
  return box;
}

function bar(change, most) {
  const axis = make("span", null, { class: "axis", "aria-hidden": "true" }), minus = make("span", null, { class: "minus" }), plus = make("span");
  const filled = make("span", null, { class: "bar " + (change < 0 ? "against" : "for") });
  filled.style.width = (100 * Math.abs(change)) / Math.max(most, 0.1) + "%"; // next to nothing looks like it
  (change < 0 ? minus : plus).append(filled);
  axis.append(minus, plus);
  return axis;
}

function showInfluences(found) {
  const most = Math.max(0, ...found.influences.map((each) => Math.abs(each.change)));
  const withAttention = found.influences.some((each) => each.attention !== null);
  const head = make("tr");
  for (const name of ["left out", `spoke for “${found.about}”`, "score lost", "score without it", "answer without it", ...(withAttention ? ["attention on it"] : [])])
    head.append(make("th", name, { scope: "col" }));
  const [top, body] = by("influences").children;
  top.replaceChildren(head);
  body.replaceChildren(...found.influences.map((each) => row(
    `${each.kind}: ${each.kind === "link" ? named(each.what) : each.what}`, bar(each.change, most), signed(each.change), each.score.toFixed(3),
    make(each.label === found.label ? "span" : "strong", each.label || "none"), ...(withAttention ? [each.attention === null ? "–" : percent(each.attention)] : []))));
  if (!found.influences.length) body.replaceChildren(row("Nothing of the graph was shown."));
}

function named(what) { // “words” → identifier: with the label that the page knows
  const link = state.links.map(chosen).find((each) => each.entity && what.endsWith("→ " + each.entity) && what.startsWith("“" + each.words + "”"));
  return link ? `“${link.words}” → ${link.label}` : what;
}

// ---- 4 what if --------------------------------------------------------------
function showFacts() {
  const reader = by("whatif-reader").value;
  return pane("whatif-pane", async () => {
    const found = await ask("read", question(reader));
    if (!found) return;
    by("whatif-facts").replaceChildren(...found.facts.map((each) => factRow(each)));
    if (!found.facts.length) by("whatif-facts").replaceChildren(row("The linked entities have no facts.", "", ""));
    const names = state.links.map(chosen).filter((each) => each.entity).map((each) => make("option", each.label, { value: each.entity }));
    by("heads").replaceChildren(...names);
    by("tails").replaceChildren(...found.facts.slice(0, 40).map((each) => make("option", each.words.split(" → ").pop(), { value: each.fact[2] })));
    const run = readers.get(reader);
    by("difference").replaceChildren();
    if (!run.reads_facts) by("difference").append(make("p",
      "This method reads no facts beside the text, so changing them changes nothing it reads here: what it knows of the graph was learned before.", { class: "soft" }));
    showChanges();
  });
}

function factRow(each) {
  const tools = make("span");
  showTools(each, tools);
  return row(each.words, each.read ? "yes" : "no", tools);
}

function showTools(each, tools) {
  tools.replaceChildren(
    make("button", "Delete", { type: "button", "aria-label": "Delete " + each.words, onclick: () => change({ do: "delete", fact: each.fact }, "delete " + each.words) }),
    make("button", "Edit", { type: "button", "aria-label": "Edit " + each.words, onclick: () => edit(each, tools) }));
}

function edit(each, tools) {
  const form = make("form"), field = make("input", null, { list: "tails", maxlength: 500, required: true, "aria-label": "New tail of " + each.words });
  form.append(field, " ", make("button", "Set", { type: "submit" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change({ do: "edit", fact: each.fact, tail: field.value }, `${each.words} becomes ${field.value}`);
    showTools(each, tools);
  });
  field.addEventListener("input", () => suggest(field));
  field.addEventListener("keydown", (event) => { if (event.key === "Escape") { showTools(each, tools); tools.lastChild.focus(); } });
  tools.replaceChildren(form);
  field.focus();
}

let waiting = 0;
function suggest(field) { // names that begin to be typed, after a short rest
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    if (field.value.length < 2 || answers) return;
    const { entities } = await ask("names", { name: field.value }).catch(() => ({ entities: [] })) || { entities: [] };
    if (entities.length) by("tails").replaceChildren(...entities.map((each) => make("option", each.label, { value: each.entity })));
  }, 300);
}

function change(made, words) {
  state.changes.push({ made, words });
  showChanges();
}

function showChanges() {
  by("changes").replaceChildren(...state.changes.map(({ words }, number) => {
    const item = make("li", words + " ");
    item.append(make("button", "Undo", { type: "button", "aria-label": "Undo: " + words, onclick: () => { state.changes.splice(number, 1); showChanges(); } }));
    return item;
  }));
  if (!state.changes.length) by("changes").replaceChildren(make("li", "none yet", { class: "soft" }));
  by("rerun").disabled = !state.changes.length;
}

function rerun() {
  const reader = by("whatif-reader").value;
  return pane("whatif-pane", async () => {
    const found = await ask("what-if", { ...question(reader), changes: state.changes.map(({ made }) => made) });
    if (!found) return;
    const box = by("difference"), { before, after } = found;
    box.replaceChildren(make("p", `Facts of the graph that are gone: ${found.moved.gone}; new: ${found.moved.new}.`, { class: "soft" }));
    if (before.answer) box.append(answersBefore(before.answer, after.answer));
    box.append(factsMoved(before, after));
    const drawing = make("div", null, { class: "drawing", tabindex: 0, role: "region", "aria-label": "What is shown after the changes" });
    draw(drawing, after.svg);
    box.append(make("h3", "What is shown now"), drawing);
  });
}

function answersBefore(before, after) {
  const box = make("div"), line = make("p", null, { class: "big" });
  if (before.label === after.label) line.append(`${after.label || "no class is sure enough"} (as before)`);
  else line.append(make("span", before.label || "no class is sure enough", { class: "gone" }), " → ", make("span", after.label || "no class is sure enough", { class: "new" }));
  const table = make("table"), head = make("thead"), top = make("tr"), body = make("tbody");
  for (const name of ["class", "before", "after", "difference"]) top.append(make("th", name, { scope: "col" }));
  head.append(top);
  const scores = new Map(before.scores.map(({ name, score }) => [name, score]));
  const rows = after.scores.map(({ name, score }) => [name, scores.get(name), score]).filter(([, old]) => old !== undefined);
  rows.sort((a, b) => Math.abs(b[2] - b[1]) - Math.abs(a[2] - a[1]));
  for (const [name, old, now] of rows.slice(0, 8)) body.append(row(name, old.toFixed(3), now.toFixed(3), signed(now - old)));
  table.append(head, body);
  box.append(line, table);
  return box;
}

function factsMoved(before, after) {
  const list = make("ul"), of = (found) => found.facts.filter((each) => each.read).map((each) => each.words);
  const old = new Set(of(before)), now = new Set(of(after));
  const say = (words, name, what) => {
    const item = make("li");
    item.append(make("span", words, { class: name }), what);
    list.append(item);
  };
  for (const words of old) if (!now.has(words)) say(words, "gone", " is not shown any more");
  for (const words of now) if (!old.has(words)) say(words, "new", " is shown now");
  if (!list.children.length) list.append(make("li", "What is shown of the graph is the same as before.", { class: "soft" }));
  return list;
}

// ---- 5 side by side ---------------------------------------------------------
function showPair() {
  return pane("pair-pane", async () => {
    const found = [];
    for (const side of ["left", "right"]) {
      const one = await ask("read", question(by(side).value, true));
      if (!one) return;
      found.push(one);
      const drawing = make("div", null, { class: "drawing", tabindex: 0, role: "region", "aria-label": `Picture of the ${side} side` });
      draw(drawing, one.svg);
      const list = make("ul", null, { class: "summary" });
      list.append(...one.summary.map((line) => make("li", line)));
      by(side + "-body").replaceChildren(...(one.answer ? [answerLine(one.answer.label, one.answer.scores)] : []), list, drawing);
    }
  });
}

function refresh() {
  return Promise.all([showGraph(), showUsed(), answers ? null : showFacts(), showPair()]);
}

// ---- start ------------------------------------------------------------------
function begin() {
  const all = start.readers.map((reader) => [reader.key, reader.is_run ? "model " + reader.name : reader.name]);
  const first = runs.length ? runs[0].key : readers.has("kbert") ? "kbert" : all[0][0];
  const second = runs.length > 1 ? runs[1].key : readers.has("colake") ? "colake" : all[0][0];
  by("graph-line").textContent = start.graph + ".";
  options(by("reader"), all, first);
  options(by("whatif-reader"), all, first);
  options(by("left"), all, first);
  options(by("right"), all, second);
  options(by("run"), runs.map((run) => [run.key, run.name]), first);
  options(by("texts"), start.texts.map((text) => [text, text.slice(0, 90)]), start.texts[0]);
  by("texts-line").hidden = start.texts.length < 2;
  by("relations").replaceChildren(...start.relations.map((name) => make("option", null, { value: name })));
  by("text").value = start.texts[0];
  if (answers) by("missed").hidden = by("text").hidden = by("link").hidden = by("keys").hidden = true;
  showPanes();
  link(start.texts[0]);
}

function showPanes() { // without a model, and in a file, some panes would be empty: a line says how to have them
  const away = [];
  if (!runs.length) away.push(["used-pane", "which facts made an answer (kept explore … --model RUN, where RUN is the folder of kept finetune)"]);
  if (answers) away.push(["whatif-pane", "what if facts were others (kept explore without -o)"]);
  for (const [id] of away) {
    by(id).hidden = true;
    document.querySelector(`nav a[href="#${id}"]`).remove();
  }
  document.querySelectorAll("nav a").forEach((to, i) => {
    to.textContent = to.textContent.replace(/^[0-9]+/, i + 1);
    document.querySelector(`${to.getAttribute("href")} .number`).textContent = i + 1;
  });
  by("away").hidden = !away.length;
  by("away").textContent = `Not on this page: ${away.map(([, what]) => what).join("; ")}.`;
}

by("ask").addEventListener("submit", (event) => { event.preventDefault(); if (by("text").value) link(by("text").value); });
by("missed").addEventListener("submit", (event) => { event.preventDefault(); if (mark(by("missed-words").value)) event.target.reset(); });
by("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && event.ctrlKey) { event.preventDefault(); by("ask").requestSubmit(); } });
by("texts").addEventListener("change", (event) => { by("text").value = event.target.value; link(event.target.value); });
by("reader").addEventListener("change", showGraph);
by("run").addEventListener("change", () => showUsed());
by("about").addEventListener("change", (event) => showUsed(event.target.value));
by("whatif-reader").addEventListener("change", () => { state.changes = []; showFacts(); });
by("shuffle").addEventListener("click", () => change({ do: "shuffle", seed: state.changes.length }, "the objects of every relation are shuffled"));
by("rerun").addEventListener("click", rerun);
by("left").addEventListener("change", showPair);
by("right").addEventListener("change", showPair);
by("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const fact = ["head", "relation", "tail"].map((part) => by("add-" + part).value);
  change({ do: "add", fact }, `add ${fact[0]} — ${fact[1]} → ${fact[2]}`);
  event.target.reset();
});
by("add-tail").addEventListener("input", (event) => suggest(event.target));
begin();
