// One network: its steps in time, the layer and epoch that are selected, the part of the time that is shown.
const byNumber = new Map(D.steps.map((s, i) => [s.n, i]));
const layerOf = new Map(D.layers.map((l, i) => [l.name, i]));
const LEFT = 84, RIGHT = 10;  // of the plots over time, so that they stand below each other
const starts = [];
let total = 0;
for (const step of D.steps) { starts.push(total); total += step.ms; }
total = total || 1;
starts.push(total);

// what is selected: a layer, and one of its epochs if it has any
const listeners = [];
let selected = 0, chosen = -1;  // index into D.steps, into D.layers
const SECTIONS = { graph: "graph", search: "graph", table: "layers", timeline: "timeline", memory: "memory", roofline: "roofline", lost: "lost" };  // where a selection was made
function tell(from) {
  for (const listener of listeners) listener(selected, from);
  if (from === "start" || from === "address") return;
  if (SECTIONS[from]) address.view(SECTIONS[from]);
  address.set("layer", chosen >= 0 ? D.layers[chosen].name : null);
  address.set("epoch", chosen >= 0 && D.layers[chosen].epochs.length > 1 ? D.steps[selected].n : null);
}
function select(index, from) {
  if (!D.steps.length) return;
  selected = Math.max(0, Math.min(D.steps.length - 1, index));
  chosen = layerOf.get(D.steps[selected].layer) ?? -1;
  tell(from);
}
function selectLayer(index, from) {
  const layer = D.layers[index];
  if (!layer) return;
  const first = layer.epochs.length ? byNumber.get(layer.epochs[0]) : undefined;
  if (first !== undefined && (D.steps[selected] || {}).layer !== layer.name) selected = first;
  chosen = index;
  tell(from);
}
const onSelect = listener => listeners.push(listener);

// the part of the time that timeline and memory show
const shown = { from: 0, to: total }, watchers = [];
function show(from, to) {
  const span = Math.min(total, Math.max(total / 5000, to - from));
  shown.from = Math.max(0, Math.min(total - span, from));
  shown.to = shown.from + span;
  address.set("time", span < total ? `${shown.from.toFixed(5)},${shown.to.toFixed(5)}` : null);
  for (const watcher of watchers) watcher();
}
const onShow = watcher => watchers.push(watcher);
const stepAt = ms => { let low = 0, high = D.steps.length - 1; while (low < high) { const m = (low + high + 1) >> 1; if (starts[m] <= ms) low = m; else high = m - 1; } return low; };

const elements = layer => layer.weights.reduce((sum, w) => sum + w.shape.reduce((a, b) => a * b, 1), 0);
const share = layer => layer.milliseconds / (D.totals.latency_ms || 1);
const epochText = layer => !layer.epochs.length ? "" : layer.epochs.length === 1 ? String(layer.epochs[0]) : `${layer.epochs[0]}\u2013${layer.epochs[layer.epochs.length - 1]}`;
function stepText(step) {
  return `${step.n}  ${short(step.title, 90)}\n${step.on.toUpperCase()}, ${format(step.cycles)} cycles, ${step.ms.toFixed(3)} ms, ` +
    `${percent(step.ms / (D.totals.latency_ms || 1))}\nbottleneck: ${step.bound ? bottleneck(step.bound) : "none"}${step.known ? "" : " (rough estimate)"}${step.chains.map(chain => "\n" + short(chain, 90)).join("")}`;
}

// buffers, one for every memory, and the bytes that live in each step
const KIND_COLOURS = { input: "#009e73", output: "#d55e00", activation: "#56b4e9", scratch: "#cc79a7", resident: "#e69f00", prefetched: "#f0e442", constant: "#9aa3b2" };
const epochs = D.steps.map(s => s.n), lifetime = buffer => spanOf(epochs, buffer.first, buffer.last);
const moving = D.buffers.filter(b => b.kind !== "constant" && b.size > 0);
const live = D.live;
const ramText = Object.entries(D.totals.ram_by_use).map(([use, size]) => `${use} ${bytes(size)}`).join(", ");

// what a board took for a layer, where blocks and layers meet
function measuredOf(layer) {
  if (!D.measured || !layer.epochs.length) return null;
  const own = new Set(layer.epochs), inside = D.measured.blocks.filter(b => own.has(b.first) && own.has(b.last));
  const covered = inside.reduce((sum, b) => sum + layer.epochs.filter(n => n >= b.first && n <= b.last).length, 0);
  return covered === layer.epochs.length ? inside.reduce((sum, b) => sum + b.ms, 0) : null;
}
