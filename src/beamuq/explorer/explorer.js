"use strict";
/* Data: explorer_page.py says what each list holds. Whatever a question or a model says is set as text, never as HTML. */
(async () => {
const find = (id) => document.getElementById(id);
const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null));
  return node;
};
/* An element: its name and class, such as "td.number", its attributes and listeners, what is in it. */
const make = (kind, attributes = {}, ...children) => {
  const [tag, ...classes] = kind.split(".");
  return fill(document.createElement(tag), classes.length ? { class: classes.join(" "), ...attributes } : attributes, children);
};
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const text = (words, most = Infinity) => words === "" ? make("span.soft", {}, "(empty)")
  : make("span.text", { dir: "auto" }, words.length > most ? words.slice(0, most) + "…" : words);
const number = (value, digits = 3) => value === null ? "–"
  : Math.abs(value) >= 1e-3 || value === 0 ? String(+value.toPrecision(digits)) : value.toExponential(1);
const percent = (share) => share === null ? "–" : Math.round(100 * share) + " %";
const signed = (share) => share === null ? "–" : (share > 0 ? "+" : share < 0 ? "−" : "") + Math.round(100 * Math.abs(share));
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const ANSWER = 0, SAMPLES = 1, BEAMS = 2; // of sets: each [texts, last nodes, log p, cut, clusters]
const NAMES = ["answer", "samples", "beams"], LETTERS = "asb";
const FORMS = { "": "", multinomial: " · samples", beamsearch: " · beams" };

