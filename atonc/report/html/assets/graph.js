// The model as a graph: a row per distance from the input, coloured by where a layer runs.
(function () {
  const host = $("graph-plot"), W = 166, H = 34, GAP_X = 14, GAP_Y = 22;
  const FILL = { npu: "#0072b2", cpu: "#8a6508", hybrid: "#76529c", none: "#667085" };
  const producer = new Map();
  D.layers.forEach((layer, i) => layer.outputs.forEach(name => producer.set(name, i)));
  const rank = [], rows = [];
  D.layers.forEach((layer, i) => {
    const before = layer.inputs.map(name => producer.get(name)).filter(p => p !== undefined && p < i);
    // without known inputs: behind the layer before, as it runs
    rank[i] = before.length ? 1 + Math.max(...before.map(p => rank[p])) : i && !layer.inputs.length ? rank[i - 1] + 1 : 0;
    (rows[rank[i]] = rows[rank[i]] || []).push(i);
  });
  const widest = Math.max(1, ...rows.map(row => row.length)), width = widest * (W + GAP_X) + GAP_X, height = rows.length * (H + GAP_Y) + GAP_Y;
  const place = [];
  rows.forEach((row, r) => row.forEach((layer, k) => {
    place[layer] = { x: (width - row.length * (W + GAP_X)) / 2 + k * (W + GAP_X) + GAP_X / 2, y: GAP_Y + r * (H + GAP_Y) };
  }));

  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "layers from input to output" });
  D.layers.forEach((layer, i) => layer.inputs.forEach(name => {
    const p = producer.get(name);
    if (p === undefined || p >= i) return;
    const a = place[p], b = place[i], x1 = a.x + W / 2, x2 = b.x + W / 2, y1 = a.y + H, y2 = b.y, bend = Math.min(40, (y2 - y1) / 2);
    picture.append(svg("path", { d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, fill: "none", stroke: "var(--soft)", "stroke-width": 1, opacity: 0.6 }));
  }));
  const boxes = D.layers.map((layer, i) => {
    const { x, y } = place[i], box = svg("rect", { x, y, width: W, height: H, rx: 5, fill: FILL[layer.on] || FILL.none });
    const group = svg("g", { class: "mark", onclick: () => layer.epochs.length && selectStep(layer.epochs[0], "graph") }, box,
      svg("text", { x: x + 7, y: y + 14, style: "fill:#fff;font-weight:600" }, short(layer.op, 20)), svg("text", { x: x + 7, y: y + 27, style: "fill:#fff" }, short(layer.nodes[layer.nodes.length - 1], 22)));
    picture.append(tip(group, `${layer.op} ${layer.nodes.join(", ")}\n${layer.on.toUpperCase()}, ${format(layer.cycles)} cycles` + (layer.macs ? `, ${layer.macs_per_cycle.toFixed(1)} MAC/cycle` : "") +
      layer.decisions.slice(0, 2).map(d => `\n${d.rule}: ${d.seen}`).join("")));
    return box;
  });
  host.append(picture);
  for (const on of Object.keys(FILL)) if (D.layers.some(l => l.on === on)) $("graph-legend").append(el("span", { class: "key" }, el("i", { style: `background:${FILL[on]}` }), on === "none" ? "costs nothing" : on.toUpperCase()));
  const names = new Map(D.layers.map((layer, i) => [layer.name, i]));
  onSelect((index, from) => {
    const chosen = names.get(D.steps[index].layer);
    boxes.forEach((box, i) => box.classList.toggle("chosen", i === chosen));
    if (chosen === undefined || from === "graph") return;
    host.scrollTo({ top: place[chosen].y - host.clientHeight / 2, left: place[chosen].x + W / 2 - host.clientWidth / 2 });
  });
})();
