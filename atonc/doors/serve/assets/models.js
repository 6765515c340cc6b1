// Builds side by side: a table, and latency against RAM.

import { $, band, bytes, h, ms, put, s, save } from "./dom.js";
import { chips, ramOf, verdict } from "./parts.js";
import { newestFirst, select, selected } from "./state.js";

const LEFT = 78, RIGHT = 20, TOP = 16, BOTTOM = 46;
let WIDTH = 1100, HEIGHT = 430; // as wide as the window allows
let order = { key: "latency_ms", down: false };
let words = "";

const cosine = (found) => (found.verify ? Math.min(...found.verify.outputs.map((output) => output.cos)) : NaN);
const COLUMNS = [
  ["title", "model", (job) => job.title, null],
  ["latency_ms", "latency", (job) => job.summary.latency_ms, ms],
  ["latency_high_ms", "may be", (job) => job.summary.latency_high_ms, (_, job) => band(job.summary)],
  ["ram_bytes", "RAM", (job) => ramOf(job.summary), bytes],
  ["weights_bytes", "weights", (job) => job.summary.weights_bytes, bytes],
  ["spilled_bytes", "outside the chip", (job) => job.summary.spilled_bytes, (value) => (value ? bytes(value) : "–")],
  ["npu", "NPU epochs", (job) => job.summary.epochs.npu, String],
  ["cpu", "CPU epochs", (job) => job.summary.epochs.cpu, String],
  ["macs", "M mult.", (job) => job.summary.macs / 1e6, (value) => value.toFixed(1)],
  ["cosine", "cosine", (job) => cosine(job.summary), (value) => (Number.isNaN(value) ? "–" : value.toFixed(5))],
  ["number", "build", (job) => job.number, (value) => `#${value}`],
];

function chosen() {
  const done = newestFirst().filter((job) => job.state === "done" && job.verb === "generate" && (!selected.size || selected.has(job.id)));
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (job) => `${job.title} ${job.command} #${job.number}`.toLowerCase();
  return done.filter((job) => wanted.every((word) => text(job).includes(word)));
}

export function draw() {
  const search = h("input", { type: "search", placeholder: "Only models with these words", "aria-label": "Filter models", value: words,
    oninput: (event) => { words = event.target.value; fill(); } });
  const clear = selected.size ? h("button", { type: "button", onclick: () => { selected.forEach((id) => select(id, false)); draw(); } }, `Only ${selected.size} selected; show all`) : null;
  put(
    $("models"),
    h("div.head", {}, h("div.grow", {}, h("h1", {}, "Side by side"))),
    h("div.tools", {}, search, clear, h("button", { type: "button", onclick: csv }, "Save as CSV")),
    h("section.card", {}, h("h2", {}, "Latency against RAM"), h("div.plot", { id: "scatter" }), legend()),
    h("section.card.scroll", { id: "models-table", tabindex: 0, role: "region", "aria-label": "All builds" }),
  );
  fill();
}

function legend() {
  return h("p.legend", {}, h("span", {}, h("i"), "all activations on the chip"), h("span", {}, h("i.spilled"), "some outside"),
    h("span", {}, h("i.line"), "no other build of the model is both faster and smaller"));
}

export function fill() {
  const rows = chosen();
  put($("scatter"), rows.length ? scatter(rows) : h("p.hint", {}, "No build is done yet."));
  put($("models-table"), table(rows));
}

function sorted(rows) {
  const read = COLUMNS.find(([key]) => key === order.key)[2];
  const way = order.down ? -1 : 1;
  return [...rows].sort((a, b) => way * (read(a) < read(b) ? -1 : read(a) > read(b) ? 1 : b.number - a.number));
}

function table(rows) {
  const heads = COLUMNS.map(([key, name, , format]) => {
    const here = order.key === key;
    const turn = () => { order = { key, down: here && !order.down }; fill(); };
    return h(format ? "th.number" : "th", { "aria-sort": here ? (order.down ? "descending" : "ascending") : null }, h("button", { type: "button", onclick: turn }, name));
  });
  return h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, ""), heads)), h("tbody", {}, sorted(rows).map(line)));
}

function line(job) {
  const pick = h("input", { type: "checkbox", checked: selected.has(job.id), "aria-label": `Select build ${job.number}`, onchange: (event) => select(job.id, event.target.checked) });
  const cells = COLUMNS.slice(1).map(([, , read, format]) => h("td.number", {}, format(read(job), job)));
  return h("tr", {}, h("td", {}, pick), h("td.name", {}, h("a", { href: `#/build/${job.id}` }, job.title), " ", verdict(job), " ", chips(job)), cells);
}