async function unpack() {
  const bytes = Uint8Array.from(atob(find("data").textContent), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

/* ---- numbers ---- */

/* Where each value stands among all: the share of the others that are lower, and of equal ones this share (0 to 1). */
function places(values, ofEqual = 0.5) {
  const order = [...values.keys()].filter((i) => values[i] !== null).sort((a, b) => values[a] - values[b]);
  const found = values.map(() => null);
  for (let start = 0, end; start < order.length; start = end) {
    for (end = start + 1; end < order.length && values[order[end]] === values[order[start]];) end++;
    const place = order.length < 2 ? 0.5 : (start + (end - start - 1) * ofEqual) / (order.length - 1);
    for (const i of order.slice(start, end)) found[i] = place;
  }
  return found;
}

/* Mean quality of the n most certain answers, n = 0 … N, equal scores by their expectation (D13, metrics). */
function retained(values, quality) {
  const order = [...values.keys()].sort((a, b) => values[a] - values[b]), sums = [0];
  for (let start = 0, end; start < order.length; start = end) {
    let sum = 0;
    for (end = start; end < order.length && values[order[end]] === values[order[start]]; end++) sum += quality[order[end]];
    for (let k = start; k < end; k++) sums.push(sums[sums.length - 1] + sum / (end - start));
  }
  return sums.map((sum, n) => sum / Math.max(n, 1));
}
function prr(curve, oracle, rejection) {
  const N = curve.length - 1, k = Math.floor(rejection * N + 1e-9);
  const area = (of) => of.slice(N - k + 1).reduce((sum, mean) => sum + mean, 0) / k;
  return k < 2 || area(oracle) === oracle[N] ? null : (area(curve) - oracle[N]) / (area(oracle) - oracle[N]);
}
const probability = (set, k) => set[2][k] === null || set[2][k] === undefined ? null : Math.exp(set[2][k] / 1e4);

let data;
try { data = await unpack(); } catch (error) {
  find("count").textContent = `This browser cannot unpack the page: it needs Chromium or Edge 111, Firefox 113 or Safari 16.4 (${error}).`;
  return;
}
let cell, order = [], at = -1, shown = 0, sort = { key: "asked", down: false }; // at, shown: in the order

/* What the table and the slices need of a cell, computed once. */
function prepare(of) {
  if (of.right) return;
  of.right = of.rated.map((value) => value === null ? null : value > of.threshold);
  of.mass = of.sets.map((sets) => {
    const ps = sets[BEAMS][2].map((_, k) => probability(sets[BEAMS], k));
    return ps.length && !ps.includes(null) ? Math.min(1, ps.reduce((sum, p) => sum + p, 0)) : null;
  });
  of.tokens = of.sets.map(([answer], i) => answer[1][0] < 0 ? null : of.trees[i][0][answer[1][0]]);
  of.answers = of.sets.map(([answer], i) => of.texts[i][answer[0][0]]);
  of.place = of.values.map(places);
  const bad = of.rated.map((value) => value === null ? null : -value);
  of.ends = of.values.map((values) => [places(values, 0), places(values, 1)]);
  of.goodEnds = [places(bad, 0), places(bad, 1)];
  of.forms = (title) => ["multinomial", "beamsearch"].map((form) => of.methods.findIndex((m) => m[0] === title && m[1] === form));
  const paired = of.methods.map(([title]) => title).filter((title) => !of.forms(title).includes(-1));
  of.paired = paired.includes("Dissimilarity") ? "Dissimilarity" : paired[0];
  of.hay = of.ids.map((id, i) => [id, of.questions[i], ...of.references[i], ...of.texts[i]].join("\n").toLowerCase());
}
const method = () => +find("method").value;
const value = (i) => cell.values[method()]?.[i] ?? null;
const place = (i) => cell.place[method()]?.[i] ?? null;
/* How far a method's place of an answer is from the place that its quality would give it; of equal scores, or qualities, any place
   that they share is right: so a right answer among many is never too certain. */
function off(i) {
  const ends = cell.ends[method()];
  if (!ends || ends[0][i] === null || cell.goodEnds[0][i] === null) return null;
  const tooUncertain = ends[0][i] - cell.goodEnds[1][i], tooCertain = ends[1][i] - cell.goodEnds[0][i];
  return Math.max(tooUncertain, 0) + Math.min(tooCertain, 0);
}
/* Place over beams minus place over samples, by the method chosen if it has both forms. */
function gap(i) {
  const own = cell.methods[method()]?.[0], title = own && !cell.forms(own).includes(-1) ? own : cell.paired;
  if (!title) return null;
  const [samples, beams] = cell.forms(title).map((m) => cell.place[m][i]);
  return samples === null || beams === null ? null : beams - samples;
}

/* ---- the table ---- */

const COLUMNS = [
  { key: "right", head: "", title: "right or wrong", width: "1.6rem", of: (i) => cell.right[i] === null ? null : +cell.right[i],
    show: (i) => verdict(i, false) },
  { key: "question", head: "Question", width: "auto", of: (i) => cell.questions[i], show: (i) => text(cell.questions[i], 400) },
  { key: "answer", head: "Answer", width: "23%", of: (i) => cell.answers[i], show: (i) => text(cell.answers[i], 120) },
  { key: "mass", head: "Mass", title: "covered mass: the beams' summed probability", width: "3.2rem", of: (i) => cell.mass[i],
    show: (i) => cell.mass[i]?.toFixed(3) ?? "–" },
  { key: "length", head: "Tokens", title: "of the answer, its ending included", width: "3.7rem", of: (i) => cell.tokens[i],
    show: (i) => cell.tokens[i] ?? "–" },
  { key: "value", head: "Score", title: "of the method chosen; higher: more uncertain", width: "4rem", of: value,
    show: (i) => number(value(i), Math.abs(value(i)) < 0.01 ? 2 : 3) },
  { key: "off", head: "Off by (%)", width: "3.5rem", of: off, show: (i) => signed(off(i)),
    title: "place by uncertainty minus place by quality, in percent: + too uncertain, − too certain" },
  { key: "gap", head: "Beams − samples (%)", width: "5.3rem", of: gap, show: (i) => signed(gap(i)),
    title: "place by the method over beams minus its place over samples, in percent" },
];
const TEXTS = ["right", "question", "answer"];
const ALWAYS = ["question", "answer", "value"];
const ORDERS = [
  ["as asked", "asked", false], ["most uncertain first", "value", true], ["most certain first", "value", false],
  ["too certain: bad answers ranked sure", "off", false], ["too uncertain: good answers ranked unsure", "off", true],
  ["beams and samples disagree most", "apart", true], ["least covered mass", "mass", false], ["longest answer", "length", true],
];
const KEYS = Object.fromEntries(COLUMNS.map((column) => [column.key, column.of]));
KEYS.asked = (i) => i;
KEYS.apart = (i) => gap(i) === null ? null : Math.abs(gap(i));

/* Whether any question of the cell has a value by a key: a column or an order without one is left out. */
const isKnown = (key) => cell.ids.some((_, i) => KEYS[key](i) !== null);
let columns = COLUMNS;

function verdict(i, words) {
  if (cell.right[i] === null) return make("span.soft", { "aria-label": "not judged" }, "–");
  const told = cell.right[i] ? "right" : "wrong";
  return make("span." + told, { "aria-label": told }, (cell.right[i] ? "✓" : "✗") + (words ? " " + told : ""));
}
const choices = (id, options, chosen) =>
  find(id).replaceChildren(...options.map(([label, key]) => make("option", { value: key, selected: key === chosen }, label)));

/* Thirds of the questions by a number, as a slice's options: equal numbers stay together. */
function thirds(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b), options = [["all", ""]];
  const cuts = [1, 2].map((third) => sorted[Math.floor((third * sorted.length) / 3)]);
  const ends = [-Infinity, ...new Set(cuts), Infinity];
  for (let k = 0; k + 1 < ends.length; k++) {
    const inside = sorted.filter((value) => value >= ends[k] && value < ends[k + 1]);
    const range = inside.length && `${number(inside[0], 2)} – ${number(inside[inside.length - 1], 2)} (${inside.length})`;
    if (range) options.push([range, ends[k] + " " + ends[k + 1]]);
  }
  return options;
}
function within(id, number) {
  const [low, high] = find(id).value.split(" ").map(Number);
  return find(id).value === "" || (number !== null && number >= low && number < high);
}

function openCell(index) {
  const before = cell?.methods[method()]?.join();
  cell = data.cells[index];
  prepare(cell);
  find("cell").value = index;
  choices("mass", thirds(cell.mass), "");
  choices("length", thirds(cell.tokens), "");
  for (const slice of ["right", "mass", "length"]) {
    find(slice).closest("label").hidden = !isKnown(slice);
    if (!isKnown(slice)) find(slice).value = "";
  }
  const same = cell.methods.findIndex((m) => m.join() === before);
  const options = cell.methods.map(([title, form], m) => [title + FORMS[form], m]);
  choices("method", options.length ? options : [["none", 0]], same >= 0 ? same : cell.opens);
  const sentences = (listed) => listed.map((sentence) => make("p", {}, sentence));
  const missing = cell.without_value.length
    ? [make("details", {}, make("summary", {}, "Scores without a value, and why"), ...sentences(cell.without_value))]
    : [];
  find("notes").replaceChildren(...sentences([...data.notes, ...cell.notes]), ...missing);
}

/* The questions that pass every slice, in the order chosen; `keep` is opened if it is among them, else the first. */
function list(keep = order[at]) {
  const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean), right = find("right").value;
  order = [...cell.ids.keys()].filter((i) => (right === "" || (cell.right[i] !== null && +cell.right[i] === +right))
    && within("mass", cell.mass[i]) && within("length", cell.tokens[i]) && words.every((word) => cell.hay[i].includes(word)));
  const keys = cell.ids.map((_, i) => KEYS[sort.key](i)), sign = sort.down ? -1 : 1;
  const compared = (a, b) => keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0;
  order.sort((a, b) => (keys[a] === null) - (keys[b] === null) || sign * compared(a, b) || a - b);
  columns = COLUMNS.filter(({ key }) => ALWAYS.includes(key) || isKnown(key));
  for (const key of ["off", "gap"]) find("told-" + key).hidden = !isKnown(key);
  for (const option of find("order").options) {
    const [, key] = ORDERS[option.value] ?? [null, "asked"];
    option.hidden = option.disabled = !isKnown(key);
  }
  find("heads").replaceChildren(...columns.map(head));
  find("rows").replaceChildren();
  shown = 0;
  extend(60);
  at = -1;
  room();
  if (order.length) return pick(Math.max(0, order.indexOf(keep)));
  count();
  find("question").replaceChildren(make("p.soft", {}, "No question is like that."));
}
/* Questions are cut to three lines only where the table fills its pane. */
function room() {
  const box = find("scroll");
  box.classList.remove("whole");
  box.classList.toggle("whole", box.scrollHeight <= box.clientHeight);
}
function head(column) {
  const sorted = sort.key === column.key, arrow = sorted ? (sort.down ? " ▼" : " ▲") : column.head ? "" : "↕";
  const button = { type: "button", "aria-label": "sort by " + (column.title ?? column.head), onclick: () => sortBy(column.key) };
  return make(TEXTS.includes(column.key) ? "th" : "th.number", { scope: "col", style: `width:${column.width}`,
    "data-column": column.key, "data-tip": column.title, "aria-sort": sorted ? (sort.down ? "descending" : "ascending") : null },
  make("button", button, column.head + arrow));
}
function sortBy(key, down = sort.key === key ? !sort.down : !["question", "answer", "mass"].includes(key)) {
  sort = { key, down };
  find("order").value = ORDERS.findIndex(([, of, way]) => of === key && way === down);
  list(-1);
}
/* Rows are made as they come into view. */
function extend(to) {
  const rows = [];
  for (; shown < Math.min(to, order.length); shown++) {
    const i = order[shown], position = shown;
    const cells = columns.map((column) => make(TEXTS.includes(column.key) ? "td" : "td.number", { "data-column": column.key }, column.show(i)));
    rows.push(make("tr", { onclick: () => pick(position) }, ...cells));
  }
  find("rows").append(...rows);
}
function count() {
  const open = at >= 0 ? `; open: number ${at + 1}` : "";
  find("count").textContent = `${order.length} of ${plural(cell.ids.length, "question")}${open}`;
}
function pick(position) {
  if (!order.length) return;
  find("rows").children[at]?.removeAttribute("aria-current");
  at = Math.max(0, Math.min(order.length - 1, position));
  extend(at + 30);
  const row = find("rows").children[at], box = find("scroll"), top = row.offsetTop - find("heads").offsetHeight;
  row.setAttribute("aria-current", "true");
  box.scrollTop = Math.max(Math.min(box.scrollTop, top), row.offsetTop + row.offsetHeight - box.clientHeight);
  count();
  if (location.hash !== link(order[at])) location.replace(link(order[at]));
  question(order[at]);
}
const link = (i) => "#" + (data.cells.length > 1 ? cell.name + "/" : "") + encodeURIComponent(cell.ids[i]);

