"use strict";
// Shared by all pages: the data, colours, formats, drawing helpers, tips, tables as CSV.
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
const colour = step => COLOURS[boundKey(step)];

const grouped = new Intl.NumberFormat("en-US"), format = n => grouped.format(Math.round(n));
const bytes = n => n >= 1048576 ? (n / 1048576).toFixed(2) + "\u00a0MiB" : n >= 1024 ? (n / 1024).toFixed(1) + "\u00a0KiB" : n + "\u00a0B";
const milliseconds = ms => ms >= 0.1 ? ms.toFixed(2) + "\u00a0ms" : (1000 * ms).toFixed(1) + "\u00a0\u00b5s";
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
const key = (paint, text) => el("span", { class: "key" }, el("i", { style: `background:${paint}` }), text);
const pairs = rows => el("dl", {}, ...rows.flatMap(([title, value]) => [el("dt", {}, title), el("dd", {}, value)]));
const badge = on => el("span", { class: "badge", style: `background:${PLACES[on] || PLACES.none}` }, on === "none" ? "free" : on.toUpperCase());

function showTip(event, text) {
  const box = $("tip");
  box.textContent = text;
  box.hidden = false;
  const x = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
  const y = event.clientY + 18 + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 10 : event.clientY + 18;
  box.style.left = Math.max(4, x) + "px";
  box.style.top = Math.max(4, y) + "px";
}
const hideTip = () => { $("tip").hidden = true; };
function tip(node, text) {
  const show = event => showTip(event, typeof text === "function" ? text() : text);
  node.addEventListener("pointermove", show);
  node.addEventListener("pointerdown", show);
  // a finger leaves at once: its tip stays until the next touch
  node.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") hideTip(); });
  return node;
}
addEventListener("pointerdown", hideTip, { capture: true });
addEventListener("scroll", hideTip, { passive: true });

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
  const cell = value => { const text = String(value ?? ""); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  const text = [head, ...rows].map(row => row.map(cell).join(",")).join("\r\n") + "\r\n";
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// a table whose columns sort: [title, value, class, cell, text for CSV]
function sortable(table, columns, rowsOf, rowOf, start = 0) {
  let sorted = start, down = false;
  function head() {
    table.tHead.replaceChildren(el("tr", {}, ...columns.map(([title, , kind], i) => el("th", { class: kind || "", "aria-sort": i === sorted ? (down ? "descending" : "ascending") : "none" },
      el("button", { onclick: () => { down = sorted === i ? !down : /number/.test(kind || "") && i > 0; sorted = i; head(); body(); } }, title + (i === sorted ? (down ? " \u25be" : " \u25b4") : ""))))));
  }
  function rows() {
    const value = columns[sorted][1];
    return rowsOf().sort((a, b) => { const p = value(a), q = value(b); return (p < q ? -1 : p > q ? 1 : 0) * (down ? -1 : 1); });
  }
  // what fits a few screens at once, the rest when there is time
  let turn = 0;
  const idle = self.requestIdleCallback || (act => setTimeout(act, 30));
  function body() {
    const list = rows(), mine = ++turn, part = (from, to) => list.slice(from, to).map(item => rowOf(item, columns.map(([, , kind, cell]) => el("td", { class: kind || "" }, cell(item)))));
    table.tBodies[0].replaceChildren(...part(0, 300));
    const more = from => idle(() => { if (mine === turn && from < list.length) { table.tBodies[0].append(...part(from, from + 150)); more(from + 150); } });
    more(300);
  }
  head();
  return { body, csv: file => saveCsv(file, columns.map(c => c[0]), rows().map(item => columns.map(c => (c[4] || c[1])(item)))) };
}
