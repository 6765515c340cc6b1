"use strict";
// Shared by all views: the data, colours, drawing helpers, and the one thing that is selected.
const D = JSON.parse(document.getElementById("data").textContent);
const byNumber = new Map(D.steps.map((s, i) => [s.n, i]));
const layerOf = new Map(D.layers.map(l => [l.name, l]));
const $ = id => document.getElementById(id);

// colours that people with any kind of colour vision can tell apart (Okabe and Ito)
const COLOURS = { feature: "#0072b2", read: "#332288", output: "#56b4e9", weights: "#009e73", compute: "#cc79a7", flash: "#d55e00",
  external: "#e69f00", bank: "#8c6bb1", programming: "#7f7f7f", cpu: "#b8860b", hybrid: "#c9a227", none: "#9aa3b2" };
function boundKey(step) {
  if (step.on === "cpu") return "cpu";
  if (step.on === "hybrid") return "hybrid";
  return labelKey(step.bound);
}
function labelKey(bound) {
  const label = (bound || "none").toLowerCase();
  if (label.includes("flash")) return "flash";
  if (label.includes("hyper")) return "external";
  return COLOURS[label] ? label : label.includes("ram") ? "bank" : "none";
}
const colour = step => COLOURS[boundKey(step)];
const KIND_COLOURS = { input: "#009e73", output: "#d55e00", activation: "#56b4e9", scratch: "#cc79a7", constant: "#9aa3b2" };

const format = n => Math.round(n).toLocaleString("en-US");
const bytes = n => n >= 1048576 ? (n / 1048576).toFixed(2) + " MiB" : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
const milliseconds = ms => ms >= 0.1 ? ms.toFixed(2) + " ms" : (1000 * ms).toFixed(1) + " \u00b5s";
const hex = n => "0x" + n.toString(16).padStart(8, "0");
const short = (text, n = 48) => text.length > n ? text.slice(0, n - 1) + "\u2026" : text;

// everything from the model goes in as text nodes and attributes, never as markup
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(c => c != null));
  return node;
}
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter(c => c != null));
  return node;
}

function tip(node, text) {
  const show = event => {
    const box = $("tip");
    box.textContent = typeof text === "function" ? text() : text;
    box.hidden = false;
    const x = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
    const y = event.clientY + 18 + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 10 : event.clientY + 18;
    box.style.left = Math.max(4, x) + "px";
    box.style.top = Math.max(4, y) + "px";
  };
  node.addEventListener("pointermove", show);
  node.addEventListener("pointerdown", show);
  // a finger leaves at once: its tip stays until the next touch
  node.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") $("tip").hidden = true; });
  return node;
}
addEventListener("pointerdown", () => { $("tip").hidden = true; }, { capture: true });
addEventListener("scroll", () => { $("tip").hidden = true; }, { passive: true });

// ---------------------------------------------------------------- what is selected
const listeners = [];
let selected = 0;  // index into D.steps
function select(index, from) {
  if (!D.steps.length) return;
  selected = Math.max(0, Math.min(D.steps.length - 1, index));
  for (const listener of listeners) listener(selected, from);
}
const selectStep = (number, from) => { if (byNumber.has(number)) select(byNumber.get(number), from); };
const onSelect = listener => listeners.push(listener);

function stepText(step) {
  const share = 100 * step.ms / (D.totals.latency_ms || 1);
  return `${step.n}  ${short(step.title, 90)}\n${step.on.toUpperCase()}, ${format(step.cycles)} cycles, ${step.ms.toFixed(3)} ms, ` +
    `${share.toFixed(1)} %\nbound by ${step.bound || "nothing"}${step.known ? "" : " (a guess)"}`;
}