/* Open the question that the address names, by its id alone or behind its cell's name. */
function follow() {
  let wanted = location.hash.slice(1);
  try { wanted = decodeURIComponent(wanted); } catch { /* as it stands */ }
  for (const of of new Set([cell ?? data.cells[0], ...data.cells])) {
    const i = Math.max(of.ids.indexOf(wanted), wanted.startsWith(of.name + "/") ? of.ids.indexOf(wanted.slice(of.name.length + 1)) : -1);
    if (i < 0) continue;
    if (cell === of && order[at] === i) return;
    if (cell !== of) openCell(data.cells.indexOf(of));
    for (const tool of order.includes(i) ? [] : ["search", "right", "mass", "length"]) find(tool).value = "";
    return list(i);
  }
  if (!cell) { openCell(0); list(); }
}

/* ---- one question ---- */

function question(i) {
  const [answer] = cell.sets[i], references = cell.references[i], tokens = cell.tokens[i], prompt = cell.prefix + cell.prompts[i];
  const listed = references.slice(0, 12).flatMap((each, k) => [k ? " · " : null, text(each)]);
  const more = references.length > 12 ? ` and ${references.length - 12} more` : references.length ? null : "not known";
  const judged = cell.rated[i] === null ? null : ` (${cell.quality} ${number(cell.rated[i])}; right above ${cell.threshold})`;
  const facts = [
    ["Answer", text(cell.answers[i]), answer[3][0] ? make("span.soft", {}, " (cut)") : null],
    ["References", ...listed, more],
    ["Judged", verdict(i, true), judged],
    ["Answer's p", number(probability(answer, 0)), tokens && `, ${plural(tokens, "token")}`, cell.sources.answer && ` (${cell.sources.answer})`],
    ...(cell.mass[i] === null ? [] : [["Covered mass", number(cell.mass[i])]]),
    ["Link", make("a", { href: link(i) }, text(cell.ids[i], 80))],
  ];
  find("question").replaceChildren(
    make("h2.text", { dir: "auto" }, cell.questions[i] || cell.ids[i]),
    make("dl", {}, ...facts.flatMap(([name, ...parts]) => [make("dt", {}, name), make("dd", {}, ...parts)])),
    prompt ? make("details", {}, make("summary", {}, "Prompt"), make("pre.text", { dir: "auto", tabindex: "0" }, prompt)) : "",
    make("h3", {}, "Beams beside samples"),
    ...beside(i),
    ...icicle(i), ...matrices(i), ...scores(i));
  find("question").scrollTop = 0;
}

