"use strict";
/* Data (explorer_page.py): columns with one entry a question. Whatever a question or a model says is set as text, never as HTML. */
(async () => {
const find = (id) => document.getElementById(id);
const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null));
  return node;
};
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const text = (words, most = Infinity) => words === "" ? make("span", { class: "soft" }, "(empty)")
  : make("span", { class: "text", dir: "auto" }, words.length > most ? words.slice(0, most) + "…" : words);
const number = (value, digits = 3) => value === null ? "–" : Math.abs(value) >= 1e-3 || value === 0 ? String(+value.toPrecision(digits)) : value.toExponential(1);
const percent = (share) => share === null ? "–" : Math.round(100 * share) + " %";
const signed = (share) => share === null ? "–" : (share > 0 ? "+" : share < 0 ? "−" : "") + Math.round(100 * Math.abs(share));
const known = (values) => values.filter((value) => value !== null);
const FORMS = { "": "", multinomial: " · samples", beamsearch: " · beams" };
const NAMES = ["answer", "samples", "beams"];

async function unpack() {
  const bytes = Uint8Array.from(atob(find("data").textContent), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

/* Where each value stands among all: the share of the others that are lower, equal ones by half. */
function places(values) {
  const order = [...values.keys()].filter((i) => values[i] !== null).sort((a, b) => values[a] - values[b]);
  const found = values.map(() => null);
  for (let start = 0, end; start < order.length; start = end) {
    for (end = start + 1; end < order.length && values[order[end]] === values[order[start]];) end++;
    for (const i of order.slice(start, end)) found[i] = order.length < 2 ? 0.5 : (start + (end - start - 1) / 2) / (order.length - 1);
  }
  return found;
}

/* Mean quality of the n most certain answers, n = 0 … N (equal scores by expectation), as the package has it (D13). */
function retained(values, quality) {
  const order = [...values.keys()].sort((a, b) => values[a] - values[b]);
  const sums = [0];
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

let data;
try { data = await unpack(); } catch (error) {
  find("count").textContent = "This browser cannot unpack the page: it needs Chromium or Edge 111, Firefox 113, Safari 16.4 or later (" + error + ").";
  return;
}
let cell, order = [], at = -1, shown = 0, sort = { key: "asked", down: false };

/* What the table and the slices need of a cell, computed once. */
function prepare(of) {
  if (of.right) return;
  of.right = of.rated.map((value) => value === null ? null : value > of.threshold);
  of.mass = of.sets.map(([, , beams]) => beams[2].length && !beams[2].includes(null) ? Math.min(1, beams[2].reduce((sum, logp) => sum + Math.exp(logp / 1e4), 0)) : null);
  of.tokens = of.sets.map(([answer], i) => answer[1][0] < 0 ? null : of.trees[i][0][answer[1][0]]);
  of.place = of.values.map(places);
  of.good = places(of.rated.map((value) => value === null ? null : -value));
  of.forms = (title) => ["multinomial", "beamsearch"].map((form) => of.methods.findIndex((method) => method[0] === title && method[1] === form));
  of.answers = of.sets.map(([answer], i) => of.texts[i][answer[0][0]]);
  const paired = of.methods.map(([title]) => title).filter((title) => !of.forms(title).includes(-1));
  of.paired = paired.includes("Dissimilarity") ? "Dissimilarity" : paired[0];
}
const method = () => +find("method").value;
const pairOf = () => { const own = cell.methods[method()]?.[0]; return own && !cell.forms(own).includes(-1) ? own : cell.paired; };
const value = (i) => cell.values[method()]?.[i] ?? null;
const place = (i) => cell.place[method()]?.[i] ?? null;
const off = (i) => place(i) === null || cell.good[i] === null ? null : place(i) - cell.good[i];
const gap = (i) => {
  if (!pairOf()) return null;
  const [samples, beams] = cell.forms(pairOf()).map((m) => cell.place[m][i]);
  return samples === null || beams === null ? null : beams - samples;
};
const COLUMNS = [
  { key: "right", head: "", title: "right or wrong", width: "1.7rem", of: (i) => cell.right[i] === null ? null : +cell.right[i], show: (i) => verdict(i, false) },
  { key: "question", head: "Question", width: "auto", of: (i) => cell.questions[i], show: (i) => text(cell.questions[i], 160) },
  { key: "answer", head: "Answer", width: "23%", of: (i) => cell.answers[i], show: (i) => text(cell.answers[i], 120) },
  { key: "mass", head: "Mass", title: "covered mass: the beams' summed probability", width: "3.7rem", of: (i) => cell.mass[i], show: (i) => number(cell.mass[i], 2) },
  { key: "length", head: "Tokens", title: "of the answer, its ending included", width: "4.3rem", of: (i) => cell.tokens[i], show: (i) => cell.tokens[i] ?? "–" },
  { key: "value", head: "Score", title: "of the method chosen; higher: more uncertain", width: "3.9rem", of: value, show: (i) => number(value(i)) },
  { key: "off", head: "Off by", title: "place by uncertainty minus place by quality, in percent: + too uncertain, − too certain", width: "3.1rem", of: off, show: (i) => signed(off(i)) },
  { key: "gap", head: "Beams − samples", title: "place by the method over beams minus its place over samples, in percent", width: "5rem", of: gap, show: (i) => signed(gap(i)) },
];
const ORDERS = [
  ["as asked", "asked", false], ["most uncertain first", "value", true], ["most certain first", "value", false],
  ["too certain: bad answers ranked sure", "off", false], ["too uncertain: good answers ranked unsure", "off", true],
  ["beams and samples disagree most", "apart", true], ["least covered mass", "mass", false], ["longest answer", "length", true],
];
const KEYS = Object.fromEntries([...COLUMNS.map((column) => [column.key, column.of]), ["asked", (i) => i], ["apart", (i) => gap(i) === null ? null : Math.abs(gap(i))]]);

function verdict(i, words) {
  if (cell.right[i] === null) return make("span", { class: "soft", "aria-label": "not judged" }, "–");
  const told = cell.right[i] ? "right" : "wrong";
  return make("span", { class: told, "aria-label": told }, (cell.right[i] ? "✓" : "✗") + (words ? " " + told : ""));
}
const choices = (id, options, chosen) => find(id).replaceChildren(...options.map(([label, key]) => make("option", { value: key, selected: key === chosen }, label)));

/* Thirds of the questions by a number, as a slice's options: equal numbers stay together. */
function thirds(values) {
  const sorted = known(values).sort((a, b) => a - b);
  const cuts = sorted.length ? [sorted[Math.floor(sorted.length / 3)], sorted[Math.floor((2 * sorted.length) / 3)]] : [];
  const ends = [-Infinity, ...new Set(cuts), Infinity], options = [["all", ""]];
  for (let k = 0; k + 1 < ends.length && sorted.length; k++) {
    const inside = sorted.filter((v) => v >= ends[k] && v < ends[k + 1]);
    if (inside.length) options.push([`${number(inside[0], 2)} – ${number(inside[inside.length - 1], 2)} (${inside.length})`, ends[k] + " " + ends[k + 1]]);
  }
  return options;
}
const within = (id, number) => find(id).value === "" || (number !== null && number >= +find(id).value.split(" ")[0] && number < +find(id).value.split(" ")[1]);

function openCell(index) {
  const before = cell?.methods[method()]?.join();
  cell = data.cells[index];
  prepare(cell);
  find("cell").value = index;
  choices("mass", thirds(cell.mass), "");
  choices("length", thirds(cell.tokens), "");
  const wanted = [before, "Dissimilarity,beamsearch"].map((name) => cell.methods.findIndex((m) => m.join() === name)).find((m) => m >= 0) ?? 0;
  choices("method", cell.methods.length ? cell.methods.map(([title, form], m) => [title + FORMS[form], m]) : [["none", 0]], wanted);
  find("notes").replaceChildren(...[...data.notes, ...cell.notes].map((note) => make("p", {}, note)));
}

/* The questions that pass every slice, in the order chosen; the one open stays open while it passes. */
function list(keep) {
  const wanted = keep ?? order[at], words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean), right = find("right").value;
  cell.hay ??= cell.ids.map((id, i) => [id, cell.questions[i], ...cell.references[i], ...cell.texts[i]].join("\n").toLowerCase());
  const of = KEYS[sort.key], sign = sort.down ? -1 : 1;
  order = [...cell.ids.keys()].filter((i) => (right === "" || (cell.right[i] !== null && +cell.right[i] === +right)) &&
    within("mass", cell.mass[i]) && within("length", cell.tokens[i]) && words.every((word) => cell.hay[i].includes(word)));
  const keys = cell.ids.map((_, i) => of(i));
  order.sort((a, b) => (keys[a] === null) - (keys[b] === null) || sign * (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0) || a - b);
  find("heads").replaceChildren(...COLUMNS.map((column) => make("th", {
    scope: "col", style: `width:${column.width}`, class: ["question", "answer", "right"].includes(column.key) ? "" : "number", "data-tip": column.title,
    "aria-sort": sort.key === column.key ? (sort.down ? "descending" : "ascending") : null,
  }, make("button", { type: "button", "aria-label": "sort by " + (column.title ?? column.head), onclick: () => sortBy(column.key) },
    column.head + (sort.key === column.key ? (sort.down ? " ▼" : " ▲") : column.head ? "" : "↕")))));
  find("rows").replaceChildren();
  shown = 0;
  extend(60);
  find("scroll").scrollTop = 0;
  at = -1;
  const position = Math.max(0, order.indexOf(wanted));
  if (order.length) pick(position); else { count(); find("question").replaceChildren(make("p", { class: "soft" }, "No question is like that.")); }
}
function sortBy(key, down = sort.key === key ? !sort.down : !["question", "answer", "mass"].includes(key)) {
  sort = { key, down };
  find("order").value = ORDERS.findIndex(([, of, way]) => of === key && way === down);
  list();
}
function extend(to) {
  const rows = [];
  for (; shown < Math.min(to, order.length); shown++) {
    const i = order[shown], position = shown;
    rows.push(make("tr", { onclick: () => pick(position) }, ...COLUMNS.map((column) =>
      make("td", { class: ["question", "answer", "right"].includes(column.key) ? null : "number" }, column.show(i)))));
  }
  find("rows").append(...rows);
}
const count = () => { find("count").textContent = `${order.length} of ${cell.ids.length} questions` + (at >= 0 ? `; open: number ${at + 1}` : ""); };

function pick(position) {
  if (!order.length) return;
  find("rows").children[at]?.removeAttribute("aria-current");
  at = Math.max(0, Math.min(order.length - 1, position));
  extend(at + 30);
  const row = find("rows").children[at];
  row.setAttribute("aria-current", "true");
  const box = find("scroll"), head = find("heads").offsetHeight;
  if (row.offsetTop - head < box.scrollTop) box.scrollTop = row.offsetTop - head;
  else if (row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = row.offsetTop + row.offsetHeight - box.clientHeight;
  count();
  const hash = link(order[at]);
  if (location.hash !== hash) location.replace(hash);
  question(order[at]);
}
const link = (i) => "#" + (data.cells.length > 1 ? cell.name + "/" : "") + encodeURIComponent(cell.ids[i]);
function follow() {
  let wanted = location.hash.slice(1);
  try { wanted = decodeURIComponent(wanted); } catch { /* as it stands */ }
  const now = Math.max(0, data.cells.indexOf(cell));
  for (const index of [now, ...data.cells.keys()])
    for (const id of [wanted, wanted.startsWith(data.cells[index].name + "/") ? wanted.slice(data.cells[index].name.length + 1) : null]) {
      const i = id === null ? -1 : data.cells[index].ids.indexOf(id);
      if (i < 0) continue;
      if (cell === data.cells[index] && order[at] === i) return;
      if (cell !== data.cells[index]) openCell(index);
      if (cell && order.indexOf(i) < 0) for (const tool of ["search", "right", "mass", "length"]) find(tool).value = "";
      return list(i);
    }
  if (!cell) { openCell(0); list(); }
}

/* ---- one question ---- */
function question(i) {
  const [answer] = cell.sets[i], facts = [
    ["Answer", [text(cell.answers[i]), answer[3][0] ? make("span", { class: "soft" }, " (cut)") : null]],
    ["References", cell.references[i].length ? cell.references[i].slice(0, 12).flatMap((each, k) => [k ? " · " : null, text(each)])
      .concat(cell.references[i].length > 12 ? ` and ${cell.references[i].length - 12} more` : null) : ["not known"]],
    ["Judged", [verdict(i, true), cell.rated[i] === null ? null : ` (${cell.quality} ${number(cell.rated[i])}; right above ${cell.threshold})`]],
    ["Answer's p", [number(probability(answer, 0)), cell.tokens[i] === null ? "" : `, ${cell.tokens[i]} tokens`, cell.sources.answer ? ` (${cell.sources.answer})` : ""]],
    ["Covered mass", [number(cell.mass[i])]],
    ["Link", [make("a", { href: link(i) }, text(cell.ids[i], 80))]],
  ];
  find("question").replaceChildren(
    make("h2", { class: "text", dir: "auto" }, cell.questions[i] || cell.ids[i]),
    make("dl", {}, ...facts.flatMap(([name, parts]) => [make("dt", {}, name), make("dd", {}, ...parts.filter((part) => part !== null))])),
    cell.prompts[i] || cell.prefix ? make("details", {}, make("summary", {}, "Prompt"), make("pre", { class: "text", dir: "auto", tabindex: "0" }, cell.prefix + cell.prompts[i])) : "",
    make("h3", {}, "Beams beside samples"),
    make("div", { class: "two" }, candidates(i, 2), candidates(i, 1)),
    ...icicle(i), ...matrices(i), ...scores(i));
  find("question").scrollTop = 0;
}
const probability = (set, k) => set[2][k] === null || set[2][k] === undefined ? null : Math.exp(set[2][k] / 1e4);

/* A set's distinct texts with how often each came up and the summed p of its distinct outcomes. */
function grouped(i, which) {
  const [texts, ends] = cell.sets[i][which], found = new Map();
  texts.forEach((t, k) => {
    const group = found.get(t) ?? { text: t, count: 0, p: 0, outcomes: new Set(), cluster: cell.sets[i][which][4][k] };
    const outcome = ends[k] < 0 ? (which === 2 ? k : t) : ends[k], p = probability(cell.sets[i][which], k);
    if (!group.outcomes.has(outcome)) group.p = p === null || group.p === null ? null : group.p + p;
    group.outcomes.add(outcome);
    group.count++;
    found.set(t, group);
  });
  const groups = [...found.values()];
  return which === 2 ? groups.sort((a, b) => b.p - a.p) : groups.sort((a, b) => b.count - a.count);
}
function candidates(i, which) {
  const groups = grouped(i, which), size = cell.sets[i][which][0].length, other = new Set(cell.sets[i][3 - which][0]), mine = NAMES[which];
  const most = Math.max(...groups.map((group) => which === 2 ? group.p : group.count / size), 1e-9);
  const told = which === 2 ? "beams" : "samples";
  return make("table", {}, make("caption", { class: mine }, size ? `${size} ${told} (${cell.sources[mine]}), ${groups.length} texts` : `no ${told}`),
    make("thead", {}, make("tr", {}, ...(size ? [["p", "4.2rem"], [which === 2 ? "beams" : "drawn", "4.2rem"], ["text", "auto"]] : []).map(([head, width], k) =>
      make("th", { scope: "col", style: `width:${width}`, class: k < 2 ? "number" : "" }, head)))),
    make("tbody", {}, ...groups.map((group) => make("tr", { class: group.text === cell.sets[i][0][0][0] ? "answer" : null },
      make("td", { class: "number" }, number(group.p)),
      make("td", { class: "number" }, which === 2 ? String(group.count) : `${group.count} of ${size}`,
        make("span", { class: "bar " + mine, style: `width:${100 * Math.max(0, (which === 2 ? group.p : group.count / size) / most)}%` })),
      make("td", { "data-tip": other.has(group.text) ? "also among the " + NAMES[3 - which] : null }, text(cell.texts[i][group.text]), other.has(group.text) ? make("span", { class: NAMES[3 - which], "aria-label": "also among the " + NAMES[3 - which] }, " ●") : null)))));
}

/* The trie of all candidates: a token's width is the probability of its prefix, grey what nobody looked at. */
function icicle(i) {
  const [depths, tokens, costs] = cell.trees[i];
  if (!depths.length) return [];
  const nodes = [{ depth: 0, p: 1, step: 1, words: "", token: "all answers", children: [], by: new Set(["a"]) }], last = [0];
  depths.forEach((depth, k) => {
    const parent = nodes[last[depth - 1]], step = Math.exp(-costs[k] / 1e3), token = data.tokens[tokens[k]];
    last[depth] = nodes.push({ parent, depth, step, p: parent.p * step, token, words: parent.words + token, children: [], by: new Set() }) - 1;
    parent.children.push(nodes[last[depth]]);
  });
  cell.sets[i].forEach((set, which) => set[1].forEach((end) => { for (let node = nodes[end + 1]; node; node = node.parent) node.by.add("asb"[which]); }));
  for (const node of [...nodes].reverse()) node.weight = node.children.length ? node.children.reduce((sum, child) => sum + child.weight, 0) : node.p;
  const box = make("div", { class: "icicle", role: "group", "aria-label": `Tree of ${nodes.length - 1} tokens of the candidates; explored: ${percent(nodes[0].weight)} of the probability` });
  const stretch = make("input", { type: "checkbox", onchange: () => show(zoomed) });
  stretch.checked = nodes[0].weight < 0.5;
  let zoomed = nodes[0];
  const glyph = (token) => token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").trim() || "␣";
  function show(base) {
    zoomed = base;
    const size = (node) => stretch.checked ? node.weight / base.weight : node.p / base.p, parts = [];
    let deepest = base.depth;
    const put = (kind, token, tip, node, left, width, level) => parts.push(make(node ? "button" : "div", {
      class: kind, "data-tip": tip, "aria-label": node ? tip : null, type: node ? "button" : null, tabindex: node ? "-1" : null,
      style: `left:${100 * left}%;width:${100 * width}%;top:${21 * level}px`, onclick: node ? () => show(node === zoomed ? node.parent ?? node : node) : () => {} }, width > 0.012 ? token : ""));
    const lay = (node, left, width) => {
      if (width < 0.0008) return;
      deepest = Math.max(deepest, node.depth + (stretch.checked || !node.children.length ? 0 : 1));
      const kind = (node.by.has("b") ? "b" : "") + (node.by.has("s") ? "s" : "") || "a";
      put(kind + (node.by.has("a") && node.depth ? " path" : ""), glyph(node.token),
        node.depth ? `“${node.token.replace(/\n/g, "⏎")}” p = ${number(node.step)} after “${node.words.slice(0, -node.token.length || undefined)}”; prefix p = ${number(node.p)}` : `all answers, p = 1; explored ${number(nodes[0].weight)}`,
        node, left, width, node.depth);
      let x = left;
      for (const child of node.children) { const own = Math.min(size(child), left + width - x); lay(child, x, own); x += own; }
      if (node.children.length && left + width - x > 0.002) put("rest", "", `not explored: p = ${number(Math.max(0, node.p - node.children.reduce((sum, child) => sum + child.p, 0)))} after “${node.words}”`, null, x, left + width - x, node.depth + 1);
    };
    for (let node = base.parent; node; node = node.parent) put("a", glyph(node.token), `back to “${node.words || "all answers"}”`, node, 0, 1, node.depth);
    lay(base, 0, 1);
    box.style.height = 21 * (deepest + 1) + 2 + "px";
    box.replaceChildren(...parts);
  }
  show(nodes[0]);
  const key = [["b", "beams"], ["s", "samples"], ["bs", "both"], ["path", "answer"], ["rest", "not explored"]].flatMap(([kind, told]) => [make("span", { class: kind }), told]);
  return [make("h3", {}, "Tree of the candidates"),
    make("p", { class: "key soft" }, "Width is probability; click a token to enlarge it, again to go back.", ...key),
    make("label", {}, stretch, ` stretch what was explored (${number(nodes[0].weight, 2)} of the probability) to the full width`), box];
}

/* Similarity of the answer and a set's texts, ordered by cluster. */
function matrices(i) {
  if (!cell.pairs[i]) return [];
  const n = Math.min(cell.texts[i].length, 40), drawn = [2, 1].filter((which) => cell.sets[i][which][0].length).map((which) => matrix(i, which, n));
  const left = cell.texts[i].length > n ? ` The first ${n} of ${cell.texts[i].length} texts.` : "";
  return [make("h3", {}, "Similarity and clusters"), make("p", { class: "soft" }, `(s(a, b) + s(b, a)) / 2 by ${cell.similarity}: light 0, dark 1 (in dark mode: bright). Letters are clusters of one meaning; ★ is the answer.${left}`), make("div", { class: "two" }, ...drawn)];
}
function matrix(i, which, n) {
  const answer = cell.sets[i][0][0][0], groups = grouped(i, which).filter((group) => group.text < n), sizes = new Map();
  for (const group of groups) sizes.set(group.cluster, (sizes.get(group.cluster) ?? 0) + (which === 2 ? group.p ?? 0 : group.count));
  const ranks = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a)), judged = groups.some((group) => group.cluster !== undefined);
  const letter = (cluster) => cluster === undefined ? "" : ranks.indexOf(cluster) < 26 ? String.fromCharCode(65 + ranks.indexOf(cluster)) : String(ranks.indexOf(cluster));
  const rows = groups.map((group) => ({ ...group, letter: judged ? letter(group.cluster) : "" })).sort((a, b) => ranks.indexOf(a.cluster) - ranks.indexOf(b.cluster));
  if (!rows.some((row) => row.text === answer) && answer < n) rows.unshift({ text: answer, letter: "", cluster: -1 });
  const w = (a, b) => { const [x, y] = a < b ? [a, b] : [b, a]; const code = cell.pairs[i].charCodeAt(x * n - (x * (x - 1)) / 2 + y - x) - 40; return code < 0 ? null : code / 100; };
  const told = judged ? `${ranks.length} cluster${ranks.length === 1 ? "" : "s"}: ` + ranks.slice(0, 26).map((cluster) => `${letter(cluster)}, ${rows.filter((row) => row.cluster === cluster).map((row) => cell.texts[i][row.text] || "(empty)").join(" / ")}`).join("; ") : "no clusters known";
  const grid = make("div", { class: "heat", role: "img", "aria-label": `Similarity of ${rows.length} texts of the ${NAMES[which]}; ${told}`.slice(0, 900), style: `grid-template-columns:minmax(4rem,9rem) 1.5rem repeat(${rows.length},minmax(5px,22px))` });
  rows.forEach((row, r) => {
    const first = r && row.cluster !== rows[r - 1].cluster ? " cut" : "";
    grid.append(make("b", { class: first, "data-tip": cell.texts[i][row.text] || "(empty)" }, cell.texts[i][row.text] || "(empty)"), make("b", { class: first }, row.letter + (row.text === answer ? "★" : "")));
    rows.forEach((column, c) => {
      const s = w(row.text, column.text), side = c && column.cluster !== rows[c - 1].cluster ? " side" : "";
      grid.append(make("i", { class: (s === null ? "none" : "") + first + side, style: s === null ? null : `--w:${100 * s}`, "data-tip": `${cell.texts[i][row.text] || "(empty)"} — ${cell.texts[i][column.text] || "(empty)"}: ${s === null ? "not compared" : s.toFixed(2)}` }));
    });
  });
  return make("div", {}, make("p", { class: NAMES[which] }, make("b", {}, `${NAMES[which]}: `), judged ? `${ranks.length} cluster${ranks.length === 1 ? "" : "s"}` : "no clusters known"), grid);
}

/* Every method's value and place, and where this question is rejected on the method's curve. */
function scores(i) {
  if (!cell.methods.length) return [make("p", { class: "soft" }, "No scores yet.")];
  const titles = [...new Set(cell.methods.map(([title]) => title))];
  const cells = (m, kind) => m < 0 ? [make("td"), make("td")] : [
    make("td", { class: "number " + kind, "data-m": m }, number(cell.values[m][i])),
    make("td", { class: kind, "data-m": m, "data-tip": cell.place[m][i] === null ? null : `more uncertain than ${percent(cell.place[m][i])} of the other questions` },
      cell.place[m][i] === null ? "–" : make("div", { class: "place", role: "img", "aria-label": `more uncertain than ${percent(cell.place[m][i])}`, style: `--at:${cell.place[m][i]}` }))];
  const rows = titles.map((title) => {
    const single = cell.methods.findIndex((m) => m[0] === title && m[1] === ""), [samples, beams] = cell.forms(title);
    return make("tr", { "aria-current": cell.methods[method()][0] === title ? "true" : null, onclick: (event) => {
      const chosen = event.target.closest("[data-m]")?.dataset.m ?? [beams, samples, single].find((m) => m >= 0);
      find("method").value = chosen; list(); } },
      make("th", { scope: "row" }, title), ...(single >= 0 ? cells(single, "") : cells(samples, "samples")), ...cells(beams, "beams"));
  });
  const heads = [["method", 1, ""], ["answer or samples", 2, "samples"], ["beams", 2, "beams"]];
  return [make("h3", {}, "Methods: value, and place among all questions (left: most certain, right: most uncertain)"),
    make("table", { id: "methods" }, make("thead", {}, make("tr", {}, ...heads.map(([head, span, kind]) => make("th", { scope: "col", colspan: span, class: kind }, head)))), make("tbody", {}, ...rows)),
    ...rejection(i)];
}
function rejection(i) {
  const [title, form] = cell.methods[method()], pair = form && cell.methods.filter((m) => m[0] === title).length > 1;
  const chosen = pair ? cell.forms(title) : [method()];
  const judged = [...cell.ids.keys()].filter((k) => cell.rated[k] !== null && chosen.every((m) => cell.values[m][k] !== null));
  if (judged.length < 2) return [make("p", { class: "soft" }, "No rejection curve: quality is known of fewer than two questions.")];
  const quality = judged.map((k) => cell.rated[k]), oracle = retained(quality.map((q) => -q), quality), N = judged.length, mean = oracle[N];
  const curves = chosen.map((m) => ({ m, mean: retained(judged.map((k) => cell.values[m][k]), quality), kind: { multinomial: "samples", beamsearch: "beams" }[cell.methods[m][1]] ?? "soft" }));
  const all = [...oracle.slice(1), ...curves.flatMap((curve) => curve.mean.slice(1))], low = Math.min(...all), high = Math.max(...all, low + 1e-9);
  const x = (n) => 40 + 380 * (1 - n / N), y = (q) => 200 - 185 * ((q - low) / (high - low));
  const path = (curve) => "M" + [...Array(N).keys()].map((k) => `${x(N - k).toFixed(1)} ${y(curve[N - k]).toFixed(1)}`).join("L");
  const line = (q, dash, told) => draw("g", {}, draw("path", { d: `M40 ${y(q)}H420`, class: "axis", "stroke-dasharray": dash }), told ? draw("text", { x: 424, y: y(q) + 4 }, told) : "");
  const cut = x(N * (1 - cell.rejection)), parts = [], told = [];
  for (const curve of curves) {
    const here = judged.indexOf(i), n = here < 0 ? 0 : Math.round(1 + (cell.place[curve.m][i] ?? 0) * (N - 1)), found = prr(curve.mean, oracle, cell.rejection);
    parts.push(draw("g", { class: curve.kind }, draw("path", { d: path(curve.mean), class: "curve", "stroke-dasharray": curve.kind === "samples" ? "6 4" : null }),
      n ? draw(curve.kind === "samples" ? "rect" : "circle", curve.kind === "samples" ? { x: x(n) - 5, y: y(curve.mean[n]) - 5, width: 10, height: 10, fill: "currentColor" } : { cx: x(n), cy: y(curve.mean[n]), r: 6, fill: "currentColor" }) : ""));
    told.push(make("span", { class: curve.kind === "soft" ? null : curve.kind }, `${curve.kind === "samples" ? "■ - - samples" : curve.kind === "beams" ? "● — beams" : "● —"}: PRR ${found === null ? "undefined" : number(found)}${n ? `, this answer goes when ${percent(1 - n / N)} are rejected` : ""}. `));
  }
  const label = `Prediction–rejection curve of ${title}`;
  return [make("h3", {}, label), make("p", {}, ...told), draw("svg", { viewBox: "0 0 500 240", role: "img", "aria-label": label + ": " + told.map((node) => node.textContent).join(" ") },
    draw("path", { d: "M40 10V200H420", class: "axis" }), line(mean, "2 4", "random"), draw("path", { d: path(oracle), class: "axis" }), draw("text", { x: 424, y: y(oracle[1]) + 9 }, "oracle"),
    draw("path", { d: `M${cut} 10V200`, class: "axis", "stroke-dasharray": "1 3" }), ...parts,
    ...[0, 0.5, 1].map((share) => draw("text", { x: 40 + 380 * share, y: 215, "text-anchor": "middle" }, percent(share))),
    ...[low, high].map((q) => draw("text", { x: 36, y: y(q) + 4, "text-anchor": "end" }, number(q, 2))),
    draw("text", { x: 230, y: 233, "text-anchor": "middle" }, "rejected share; upwards: mean quality of what is kept"))];
}

/* ---- hands ---- */
choices("cell", data.cells.map((of, index) => [of.title, index]), 0);
find("cell").closest("label").hidden = data.cells.length < 2;
choices("order", [...ORDERS.map(([label], index) => [label, index]), ["by a column", -1]], 0);
find("cell").addEventListener("change", () => { const id = cell.ids[order[at]]; openCell(+find("cell").value); list(cell.ids.indexOf(id)); });
for (const id of ["right", "mass", "length", "method"]) find(id).addEventListener("change", () => list());
find("search").addEventListener("input", () => list());
find("order").addEventListener("change", () => { const [, key, down] = ORDERS[find("order").value] ?? [null, sort.key, sort.down]; sortBy(key, down); });
find("tools").addEventListener("submit", (event) => event.preventDefault());
find("scroll").addEventListener("scroll", () => { if (find("scroll").scrollTop + 2 * find("scroll").clientHeight > find("scroll").scrollHeight) extend(shown + 60); });
addEventListener("hashchange", follow);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = ["INPUT", "SELECT"].includes(event.target.tagName) && event.target.type !== "checkbox";
  if (typing && !(event.target.id === "search" && ["ArrowDown", "ArrowUp", "Enter", "Escape"].includes(event.key))) { if (event.key === "Escape") find("scroll").focus(); return; }
  if (event.target.tagName === "PRE") return;
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
  if (step) pick(at < 0 ? 0 : at + step);
  else if (event.key === "/") { find("search").focus(); find("search").select(); }
  else if (event.key === "Enter" && (typing || event.target.id === "scroll" || event.target === document.body)) find("question").focus();
  else if (event.key === "Escape") find("scroll").focus();
  else return;
  event.preventDefault();
});
addEventListener("pointermove", (event) => {
  const tip = find("tip"), told = event.target.closest?.("[data-tip]")?.dataset.tip;
  tip.hidden = !told;
  if (!told) return;
  tip.textContent = told.length > 600 ? told.slice(0, 600) + "…" : told;
  tip.style.left = Math.max(0, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (event.clientY + 22 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18) + "px";
});
follow();
document.body.dataset.ready = String(Math.round(performance.now()));
})();
