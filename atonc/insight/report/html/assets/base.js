// Shared by all pages: the data, colours, formats, drawing helpers, words with their tips, tables as CSV.
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

// colours that people with any kind of colour vision can tell apart (Okabe and Ito)
const COLOURS = { feature: "#0072b2", read: "#332288", output: "#56b4e9", weights: "#009e73", products: "#44aa99", compute: "#cc79a7", convolvers: "#0072b2", flash: "#d55e00",
  external: "#e69f00", bank: "#8c6bb1", bus: "#aa4499", programming: "#7f7f7f", cpu: "#b8860b", hybrid: "#c9a227", none: "#9aa3b2" };
const PLACES = { npu: "#0072b2", cpu: "#8a6508", hybrid: "#76529c", none: "#667085" };
function labelKey(bound) {
  const label = (bound || "none").toLowerCase();
  if (label.includes("flash")) return "flash";
  if (label.includes("hyper")) return "external";
  return COLOURS[label] ? label : label.includes("ram") ? "bank" : "none";
}
const boundKey = step => step.on === "cpu" || step.on === "hybrid" ? step.on : labelKey(step.bound);
// labels of the cycle model and places in the words of the glossary
const boundWords = label => D.bottlenecks[label === "external" ? "hyperram" : label.toLowerCase()] || [label];
const bottleneck = label => boundWords(label)[0];
const place = name => ({ npu: "NPU", none: "costs nothing" })[name] || bottleneck(name);
const colour = step => COLOURS[boundKey(step)];

const percent = share => (100 * share).toFixed(1) + "\u00a0%";
const hex = n => "0x" + n.toString(16).padStart(8, "0");
const short = (text, n = 48) => text.length > n ? text.slice(0, n - 1) + "\u2026" : text;
const shapeText = shape => shape && shape.length ? shape.join("\u00d7") : "";
const number = n => n === 0 ? "0" : Math.abs(n) >= 1e9 || Math.abs(n) < 1e-4 ? n.toExponential(3) : Math.abs(n) >= 1e4 ? format(n) : String(+n.toPrecision(5));

// everything from the model goes in as text nodes and attributes, never as markup
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(c => c != null));
  return node;
}
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
// long names break behind their separators, never inside a number
const name = (text, most = 90) => { const parts = short(text, most).split(/(?<=[/;:])|(?<=_)(?=[A-Za-z])/); return el("span", {}, ...parts.flatMap((part, i) => i ? [el("wbr"), part] : [part])); };
// words of headers, legends and tiles say what they mean, to the pointer and to the keyboard
const meaning = word => D.terms[word.toLowerCase()] || "";
const worded = (text, about = meaning(text)) => about ? { "data-tip": about, tabindex: 0 } : {};
const key = (paint, text, about = meaning(text)) => el("span", { class: "key", ...worded(text, about) }, el("i", { style: `background:${paint}` }), text);
const tile = (title, value, said) => el("div", { class: "tile", ...worded(title) }, el("span", {}, title), el("b", {}, value), el("small", {}, said));
// a colour of what bounds an epoch, or of where a layer runs
const boundKeyed = (paint, name) => key(paint, place(name), boundWords(name)[1] || meaning(place(name)));
const heads = (titles, isNumber) => el("tr", {}, ...titles.map((title, i) => el("th", { scope: "col", class: isNumber(i) ? "number" : "", ...worded(title) }, title)));
// text with options of the command line, which never break inside
const coded = text => text.split(/(--[a-z][a-z0-9-]*)/).map((part, i) => i % 2 ? el("code", { class: "option" }, part) : part);
const pairs = rows => el("dl", {}, ...rows.flatMap(([title, value]) => [el("dt", {}, title), el("dd", {}, value)]));
const badge = on => el("span", { class: "badge", style: `background:${PLACES[on] || PLACES.none}` }, on === "none" ? "free" : on.toUpperCase());

function tip(node, text) {
  const show = event => showTip(event, typeof text === "function" ? text() : text);
  node.addEventListener("pointermove", show);
  node.addEventListener("pointerdown", show);
  // a finger leaves at once: its tip stays until the next touch
  node.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") hideTip(); });
  return node;
}

// round values for an axis, at most as many as fit
function ticks(from, to, room) {
  const rough = Math.max(1e-12, to - from) / Math.max(2, room), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= rough), found = [];
  for (let t = Math.ceil(from / step - 1e-9) * step; t <= to + 1e-9 * step; t += step) found.push(t);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

// redraw at the next frame, however often it is asked for
function later(draw) {
  let asked = false;
  return () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } };
}

// epochs that cost nothing are no steps: a buffer lives from the first step at or after its first epoch to the last one
// at or before its last
function firstAt(numbers, n) {
  let low = 0, high = numbers.length;
  while (low < high) { const m = (low + high) >> 1; if (numbers[m] < n) low = m + 1; else high = m; }
  return low;
}
const spanOf = (numbers, first, last) => { const a = firstAt(numbers, first); return [a, Math.max(a, firstAt(numbers, last + 1))]; };