/* A set's distinct texts, with how often each came up and the summed p of its distinct outcomes. */
function grouped(i, which) {
  const set = cell.sets[i][which], found = new Map();
  set[0].forEach((t, k) => {
    const group = found.get(t) ?? { text: t, count: 0, p: 0, outcomes: new Set(), cluster: set[4][k] };
    const outcome = set[1][k] >= 0 ? set[1][k] : which === BEAMS ? "beam " + k : "text", p = probability(set, k);
    if (!group.outcomes.has(outcome)) group.p = p === null || group.p === null ? null : group.p + p;
    group.outcomes.add(outcome);
    group.count++;
    group.share = which === BEAMS ? group.p : group.count / set[0].length;
    found.set(t, group);
  });
  return [...found.values()].sort((a, b) => b.share - a.share);
}
function beside(i) {
  const sets = [BEAMS, SAMPLES].map((which) => grouped(i, which));
  const most = Math.max(...sets.flat().map((group) => group.share), 1e-9); // of both: their bars have one scale
  return [make("p.soft", {}, `Bars, on one scale up to ${percent(most)}: a text's probability (beams), its share of the draws (samples).`),
    make("div.two", {}, candidates(i, BEAMS, sets[0], most), candidates(i, SAMPLES, sets[1], most))];
}
function candidates(i, which, groups, most) {
  const size = cell.sets[i][which][0].length, name = NAMES[which], other = NAMES[3 - which];
  if (!size) return make("p.soft", {}, `no ${name}`);
  const shared = new Set(cell.sets[i][3 - which][0]), [answer] = cell.sets[i][ANSWER][0];
  const heads = [["p", "4.2rem"], [which === BEAMS ? "beams" : "drawn", "4.2rem"], ["text", "auto"]];
  const rows = groups.map((group) => make("tr", { class: group.text === answer ? "answer" : null },
    make("td.number", {}, number(group.p)),
    make("td.number", {}, which === BEAMS ? String(group.count) : `${group.count} of ${size}`,
      group.share === null ? null : make("span.bar." + name, { style: `width:${(100 * group.share) / most}%` })),
    make("td", {}, text(cell.texts[i][group.text]),
      shared.has(group.text) ? make("span." + other, { "aria-label": "also among the " + other, "data-tip": "also among the " + other }, " ●") : null)));
  return make("table", {}, make("caption." + name, {}, `${size} ${name} `, make("small", {}, `(${cell.sources[name]}), ${plural(groups.length, "text")}`)),
    make("thead", {}, make("tr", {}, ...heads.map(([label, width], k) =>
      make(k < 2 ? "th.number" : "th", { scope: "col", style: `width:${width}` }, label)))),
    make("tbody", {}, ...rows));
}

