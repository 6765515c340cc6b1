// The model as a graph on a canvas: places come with the data, so that panning only draws what is in sight.
(function () {
  const G = D.graph, H = G.box, host = $("graph-plot"), canvas = $("graph-canvas"), map = $("graph-map"), pen = canvas.getContext("2d", { alpha: false });
  const boxOf = new Map(G.boxes.map((b, i) => [b[3], i]));
  const firstPoint = 3;  // of an edge: upper box, lower box, tensor, then the line
  const view = { scale: 1, x: 0, y: 0, width: 0, height: 0 };  // a point p of the graph is at p * scale + (x, y)
  let ink = {}, paints = [], matches = null, mode = D.pending ? "weights" : "place", fitted = false;

  // ------------------------------------------------------------ what boxes say
  const cut = (text, width, size) => short(text, Math.max(4, Math.floor((width - 14) / size)));
  const words = G.boxes.map(([, , width, what]) => {
    if (what < 0) { const t = D.tensors[-1 - what]; return [D.inputs.includes(-1 - what) ? "input" : "output", cut(t.name, width, 6.1), cut(`${shapeText(t.shape)} ${t.type}`, width, 5.8)]; }
    const layer = D.layers[what], [kernel, bias] = layer.weights, also = layer.attributes.activation ? ` + ${layer.attributes.activation}` : "";
    const held = kernel ? [`W ${shapeText(kernel.shape)}${bias ? `  B ${shapeText(bias.shape)}` : ""}`] : [];
    return [cut(layer.label + also, width, 6.9), cut(layer.name, width, 6.1), ...held.map(text => cut(text, width, 5.8)), D.pending ? cut(`${shapeText(layer.shape)} ${D.tensors[layer.outputs[0]].type}`, width, 5.8) : layer.epochs.length ? `${milliseconds(layer.milliseconds)}  ${percent(share(layer))}` : "costs nothing"];
  });
  const far = G.boxes.map(([, , width, what], i) => short(what < 0 ? words[i][0] : D.layers[what].label.replace("depthwise conv", "dw conv"), Math.max(4, Math.floor((width - 8) / 11))));
  const edgeWords = G.edges.map(edge => shapeText(D.tensors[edge[2]].shape));
  const touching = G.boxes.map(() => []);
  G.edges.forEach((edge, i) => { touching[edge[0]].push(i); touching[edge[1]].push(i); });
  const reach = G.edges.map(edge => [edge[firstPoint + 1], edge[edge.length - 1]]);  // top and bottom

  // ------------------------------------------------------------ colours
  const weightsOf = layer => D.pending ? elements(layer) : D.buffers.reduce((sum, b) => b.kind === "constant" && b.layer === layer.name ? sum + b.size : sum, 0);
  const liveOf = layer => Math.max(0, ...layer.epochs.map(n => live[byNumber.get(n)] || 0));
  const MODES = D.pending ? { weights: { title: "weights", value: weightsOf, text: n => `${format(n)} values` } } : {
    place: { title: "where it runs" },
    bound: { title: "bottleneck" },
    time: { title: "time", value: l => l.milliseconds, text: milliseconds },
    memory: { title: "live memory", value: liveOf, text: bytes },
    weights: { title: "weights", value: weightsOf, text: bytes },
  };
  if (D.layers.some(l => l.error)) MODES.error = { title: "error", value: l => l.error ? l.error[1] : 0, text: v => `${v.toFixed(v < 1 ? 2 : 1)} % of the values differ` };
  const RAMP = [[255, 247, 214], [254, 204, 92], [253, 141, 60], [227, 26, 28], [110, 0, 38]];
  function ramp(share) {
    const at = Math.max(0, Math.min(1, share)) * (RAMP.length - 1), low = Math.min(RAMP.length - 2, Math.floor(at)), part = at - low;
    return `rgb(${RAMP[low].map((c, i) => Math.round(c + (RAMP[low + 1][i] - c) * part)).join()})`;
  }
  function paint() {
    const { value, text } = MODES[mode], legend = $("graph-legend"), values = value ? D.layers.map(value) : [], most = Math.max(0, ...values);
    paints = G.boxes.map(([, , , what]) => {
      if (what < 0) return ["#5b6577", "#fff"];
      const layer = D.layers[what];
      if (!value) return [mode === "place" ? PLACES[layer.on] || PLACES.none : COLOURS[layer.on === "npu" ? labelKey(Object.keys(layer.bound_by)[0]) : layer.on === "none" ? "none" : "cpu"], mode === "place" ? "#fff" : "#10131a"];
      const part = most ? Math.sqrt(values[what] / most) : 0;
      return [ramp(part), part > 0.62 ? "#fff" : "#10131a"];
    });
    if (value) legend.replaceChildren(el("span", { class: "ramp" }), key("none", `none to ${text(most)}`, `colour by ${MODES[mode].title}, from none to the largest of all layers`));
    else legend.replaceChildren(...[...new Set(D.layers.map(l => mode === "place" ? l.on : l.on === "npu" ? labelKey(Object.keys(l.bound_by)[0]) : l.on === "none" ? "none" : "cpu"))]
      .map(name => boundKeyed(mode === "place" ? PLACES[name] || PLACES.none : COLOURS[name], name)));
    host.dataset.mode = mode;
    drawMap();
  }

  // ------------------------------------------------------------ drawing
  function line(path, edge) {
    path.moveTo(edge[firstPoint], edge[firstPoint + 1]);
    for (let k = firstPoint + 2; k < edge.length; k += 2) {
      const x0 = edge[k - 2], y0 = edge[k - 1], x1 = edge[k], y1 = edge[k + 1], bend = (y1 - y0) / 2;
      if (x0 === x1) path.lineTo(x1, y1); else path.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
    }
  }
  const around = index => new Set(index < 0 ? [] : touching[boxOf.get(index)] || []);
  function draw() {
    const ratio = devicePixelRatio || 1, { scale, x, y, width, height } = view, top = -y / scale, bottom = (height - y) / scale, left = -x / scale, right = (width - x) / scale;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = ink.back;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.setTransform(scale * ratio, 0, 0, scale * ratio, x * ratio, y * ratio);
    const lit = around(chosen), seen = [];
    pen.lineWidth = Math.max(1.2, 0.7 / scale);
    pen.strokeStyle = ink.soft;
    pen.globalAlpha = matches ? 0.3 : 0.75;
    pen.beginPath();
    for (let i = 0; i < G.edges.length; i++) if (reach[i][0] < bottom && reach[i][1] > top) { if (!lit.has(i)) line(pen, G.edges[i]); seen.push(i); }
    pen.stroke();
    pen.globalAlpha = 1;
    pen.strokeStyle = ink.accent;
    pen.lineWidth = Math.max(2.6, 1.6 / scale);
    pen.beginPath();
    for (const i of lit) line(pen, G.edges[i]);
    pen.stroke();
    const readable = scale >= 0.42;
    for (let i = 0; i < G.boxes.length; i++) {
      const [bx, by, bw] = G.boxes[i];
      if (by > bottom || by + H < top || bx > right || bx + bw < left) continue;
      box(i, bx, by, bw, readable);
    }
    if (scale >= 0.55) labels(seen, top, bottom);
    Object.assign(host.dataset, { scale: scale.toFixed(3), x: Math.round(x), y: Math.round(y) });
    frame();
  }
  function box(i, x, y, width, readable) {
    const [back, fore] = paints[i], what = G.boxes[i][3], dim = matches && !matches.has(i);
    pen.globalAlpha = dim ? 0.25 : 1;
    pen.fillStyle = back;
    if (readable) { pen.beginPath(); pen.roundRect(x, y, width, H, what < 0 ? 16 : 7); pen.fill(); } else pen.fillRect(x, y, width, H);
    if (what === chosen && what >= 0 || matches && matches.has(i)) {
      pen.strokeStyle = what === chosen ? ink.ink : ink.found;
      pen.lineWidth = Math.max(3, 2 / view.scale);
      pen.strokeRect(x - 2, y - 2, width + 4, H + 4);
    }
    if (!readable && view.scale >= 0.24) {  // from further away the operator alone
      pen.fillStyle = fore;
      pen.font = "600 19px system-ui, sans-serif";
      pen.fillText(far[i], x + 7, y + H / 2 + 7);
    }
    if (readable) {
      const lines = words[i], first = y + H / 2 - 7.5 * lines.length + 12;
      pen.fillStyle = fore;
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillText(lines[0], x + 8, first);
      pen.font = "11px system-ui, sans-serif";
      for (let k = 1; k < lines.length; k++) pen.fillText(lines[k], x + 8, first + 15 * k);
    }
    pen.globalAlpha = 1;
  }
  // the shape of a tensor stands where it leaves its box, once for all edges
  function labels(seen, top, bottom) {
    const said = new Set();
    pen.font = "10.5px system-ui, sans-serif";
    for (const i of seen) {
      const edge = G.edges[i], x = edge[firstPoint], y = edge[firstPoint + 1] + 14, where = `${edge[0]} ${edge[2]}`;
      if (said.has(where) || y < top - 20 || y > bottom + 20 || !edgeWords[i]) continue;
      said.add(where);
      const width = pen.measureText(edgeWords[i]).width;
      pen.globalAlpha = 0.85;
      pen.fillStyle = ink.back;
      pen.fillRect(x + 4, y - 9, width + 4, 13);
      pen.globalAlpha = 1;
      pen.fillStyle = ink.soft;
      pen.fillText(edgeWords[i], x + 6, y + 1);
    }
  }

  // ------------------------------------------------------------ the map beside it: the whole graph, and what is in sight
  let whole = null;
  function drawMap() {
    const ratio = devicePixelRatio || 1, width = map.clientWidth, height = map.clientHeight;
    if (!width || !height) return;
    map.width = width * ratio; map.height = height * ratio;
    whole = document.createElement("canvas");
    whole.width = map.width; whole.height = map.height;
    const small = whole.getContext("2d");
    small.fillStyle = ink.card;
    small.fillRect(0, 0, whole.width, whole.height);
    const sx = whole.width / G.w, sy = whole.height / G.h;
    G.boxes.forEach(([x, y, w], i) => { small.fillStyle = paints[i][0]; small.globalAlpha = matches && !matches.has(i) ? 0.25 : 1; small.fillRect(x * sx, y * sy, Math.max(2, w * sx), Math.max(1.5, H * sy)); });
  }
  function frame() {
    if (!whole || !whole.width) return;
    const small = map.getContext("2d"), sx = map.width / G.w, sy = map.height / G.h, { scale, x, y, width, height } = view;
    small.drawImage(whole, 0, 0);
    const at = boxOf.get(chosen);
    if (at !== undefined) { small.fillStyle = ink.ink; small.fillRect(0, G.boxes[at][1] * sy - 1, map.width, 3); }
    small.strokeStyle = ink.accent;
    small.lineWidth = 2 * (devicePixelRatio || 1);
    const left = Math.max(0, -x / scale * sx), top = Math.max(0, -y / scale * sy);
    small.strokeRect(left + 1, top + 1, Math.min(map.width - left, width / scale * sx) - 2, Math.max(5, Math.min(map.height - top, height / scale * sy) - 2));
  }

  // ------------------------------------------------------------ moving
  const redraw = later(draw);
  function bound() {  // some of the graph stays in sight
    const margin = 60;
    view.x = Math.max(margin - G.w * view.scale, Math.min(view.width - margin, view.x));
    view.y = Math.max(margin - G.h * view.scale, Math.min(view.height - margin, view.y));
  }
  function zoom(factor, px = view.width / 2, py = view.height / 2) {
    const least = Math.min(0.3, 0.9 * Math.min(view.width / G.w, view.height / G.h)), scale = Math.max(least, Math.min(3, view.scale * factor)), real = scale / view.scale;
    Object.assign(view, { scale, x: px - (px - view.x) * real, y: py - (py - view.y) * real });
    bound();
    redraw();
  }
  function fit() {
    const scale = Math.max(0.004, Math.min(1.2, 0.96 * Math.min(view.width / G.w, view.height / G.h)));
    Object.assign(view, { scale, x: (view.width - G.w * scale) / 2, y: (view.height - G.h * scale) / 2 });
    redraw();
  }
  function centre(index) {
    const [x, y, width] = G.boxes[index];
    Object.assign(view, { x: view.width / 2 - (x + width / 2) * view.scale, y: view.height / 2 - (y + H / 2) * view.scale });
    redraw();
  }
  function inSight(index) {
    const [x, y, width] = G.boxes[index], a = x * view.scale + view.x, b = y * view.scale + view.y;
    return a > 0 && b > 0 && a + width * view.scale < view.width && b + H * view.scale < view.height;
  }
  function size() {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    if (fitted) { view.x += (width - view.width) / 2; view.y += (height - view.height) / 2; }
    Object.assign(view, { width, height });
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    drawMap();
    redraw();
  }
  function colours() {
    const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue(name).trim();
    ink = { ink: of("--ink"), soft: of("--soft"), back: of("--back"), card: of("--card"), accent: of("--accent"), found: of("--found") };
    paint();
    redraw();
  }

  // ------------------------------------------------------------ pointer, wheel, keys
  const held = new Map();
  let moved = false, apart = 0;
  const at = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  function hit(event) {
    const [px, py] = at(event), x = (px - view.x) / view.scale, y = (py - view.y) / view.scale;
    return G.boxes.findIndex(([bx, by, bw]) => x >= bx && x <= bx + bw && y >= by && y <= by + H);
  }
  canvas.addEventListener("pointerdown", event => { canvas.setPointerCapture(event.pointerId); held.set(event.pointerId, at(event)); moved = false; apart = 0; });
  canvas.addEventListener("pointermove", event => {
    if (!held.has(event.pointerId)) {
      const found = hit(event);
      canvas.style.cursor = found >= 0 ? "pointer" : "grab";
      return found >= 0 ? showTip(event, boxText(found)) : hideTip();
    }
    const before = held.get(event.pointerId), now = at(event);
    if (held.size === 1) {
      if (!moved && Math.hypot(now[0] - before[0], now[1] - before[1]) < 4) return;
      moved = true;
      canvas.style.cursor = "grabbing";
      view.x += now[0] - before[0];
      view.y += now[1] - before[1];
      bound();
    }
    held.set(event.pointerId, now);
    if (held.size === 2) {
      const [a, b] = [...held.values()], distance = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (apart) zoom(distance / apart, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      apart = distance;
      moved = true;
    }
    redraw();
  });
  function release(event) {
    if (!held.delete(event.pointerId) || moved || event.type === "pointercancel") return;
    const found = hit(event);
    if (found >= 0 && G.boxes[found][3] >= 0) selectLayer(G.boxes[found][3], "graph");
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey && !host.parentElement.classList.contains("full")) return;  // the page scrolls
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / (event.deltaMode ? 20 : 300)), ...at(event));
  }, { passive: false });
  host.addEventListener("keydown", event => {
    const act = { "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), "0": fit, ArrowDown: () => neighbour(0), ArrowUp: () => neighbour(1) }[event.key];
    if (act && event.target.tagName !== "INPUT") { event.preventDefault(); act(); }
  });
  function neighbour(side) {  // 0: the next layer below, 1: above
    const here = boxOf.get(chosen), edge = (touching[here] || []).map(i => G.edges[i]).find(e => e[side] === here && G.boxes[e[1 - side]][3] >= 0);
    if (edge) selectLayer(G.boxes[edge[1 - side]][3], "keys");
  }
  function moveByMap(event) {
    const box = map.getBoundingClientRect();
    view.x = view.width / 2 - (event.clientX - box.left) / box.width * G.w * view.scale;
    view.y = view.height / 2 - (event.clientY - box.top) / box.height * G.h * view.scale;
    redraw();
  }
  map.addEventListener("pointerdown", event => { map.setPointerCapture(event.pointerId); moveByMap(event); });
  map.addEventListener("pointermove", event => { if (event.buttons) moveByMap(event); });

  function boxText(i) {
    const what = G.boxes[i][3];
    if (what < 0) { const t = D.tensors[-1 - what]; return `${t.name}\n${shapeText(t.shape)} ${t.type}${t.scale ? `, scale ${number(t.scale)}, zero point ${t.zero}` : ""}`; }
    const l = D.layers[what];
    return `${l.label}: ${short(l.name, 80)}\n${shapeText(l.shape)}\n${D.pending ? l.weights.map(w => `weights ${shapeText(w.shape)} ${w.type}`).join("\n") : l.on === "none" ? "costs nothing" : `${l.on.toUpperCase()}, ${milliseconds(l.milliseconds)}, ${percent(share(l))}, ${format(l.cycles)} cycles`}` +
      (l.macs ? `, ${l.macs_per_cycle.toFixed(1)} MAC/cycle` : "") + (l.error ? `\n${l.error[1].toFixed(2)} % of the values differ from exact arithmetic, max error ${l.error[0]} LSB` : "");
  }

  // ------------------------------------------------------------ search
  let order = [], next = 0;
  const haystack = G.boxes.map(([, , , what], i) => (what < 0 ? words[i].join(" ") : [D.layers[what].label, D.layers[what].op, D.layers[what].name, D.layers[what].on, ...D.layers[what].nodes,
    ...D.layers[what].outputs.map(t => D.tensors[t].name), shapeText(D.layers[what].shape), D.layers[what].shape.join("x")].join(" ")).toLowerCase());
  function search() {
    const wanted = $("graph-search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    order = wanted.length ? haystack.flatMap((text, i) => wanted.every(w => text.includes(w)) ? [i] : []) : [];
    matches = wanted.length ? new Set(order) : null;
    next = 0;
    host.dataset.found = order.length;
    $("graph-found").textContent = wanted.length ? `${order.length} of ${G.boxes.length}` : "";
    drawMap();
    if (order.length) go(0); else redraw();
  }
  function go(step) {
    if (!order.length) return;
    next = (next + step + order.length) % order.length;
    if (view.scale < 0.5) view.scale = 0.8;
    const what = G.boxes[order[next]][3];
    if (what >= 0) selectLayer(what, "search");
    centre(order[next]);
    $("graph-found").textContent = `${next + 1} of ${order.length}`;
  }
  $("graph-search").addEventListener("input", search);
  $("graph-search").addEventListener("keydown", event => { if (event.key === "Enter") { event.preventDefault(); go(event.shiftKey ? -1 : 1); } });

  // ------------------------------------------------------------ tools
  function full(on) {
    host.parentElement.classList.toggle("full", on);
    if (on) host.focus();
    document.body.classList.toggle("covered", on);
    $("graph-full").textContent = on ? "Close" : "Full window";
    size();
  }
  closers.unshift(() => { const open = host.parentElement.classList.contains("full"); if (open) { full(false); $("graph-full").focus(); } return open; });
  $("graph-in").addEventListener("click", () => zoom(1.4));
  $("graph-out").addEventListener("click", () => zoom(1 / 1.4));
  $("graph-fit").addEventListener("click", fit);
  $("graph-full").addEventListener("click", () => full(!host.parentElement.classList.contains("full")));
  for (const [name, { title }] of Object.entries(MODES)) $("graph-mode").append(el("option", { value: name }, title));
  function colourBy(name) { mode = name; $("graph-mode").value = name; paint(); redraw(); }
  $("graph-mode").addEventListener("change", () => { colourBy($("graph-mode").value); address.set("colour", mode === "place" ? null : mode); });

  // where it was moved to: scale, and the point of the graph in the middle
  function remember() {
    const { scale, x, y, width, height } = view;
    address.set("graph", [scale, (width / 2 - x) / scale, (height / 2 - y) / scale].map(v => +v.toFixed(3)).join());
  }
  function recall() {
    const [scale, x, y] = numbersOf("graph"), asked = address.get("colour");
    if (asked in MODES && asked !== mode) colourBy(asked);
    if (!(scale > 0.003 && scale <= 3)) return;
    fitted = true;
    Object.assign(view, { scale, x: view.width / 2 - x * scale, y: view.height / 2 - y * scale });
    bound();
    redraw();
  }
  for (const event of ["pointerup", "wheel"]) canvas.addEventListener(event, later(remember));
  for (const id of ["graph-in", "graph-out", "graph-fit"]) $(id).addEventListener("click", later(remember));
  address.onChange(recall);

  onSelect((index, from) => {
    const here = boxOf.get(chosen);
    host.dataset.chosen = chosen >= 0 ? D.layers[chosen].name : "";
    if (here === undefined) return redraw();
    if (!fitted) { fitted = true; view.scale = view.width < 600 ? 0.8 : 1; centre(here); }
    else if (from !== "graph" && !inSight(here)) centre(here);
    redraw();
  });
  addEventListener("resize", size);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colours);
  colours();
  size();
  recall();
})();