function saveCsv(file, head, rows) {
  const quote = "\u0022", cell = value => { const text = String(value ?? ""); return /[\u0022,\n]/.test(text) ? quote + text.replaceAll(quote, quote + quote) + quote : text; };
  const text = [head, ...rows].map(row => row.map(cell).join(",")).join("\r\n") + "\r\n";
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// What is looked at stands in the address, to be sent to others: #SECTION&key=value&key=value. It is written a moment after
// the last change, since browsers count how often that happens.
const address = (function () {
  const read = () => { const [view, ...rest] = location.hash.slice(1).split("&"); return { view, values: new URLSearchParams(rest.join("&")) }; };
  let state = read(), timer = 0;
  const listeners = [];
  const text = () => { const values = state.values.toString(); return "#" + state.view + (values ? "&" + values : ""); };
  const write = () => { clearTimeout(timer); timer = setTimeout(() => { if (text() !== (location.hash || "#")) history.replaceState(null, "", text()); }, 150); };
  addEventListener("hashchange", () => { state = read(); for (const listener of listeners) listener(); });
  const go = id => { const place = id && $(id); if (place) place.scrollIntoView(); };
  document.addEventListener("click", event => {
    const link = event.target.closest ? event.target.closest("a[href^='#']") : null;
    if (!link) return;
    event.preventDefault();
    const id = link.getAttribute("href").slice(1), place = $(id);
    state.view = id;
    write();
    go(id);
    if (place) { place.setAttribute("tabindex", "-1"); place.focus({ preventScroll: true }); }
  });
  return {
    get: key => state.values.get(key),
    set(key, value) { if (value == null || value === "") state.values.delete(key); else state.values.set(key, value); write(); },
    view(id) { state.view = id; write(); },
    go: () => go(state.view),
    onChange: listener => listeners.push(listener),
  };
})();
const numbersOf = key => { const parts = (address.get(key) || "").split(",").map(Number); return parts.every(Number.isFinite) ? parts : []; };

// Escape closes what was opened last; a slash goes to the search
const closers = [];  // each says whether it had something to close
addEventListener("keydown", event => {
  if (event.key === "Escape" && !event.defaultPrevented && closers.some(close => close())) event.preventDefault();
  if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) && $("search")) { event.preventDefault(); $("search").focus(); }
});
closers.push(() => { const open = document.querySelector("details.chooser[open]"); if (open) { open.open = false; open.firstElementChild.focus(); } return !!open; });
closers.push(() => { const panel = $("detail"), open = panel && panel.classList.contains("open"); if (open) { panel.classList.remove("open"); $("detail-toggle").setAttribute("aria-expanded", false); $("detail-toggle").focus(); } return open; });