/* The trie of all candidates as nodes: p of the prefix, step given the one before, weight explored below, by whom. */
function trie(i) {
  const [depths, tokens, costs] = cell.trees[i], last = [0];
  const nodes = [{ depth: 0, p: 1, step: 1, words: "", token: "all answers", children: [], by: new Set("a") }];
  depths.forEach((depth, k) => {
    const parent = nodes[last[depth - 1]], step = Math.exp(-costs[k] / 1e3), token = data.tokens[tokens[k]];
    const node = { parent, depth, step, token, p: parent.p * step, words: parent.words + token, children: [], by: new Set() };
    last[depth] = nodes.push(node) - 1;
    parent.children.push(node);
  });
  cell.sets[i].forEach((set, which) => set[1].forEach((end) => {
    for (let node = nodes[end + 1]; node; node = node.parent) node.by.add(LETTERS[which]);
  }));
  const sum = (parts) => parts.reduce((total, part) => total + part, 0);
  for (const node of [...nodes].reverse()) {
    node.weight = node.children.length ? sum(node.children.map((child) => child.weight)) : node.p;
    node.rest = node.children.length ? Math.max(0, node.p - sum(node.children.map((child) => child.p))) : 0;
  }
  return nodes;
}
/* The trie as an icicle: a token is as wide as its prefix is probable, grey is what nobody looked at. */
function icicle(i) {
  const nodes = trie(i), [root] = nodes, LINE = 21;
  if (nodes.length < 2) return [];
  let base = root;
  const stretch = make("input", { type: "checkbox", onchange: () => show() });
  stretch.checked = root.weight < 0.5;
  const box = make("div.icicle", { role: "group",
    "aria-label": `Tree of ${nodes.length - 1} tokens of the candidates; explored: ${percent(root.weight)} of the probability` });
  const glyph = (token) => /^<.*>$/.test(token) ? "■" : token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").trim() || "␣";
  const told = (node) => !node.depth ? `all answers, p = 1; explored ${number(root.weight)}`
    : `“${node.token.replace(/\n/g, "⏎")}” p = ${number(node.step)} after “${node.parent.words}”; with it p = ${number(node.p)}`;
  const place = (left, width, depth) => `left:${100 * left}%;width:${100 * width}%;top:${LINE * depth}px`;
  function show() {
    const size = (node) => stretch.checked ? node.weight / base.weight : node.p / base.p, parts = [];
    let deepest = base.depth;
    const put = (node, kind, tip, left, width, to) => parts.push(make("button", { class: kind, type: "button", tabindex: "-1",
      "data-tip": tip, "aria-label": tip, style: place(left, width, node.depth), onclick: () => { base = to; show(); } },
    width > 0.012 ? glyph(node.token) : ""));
    const lay = (node, left, width) => {
      if (width < 0.0008) return;
      const kind = ["b", "s"].filter((letter) => node.by.has(letter)).join("") || "a";
      put(node, kind + (node.by.has("a") && node.depth ? " path" : ""), told(node), left, width, node === base ? node.parent ?? node : node);
      deepest = Math.max(deepest, node.depth);
      let x = left;
      for (const child of node.children) {
        const own = Math.min(size(child), left + width - x);
        lay(child, x, own);
        x += own;
      }
      if (!node.children.length || left + width - x < 0.002) return;
      deepest = Math.max(deepest, node.depth + 1);
      const tip = `not explored: p = ${number(node.rest)} after “${node.words}”`;
      parts.push(make("div.rest", { "data-tip": tip, style: place(x, left + width - x, node.depth + 1) }));
    };
    for (let node = base.parent; node; node = node.parent) put(node, "a", `back to “${node.words || "all answers"}”`, 0, 1, node);
    lay(base, 0, 1);
    box.style.height = LINE * (deepest + 1) + 2 + "px";
    box.replaceChildren(...parts);
  }
  show();
  const key = [["b", "beams"], ["s", "samples"], ["bs", "both"], ["path", "answer"], ["rest", "not explored"]];
  return [make("h3", {}, "Tree of the candidates"),
    make("p.key.soft", {}, "Width is probability; click a token to enlarge it, again to go back.",
      ...key.map(([kind, words]) => make("span", {}, make("i." + kind), words))),
    make("label", {}, stretch, ` stretch what was explored (${number(root.weight, 2)} of the probability) to the full width`), box];
}

