// A sweep: latency against accuracy or memory, with the rows that no other beats, and all rows as a table.
(function () {
  const rows = D.rows.filter(r => r.figures), byAccuracy = rows.some(r => "outputs_db" in r.figures);
  const models = [...new Set(rows.map(r => r.model))], paints = Object.values(COLOURS), paint = r => paints[models.indexOf(r.model) % paints.length];
  $("head").append(el("h1", {}, name(D.sweep, 160)), el("p", { class: "sub" }, `${D.rows.length} rows, ${rows.length} with figures; times are predicted, not measured on a board`));
  const band = r => `${milliseconds(r.figures.latency_low_ms)} to ${milliseconds(r.figures.latency_high_ms)}`;
  const x = r => r.figures.latency_ms, y = r => byAccuracy ? r.figures.outputs_db : r.figures.ram_bytes;
  const yText = v => byAccuracy ? v.toFixed(1) + "\u00a0dB" : bytes(v);
  $("front-hint").textContent = `Latency to the right, ${byAccuracy ? "signal to noise of the outputs" : "RAM of activations and of weights that are kept or fetched there"} upwards. Filled dots are not beaten in time, RAM${byAccuracy ? " and accuracy" : ""} together.`;
  $("front-legend").append(...models.slice(0, 24).map(m => key(paints[models.indexOf(m) % paints.length], short(m, 40))));
  if (rows.length) {
    const W = 860, H = 380, pad = { left: 84, right: 24, top: 16, bottom: 44 };
    const span = f => { const all = rows.map(f), low = Math.min(...all), high = Math.max(...all), room = (high - low || Math.abs(high) || 1) * 0.06; return [low - room, high + room]; };
    const [x0, x1] = span(x), [y0, y1] = span(y);
    const px = v => pad.left + (v - x0) / (x1 - x0) * (W - pad.left - pad.right), py = v => H - pad.bottom - (v - y0) / (y1 - y0) * (H - pad.top - pad.bottom);
    const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "All rows" });
    for (let k = 0; k <= 4; k++) {
      const a = x0 + (x1 - x0) * k / 4, b = y0 + (y1 - y0) * k / 4;
      plot.append(svg("line", { x1: px(a), x2: px(a), y1: pad.top, y2: H - pad.bottom, stroke: "currentColor", "stroke-opacity": 0.12 }), svg("line", { x1: pad.left, x2: W - pad.right, y1: py(b), y2: py(b), stroke: "currentColor", "stroke-opacity": 0.12 }),
        svg("text", { x: px(a), y: H - pad.bottom + 20, "text-anchor": "middle", "font-size": 12, fill: "currentColor" }, milliseconds(Math.max(a, 0))), svg("text", { x: pad.left - 8, y: py(b) + 4, "text-anchor": "end", "font-size": 12, fill: "currentColor" }, yText(byAccuracy ? b : Math.max(b, 0))));
    }
    for (const r of rows) {
      const dot = svg("circle", { cx: px(x(r)), cy: py(y(r)), r: r.on_front ? 7 : 5, fill: r.on_front ? paint(r) : "none", stroke: paint(r), "stroke-width": 2 });
      tip(dot, () => `${r.label}: ${milliseconds(x(r))} (${band(r)}), ${bytes(r.figures.ram_bytes)} RAM${byAccuracy ? ", " + yText(y(r)) : ""}`);
      plot.append(dot);
    }
    $("front-plot").append(plot);
  }
  const columns = [["row", r => r.label, r => name(r.label, 120)], ["latency", x, r => milliseconds(x(r))], ["may be", r => r.figures.latency_high_ms, band], ["on the CPU", r => r.figures.cpu_ms, r => milliseconds(r.figures.cpu_ms)],
    ["RAM", r => r.figures.ram_bytes, r => bytes(r.figures.ram_bytes)], ["weights", r => r.figures.weights_bytes, r => bytes(r.figures.weights_bytes)],
    ["outside the chip", r => r.figures.spilled_bytes, r => bytes(r.figures.spilled_bytes)], ["CPU layers", r => r.figures.cpu_layers, r => String(r.figures.cpu_layers)]];
  if (byAccuracy) columns.push(["accuracy", y, r => yText(y(r))]);
  columns.push(["front", r => r.on_front ? 0 : 1, r => r.on_front ? "\u2605" : ""]);
  let sorted = 1, down = false;
  function draw() {
    const order = [...rows].sort((a, b) => { const u = columns[sorted][1](a), v = columns[sorted][1](b); return (u < v ? -1 : u > v ? 1 : 0) * (down ? -1 : 1); });
    $("table").tHead.replaceChildren(el("tr", {}, ...columns.map(([title], i) => el("th", { class: i ? "number" : "", "aria-sort": i === sorted ? (down ? "descending" : "ascending") : false },
      el("button", { onclick: () => { down = i === sorted && !down; sorted = i; draw(); } }, title)))));
    $("table").tBodies[0].replaceChildren(...order.map(r => el("tr", {}, ...columns.map(([, , show], i) => el("td", { class: i ? "number" : "" }, show(r))))));
  }
  draw();
  const refused = D.rows.filter(r => !r.figures);
  $("refused").hidden = !refused.length;
  $("refused-list").append(...refused.flatMap(r => [el("dt", {}, name(r.label, 120)), el("dd", {}, r.why_not)]));
})();