function csv() {
  const quoted = (value) => { const text = String(value); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  const safe = (value) => (typeof value === "string" && /^[=+\-@]/.test(value) ? `'${value}` : value);
  const rows = sorted(chosen()).map((job) => [...COLUMNS.map(([, , read]) => safe(read(job))), safe(job.command), job.sha256]);
  const all = [[...COLUMNS.map(([key]) => key), "command", "sha256"], ...rows];
  save("builds.csv", all.map((row) => row.map(quoted).join(",")).join("\n") + "\n", "text/csv");
}

// ---------------------------------------------------------------------------------------------------------- scatter

function axis(values, from, to, base) {
  let low = Math.log10(Math.min(...values)), high = Math.log10(Math.max(...values));
  const room = Math.max(0.12 * (high - low), 0.15);
  [low, high] = [low - room, high + room];
  const at = (value) => from + ((Math.log10(value) - low) / (high - low)) * (to - from);
  // RAM in steps of 2 or 4 or 16, time in steps of 10 with or without 2 and 5 between
  const steps = high - low > 2.5 ? [1] : [1, 2, 5];
  const span = base === 2 ? [1, 2, 4].find((power) => (high - low) / (power * Math.log10(2)) * 80 < to - from) || 4 : 0;
  const ticks = [];
  for (let power = -30; power <= 30; power += 1)
    if (base === 2) power % span === 0 && ticks.push(2 ** power);
    else steps.forEach((step) => ticks.push(step * 10 ** power));
  return { at, ticks: ticks.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high) };
}

function scatter(rows) {
  const ram = (job) => Math.max(ramOf(job.summary), 1) / 1024;
  const time = (job) => Math.max(job.summary.latency_ms, 1e-4);
  WIDTH = Math.max(300, $("scatter").clientWidth);
  HEIGHT = WIDTH < 700 ? 330 : 430;
  const x = axis(rows.map(ram), LEFT, WIDTH - RIGHT, 2), y = axis(rows.map(time), HEIGHT - BOTTOM, TOP, 10);
  const short = (value) => (value >= 1024 ? `${Number((value / 1024).toPrecision(3))} MiB` : `${Number(value.toPrecision(3))} KiB`);
  const grid = [
    ...x.ticks.map((value) => [s("line.grid", { x1: x.at(value), x2: x.at(value), y1: TOP, y2: HEIGHT - BOTTOM }), s("text.soft", { x: x.at(value), y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, short(value))]),
    ...y.ticks.map((value) => [s("line.grid", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(value), y2: y.at(value) }), s("text.soft", { x: LEFT - 8, y: y.at(value) + 4, "text-anchor": "end" }, `${Number(value.toPrecision(2))} ms`)]),
  ];
  const titles = [s("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "RAM"),
    s("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(12 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)` }, "predicted latency")];
  const points = rows.map((job) => ({ job, x: x.at(ram(job)), y: y.at(time(job)) }));
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, height: HEIGHT, role: "group", "aria-label": "Latency against RAM" }, grid, titles, fronts(points), points.map(mark), labels(points));
}

// one for each model: another one is no rival
function fronts(points) {
  const titles = [...new Set(points.map(({ job }) => job.title))];
  return titles.map((title) => front(points.filter(({ job }) => job.title === title)));
}

function front(points) {
  const found = [];
  for (const point of [...points].sort((a, b) => a.x - b.x || b.y - a.y))
    if (!found.length || point.y > found[found.length - 1].y + 0.01) found.push(point);
  if (found.length < 2) return null;
  const path = found.map((point, k) => (k ? `H${point.x} V${point.y}` : `M${point.x} ${point.y}`)).join(" ");
  return s("path.front", { d: path });
}

function mark({ job, x, y }) {
  const kind = job.summary.spilled_bytes ? "circle.point.spilled" : "circle.point";
  const title = `${job.title} #${job.number}\n${ms(job.summary.latency_ms)} (${band(job.summary)}), ${bytes(ramOf(job.summary))} RAM`;
  return s("a", { href: `#/build/${job.id}`, "aria-label": title }, s(kind, { cx: x, cy: y, r: 7 }, s("title", {}, title)));
}

// a name is written where it meets no other name and no point
function labels(points) {
  const taken = points.map(({ x, y }) => [x - 8, y - 8, x + 8, y + 8]);
  const free = (box) => taken.every(([a, b, c, d]) => box[2] < a || box[0] > c || box[3] < b || box[1] > d);
  return points.map(({ job, x, y }) => {
    const most = WIDTH < 700 ? 18 : 34;
    const text = job.title.length > most ? `${job.title.slice(0, most - 2)}…` : job.title;
    const width = 7 * text.length;
    for (const [from, base] of [[x + 12, y + 4], [x - 12 - width, y + 4], [x - width / 2, y - 13], [x - width / 2, y + 22]]) {
      const box = [from, base - 11, from + width, base + 3];
      if (box[0] < LEFT || box[2] > WIDTH - 4 || box[1] < TOP || box[3] > HEIGHT - BOTTOM || !free(box)) continue;
      taken.push(box);
      return s("text", { x: from, y: base }, text);
    }
    return null;
  });
}