/* Similarity of the answer and a set's texts, ordered by cluster. */
function matrices(i) {
  if (!cell.pairs[i]) return [];
  const n = Math.min(cell.texts[i].length, 40), left = cell.texts[i].length > n ? ` The first ${n} of ${cell.texts[i].length} texts.` : "";
  const drawn = [BEAMS, SAMPLES].filter((which) => cell.sets[i][which][0].length).map((which) => matrix(i, which, n));
  return [make("h3", {}, "Similarity and clusters"), make("p.soft", {}, `(s(a, b) + s(b, a)) / 2 by ${cell.similarity}, or the one of both that `
    + `was compared: the fuller the colour, the nearer to 1; hatched: neither. Letters are clusters of one meaning, ★ is the answer.${left}`), make("div.two", {}, ...drawn)];
}
function matrix(i, which, n) {
  const words = (t) => cell.texts[i][t] || "(empty)", answer = cell.sets[i][ANSWER][0][0], sizes = new Map();
  const rows = grouped(i, which).filter((group) => group.text < n);
  for (const group of rows) sizes.set(group.cluster, (sizes.get(group.cluster) ?? 0) + (group.share ?? 0));
  const ranks = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a)), judged = rows.some((group) => group.cluster !== undefined);
  const letter = (cluster) => {
    const rank = judged ? ranks.indexOf(cluster) : -1;
    return rank < 0 ? "" : rank < 26 ? String.fromCharCode(65 + rank) : String(rank + 1);
  };
  rows.sort((a, b) => ranks.indexOf(a.cluster) - ranks.indexOf(b.cluster));
  if (!rows.some((row) => row.text === answer) && answer < n) rows.unshift({ text: answer, cluster: -1 });
  const similarity = (a, b) => {
    const [x, y] = a < b ? [a, b] : [b, a], code = cell.pairs[i].charCodeAt(x * n - (x * (x - 1)) / 2 + y - x) - 40;
    return code < 0 ? null : code / 100;
  };
  const told = judged ? plural(ranks.length, "cluster") : "no clusters known";
  const members = ranks.map((cluster) => `${letter(cluster)} ` + rows.filter((row) => row.cluster === cluster).map((row) => words(row.text)).join(" / "));
  const grid = make("div.heat", { role: "img", style: `grid-template-columns:minmax(4rem,9rem) 1.5rem repeat(${rows.length},minmax(5px,22px))`,
    "aria-label": `Similarity of ${rows.length} texts of the ${NAMES[which]}; ${told}: ${members.join("; ")}`.slice(0, 900) });
  const edge = (k, kind) => k && rows[k].cluster !== rows[k - 1].cluster ? kind : "";
  rows.forEach((row, r) => {
    grid.append(make("b", { class: edge(r, "cut"), "data-tip": words(row.text) }, words(row.text)),
      make("b", { class: edge(r, "cut") }, letter(row.cluster) + (row.text === answer ? "★" : "")));
    rows.forEach((column, c) => {
      const s = similarity(row.text, column.text), tip = `${words(row.text)} — ${words(column.text)}: ${s === null ? "not compared" : s.toFixed(2)}`;
      grid.append(make("i", { class: `${s === null ? "none" : ""} ${edge(r, "cut")} ${edge(c, "side")}`, style: s === null ? null : `--w:${100 * s}`, "data-tip": tip }));
    });
  });
  return make("div", {}, make("p." + NAMES[which], {}, make("b", {}, `${NAMES[which]}: `), told), grid);
}