// A table whose columns sort and can be chosen. Rows have one height, so that of a long table only those in sight exist;
// printed it has all, each with what `why` says of it.
// columns: { id, title, value, cell, text, kind, width, from }; from: as wide as the window must be, unless people choose
// options: rows; sort, down: by what at first; up: small numbers first; pick, isChosen; hint, why; most: rows on paper; chooser, key: of the choice
const ROW = 31, AHEAD = 10, WHOLE = 160, NEVER = Infinity, ON_PAPER = 1200;
function sortable(table, columns, options) {
  const box = table.parentElement, body = table.tBodies[0], sizes = table.insertBefore(el("colgroup"), table.tHead), key = options.key || "columns";
  let sorted = columns.find(c => c.id === options.sort) || columns[0], down = !!options.down, list = [], from = -1, to = -1, paper = matchMedia("print").matches;
  const asked = () => { const names = (address.get(key) || "").split(",").filter(id => columns.some(c => c.id === id)); return names.length ? new Set(names) : null; };
  let wanted = asked();
  const usual = () => columns.filter(c => (paper ? ON_PAPER : innerWidth) >= c.from);
  const shown = () => wanted ? columns.filter(c => wanted.has(c.id)) : usual();
  const isNumber = c => /number/.test(c.kind || "");

  function head() {
    const now = shown();
    sizes.replaceChildren(...now.map(c => el("col", { style: c.width ? `width:${c.width}px` : "" })));
    table.style.minWidth = now.reduce((sum, c) => sum + (c.width || 120), 0) + "px";
    table.tHead.replaceChildren(el("tr", {}, ...now.map(c => el("th", { scope: "col", class: c.kind || "", "aria-sort": c === sorted ? (down ? "descending" : "ascending") : "none" },
      el("button", { "data-tip": c.about || meaning(c.title), onclick: () => { down = sorted === c ? !down : isNumber(c) && c !== columns[0] && !options.up; sorted = c; draw(); } }, c.title + (c === sorted ? (down ? " \u25be" : " \u25b4") : ""))))));
  }
  // the Tab key stops once, at the row that is chosen; arrow keys go on from there
  const line = (item, place, now, stop) => el("tr", { class: "row" + (options.isChosen && options.isChosen(item) ? " open" : ""), title: options.hint ? options.hint(item) : null, "aria-rowindex": place + 2, "data-place": place, tabindex: options.pick ? (place === stop ? 0 : -1) : null },
    ...now.map(c => el("td", { class: c.kind || "" }, c.cell(item))));
  const space = count => el("tr", { class: "space", "aria-hidden": "true" }, el("td", { style: `height:${count * ROW}px` }));
  function paint(force) {
    const all = paper || list.length <= WHOLE, seen = Math.ceil(box.clientHeight / ROW), first = all ? 0 : Math.max(0, Math.min(list.length - seen, Math.floor(box.scrollTop / ROW)) - AHEAD), last = Math.min(paper && options.most || list.length, all ? list.length : first + seen + 2 * AHEAD);
    if (!force && first === from && last === to) return;
    const now = shown(), stop = options.isChosen ? Math.max(first, list.findIndex(options.isChosen)) : -1, focus = body.contains(document.activeElement) ? document.activeElement.dataset.place : null;
    [from, to] = [first, last];
    const lines = list.slice(first, last).flatMap((item, k) => {
      const why = paper && options.why ? options.why(item) : null;
      return [line(item, first + k, now, stop), ...(why ? [el("tr", { class: "why" }, el("td", { colspan: now.length }, why))] : [])];
    });
    body.replaceChildren(...(first ? [space(first)] : []), ...lines, ...(last < list.length && !paper ? [space(list.length - last)] : []));
    if (focus != null) { const row = body.querySelector(`[data-place="${focus}"]`); if (row) row.focus({ preventScroll: true }); }
  }
  function draw() {
    list = options.rows().sort((a, b) => { const p = sorted.value(a), q = sorted.value(b); return (p < q ? -1 : p > q ? 1 : 0) * (down ? -1 : 1); });
    table.setAttribute("aria-rowcount", list.length + 1);
    if (list.length > WHOLE) table.classList.add("rows");
    head();
    paint(true);
  }
  function goTo(item) {
    const place = list.indexOf(item);
    if (place < 0) return null;
    if (place * ROW < box.scrollTop || (place + 3) * ROW > box.scrollTop + box.clientHeight) box.scrollTop = place * ROW - box.clientHeight / 2;
    paint(true);
    return body.querySelector(`[data-place="${place}"]`);
  }
  const itemOf = event => { const row = event.target.closest("tr.row"); return row ? list[+row.dataset.place] : null; };
  if (options.pick) {
    body.addEventListener("click", event => { const item = itemOf(event); if (item) options.pick(item, true); });
    body.addEventListener("keydown", event => {
      const item = itemOf(event), step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (!item) return;
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); options.pick(item, true); }
      if (!step) return;
      event.preventDefault();
      const next = list[Math.max(0, Math.min(list.length - 1, list.indexOf(item) + step))];
      options.pick(next, false);
      const row = goTo(next);
      if (row) row.focus({ preventScroll: true });
    });
  }
  if (options.chooser) {
    const boxes = el("div", {}), offer = () => boxes.replaceChildren(...columns.map(c => el("label", {}, el("input", { type: "checkbox", checked: shown().includes(c), onchange: event => choose(c, event.target.checked) }), c.title)),
      el("button", { onclick: () => { wanted = null; address.set(key, null); offer(); draw(); } }, "Usual ones"));
    const choose = (c, on) => { wanted = new Set(columns.filter(d => d === c ? on : shown().includes(d)).map(d => d.id)); if (!wanted.size) wanted.add(columns[0].id); address.set(key, [...wanted].join(",")); draw(); };
    options.chooser.append(el("summary", {}, "Columns"), boxes);
    options.chooser.addEventListener("toggle", offer);
  }
  box.addEventListener("scroll", later(() => paint(false)), { passive: true });
  addEventListener("resize", later(() => { head(); paint(true); }));
  const print = on => { if (paper !== on) { paper = on; draw(); } };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", event => print(event.matches));
  address.onChange(() => { wanted = asked(); draw(); });
  draw();
  return { draw, goTo, redraw: () => paint(true), csv: file => saveCsv(file, columns.map(c => c.title), list.map(item => columns.map(c => (c.text || c.value)(item)))) };
}

// axes of a plot: titles, round ticks, a faint line for each
function axes(picture, area, x, y) {
  const { left, top, right, bottom } = area, faint = { class: "axis" };
  for (const t of x.ticks) picture.append(svg("line", { x1: x.at(t), x2: x.at(t), y1: top, y2: bottom, ...faint }), svg("text", { x: x.at(t), y: bottom + 16, "text-anchor": "middle", class: "soft" }, x.text(t)));
  for (const t of y.ticks) picture.append(svg("line", { x1: left, x2: right, y1: y.at(t), y2: y.at(t), ...faint }), svg("text", { x: left - 6, y: y.at(t) + 4, "text-anchor": "end", class: "soft" }, y.text(t)));
  picture.append(svg("text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, x.title), svg("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)` }, y.title));
}
// powers of ten in a range, with 2 and 5 between them where there are few
function decades(low, high) {
  const found = [], many = Math.log10(high / low) > 2.2;
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++) for (const k of many ? [1] : [1, 2, 5]) { const v = k * 10 ** p; if (v >= low * 0.999 && v <= high * 1.001) found.push(v); }
  return found;
}