/* Every method's value and place; a click chooses the method. */
function scores(i) {
  if (!cell.methods.length) return [make("p.soft", {}, "No scores yet.")];
  const pair = (m, kind) => {
    if (m < 0) return [make("td"), make("td")];
    const told = cell.place[m][i] === null ? null : `more uncertain than ${percent(cell.place[m][i])} of the other questions`;
    const bar = told ? make("div.place", { role: "img", "aria-label": told, style: `--at:${cell.place[m][i]}` }) : "–";
    return [make("td.number", { class: "number " + kind, "data-m": m }, number(cell.values[m][i])), make("td", { class: kind, "data-m": m, "data-tip": told }, bar)];
  };
  const rows = [...new Set(cell.methods.map(([title]) => title))].map((title) => {
    const single = cell.methods.findIndex((m) => m[0] === title && m[1] === ""), [samples, beams] = cell.forms(title);
    const choose = (event) => {
      find("method").value = event.target.closest("[data-m]")?.dataset.m ?? [beams, samples, single].find((m) => m >= 0);
      list();
    };
    return make("tr", { "aria-current": cell.methods[method()][0] === title ? "true" : null, onclick: choose },
      make("th", { scope: "row" }, title), ...(single >= 0 ? pair(single, "") : pair(samples, "samples")), ...pair(beams, "beams"));
  });
  const heads = [["method", 1, ""], ["answer or samples", 2, "samples"], ["beams", 2, "beams"]];
  return [make("h3", {}, "Methods: value, and place among all questions (left: most certain, right: most uncertain)"),
    make("table", { id: "methods" }, make("thead", {}, make("tr", {}, ...heads.map(([words, span, kind]) =>
      make("th", { scope: "col", colspan: span, class: kind }, words)))), make("tbody", {}, ...rows)),
    ...rejection(i)];
}

/* The prediction–rejection curve of the method chosen, in both its forms, and where on it this answer is rejected. */
function rejection(i) {
  const [title, form] = cell.methods[method()], both = cell.forms(title);
  const chosen = form && !both.includes(-1) ? both : [method()];
  const judged = [...cell.ids.keys()].filter((k) => cell.rated[k] !== null && chosen.every((m) => cell.values[m][k] !== null));
  if (judged.length < 2) return [make("p.soft", {}, "No rejection curve: quality is known of fewer than two questions.")];
  const N = judged.length, quality = judged.map((k) => cell.rated[k]), oracle = retained(quality.map((q) => -q), quality);
  const curves = chosen.map((m) => retained(judged.map((k) => cell.values[m][k]), quality));
  const all = [oracle, ...curves].flatMap((curve) => curve.slice(1)), low = Math.min(...all), high = Math.max(...all, low + 1e-9);
  const x = (n) => 40 + 380 * (1 - n / N), y = (q) => 200 - 185 * ((q - low) / (high - low));
  const path = (curve) => "M" + judged.map((_, k) => `${x(N - k).toFixed(1)} ${y(curve[N - k]).toFixed(1)}`).join("L");
  const words = (left, top, told, anchor = "start") => draw("text", { x: left, y: top, "text-anchor": anchor }, told);
  const axis = (d, dash = null) => draw("path", { d, class: "axis", "stroke-dasharray": dash });
  const label = `Prediction–rejection curve of ${title}`, parts = [], told = [];
  chosen.forEach((m, k) => {
    const samples = cell.methods[m][1] === "multinomial", kind = { multinomial: "samples", beamsearch: "beams" }[cell.methods[m][1]] ?? "";
    const n = judged.includes(i) ? Math.round(1 + cell.place[m][i] * (N - 1)) : 0, top = y(curves[k][n]);
    const square = { x: x(n) - 5, y: top - 5, width: 10, height: 10, fill: "currentColor" }, disc = { cx: x(n), cy: top, r: 6, fill: "currentColor" };
    parts.push(draw("g", { class: kind }, draw("path", { d: path(curves[k]), class: "curve", "stroke-dasharray": samples ? "6 4" : null }),
      n ? samples ? draw("rect", square) : draw("circle", disc) : ""));
    const found = prr(curves[k], oracle, cell.rejection), gone = n ? `, this answer goes when ${percent(1 - n / N)} are rejected` : "";
    told.push(make("span", { class: kind }, `${samples ? "■ - - " : "● — "}${kind ? kind + ": " : ""}PRR ${found === null ? "undefined" : number(found)}${gone}. `));
  });
  return [make("h3", {}, label), make("p", {}, ...told),
    draw("svg", { viewBox: "0 0 500 240", role: "img", "aria-label": label + ": " + told.map((node) => node.textContent).join(" ") },
      axis("M40 10V200H420"), axis(path(oracle)), axis(`M40 ${y(oracle[N])}H420`, "2 4"), axis(`M${x(N * (1 - cell.rejection))} 10V200`, "1 3"),
      words(424, y(oracle[1]) + 9, "oracle"), words(424, y(oracle[N]) + 4, "random"), ...parts,
      ...[0, 0.5, 1].map((share) => words(40 + 380 * share, 215, percent(share), "middle")),
      ...[low, high].map((q) => words(36, y(q) + 4, number(q, 2), "end")),
      words(230, 233, "rejected share; upwards: mean quality of what is kept", "middle"))];
}

/* ---- hands ---- */

choices("cell", data.cells.map((of, index) => [of.title, index]), 0);
find("cell").closest("label").hidden = data.cells.length < 2;
choices("order", [...ORDERS.map(([label], index) => [label, index]), ["by a column", -1]], 0);
find("cell").addEventListener("change", () => {
  const id = cell.ids[order[at]];
  openCell(+find("cell").value);
  list(cell.ids.indexOf(id));
});
for (const id of ["right", "mass", "length", "method"]) find(id).addEventListener("change", () => list());
find("search").addEventListener("input", () => list());
find("order").addEventListener("change", () => {
  const [, key, down] = ORDERS[find("order").value] ?? [null, sort.key, sort.down];
  sortBy(key, down);
});
find("tools").addEventListener("submit", (event) => event.preventDefault());
find("scroll").addEventListener("scroll", () => {
  const box = find("scroll");
  if (box.scrollTop + 2 * box.clientHeight > box.scrollHeight) extend(shown + 60);
});
addEventListener("hashchange", follow);
addEventListener("resize", room);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "PRE") return;
  const typing = ["INPUT", "SELECT"].includes(event.target.tagName) && event.target.type !== "checkbox";
  const leaves = event.target.id === "search" && ["ArrowDown", "ArrowUp", "Enter"].includes(event.key);
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
  if (event.key === "Escape") find("scroll").focus();
  else if (typing && !leaves) return;
  else if (step) pick(at < 0 ? 0 : at + step);
  else if (event.key === "/") { find("search").focus(); find("search").select(); }
  else if (event.key === "Enter" && [find("search"), find("scroll"), document.body].includes(event.target)) find("question").focus();
  else return;
  event.preventDefault();
});
addEventListener("pointermove", (event) => {
  const tip = find("tip"), told = event.target.closest?.("[data-tip]")?.dataset.tip;
  tip.hidden = !told;
  if (!told) return;
  tip.textContent = told.length > 600 ? told.slice(0, 600) + "…" : told;
  const below = event.clientY + 18, above = event.clientY - tip.offsetHeight - 10;
  tip.style.left = Math.max(0, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (below + tip.offsetHeight > innerHeight ? above : below) + "px";
});
follow();
document.body.dataset.ready = "yes";
})();
