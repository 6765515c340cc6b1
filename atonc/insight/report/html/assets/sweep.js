// A sweep: time against accuracy or memory, one front for each model or application, and all rows as a table.
(function () {
  const rows = D.rows.filter(r => r.figures), byAccuracy = rows.some(r => "outputs_db" in r.figures);
  const busy = rows.some(r => "busy_ms" in r.figures), TIME = busy ? "busy" : "latency", what = busy ? "application" : "model";  // applications: time of every second
  const models = [...new Set(rows.map(r => r.model))], paints = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#b8860b", "#7f7f7f"], paint = m => paints[models.indexOf(m) % paints.length];
  $("head").append(el("h1", {}, name(D.sweep, 160)), el("p", { class: "sub" }, `${D.rows.length} ${D.rows.length === 1 ? "row" : "rows"}, ${rows.length} with figures; times are predicted, not measured on a board`));
  const band = r => r.figures[TIME + "_low_ms"] === undefined ? "" : `${milliseconds(r.figures[TIME + "_low_ms"])} to ${milliseconds(r.figures[TIME + "_high_ms"])}`;
  const x = r => r.figures[TIME + "_ms"], y = r => byAccuracy ? r.figures.outputs_db : r.figures.ram_bytes / 1024;
  const yText = v => byAccuracy ? v.toFixed(1) + "\u00a0dB" : bytes(1024 * v);
  const hidden = new Set();  // models whose dots are not shown
  $("front-hint").textContent = `Filled dots: no other row of the same ${what} is better in time, RAM${byAccuracy ? " or accuracy" : ""} and as good in the rest; a line joins them. Click ${busy ? "an application" : "a model"} to hide it.`;
  $("front-legend").append(...models.map(m => el("button", { "aria-pressed": "false", onclick: event => { if (!hidden.delete(m)) hidden.add(m); event.currentTarget.setAttribute("aria-pressed", hidden.has(m)); draw(); } }, key(paint(m), m, `rows of ${m}; click to hide or show them`))));

  function span(values) {
    const low = Math.min(...values), high = Math.max(...values), room = 0.08 * (high - low) || 0.1 * Math.abs(high) || 1;
    return [byAccuracy ? low - room : Math.max(0, low - room), high + room];
  }
  function draw() {
    const host = $("front-plot"), seen = rows.filter(r => !hidden.has(r.model));
    if (!seen.length) { host.textContent = rows.length ? `All ${what}s are hidden.` : "No row has figures."; return; }
    const width = host.clientWidth || 860, HEIGHT = 420, area = { left: 74, top: 14, right: width - 16, bottom: HEIGHT - 46 };
    const [x0, x1] = span(seen.map(x)), [y0, y1] = span(seen.map(y)), px = v => area.left + (v - x0) / (x1 - x0) * (area.right - area.left), py = v => area.bottom - (v - y0) / (y1 - y0) * (area.bottom - area.top);
    const across = ticks(x0, x1, Math.max(4, (area.right - area.left) / 90)), up = ticks(y0, y1, 7);
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${seen.length} rows: ${busy ? "time of a second" : "latency"} against ${byAccuracy ? "accuracy" : "RAM"}` });
    axes(picture, area, { at: px, ticks: across.found, text: t => t.toFixed(across.digits), title: busy ? "predicted time of a second (ms)" : "predicted latency (ms)" }, { at: py, ticks: up.found, text: t => t.toLocaleString("en-US", { maximumFractionDigits: up.digits }), title: byAccuracy ? "signal to noise of the outputs (dB)" : "RAM (KiB)" });
    for (const m of models.filter(m => !hidden.has(m))) {
      const front = seen.filter(r => r.model === m && r.on_front).sort((a, b) => x(a) - x(b));
      picture.append(svg("path", { d: front.map((r, k) => `${k ? "L" : "M"}${px(x(r))} ${py(y(r))}`).join(""), fill: "none", stroke: paint(m), "stroke-opacity": 0.5, "stroke-width": 1.5 }));
    }
    for (const r of seen) picture.append(tip(svg("circle", { cx: px(x(r)), cy: py(y(r)), r: r.on_front ? 7 : 5, fill: r.on_front ? paint(r.model) : "var(--card)", stroke: paint(r.model), "stroke-width": 2, class: "mark" }),
      `${r.label}\n${milliseconds(x(r))} (${band(r)}), ${bytes(r.figures.ram_bytes)} RAM${byAccuracy ? ", " + yText(y(r)) : ""}`));
    host.replaceChildren(picture);
  }

  const figure = (id, title, show, width, from, value = r => r.figures[id] ?? -1) => ({ id, title, value, cell: r => r.figures[id] === undefined ? "" : show(r.figures[id]), text: r => r.figures[id] ?? "", kind: "number", width, from });
  const times = v => v.toFixed(2), columns = [
    { id: "row", title: "row", value: r => r.label, cell: r => rows.length > WHOLE ? r.label : name(r.label, 400), kind: "name", width: innerWidth < 700 ? 118 : 260, from: 0 },
    figure(TIME + "_ms", busy ? "of a second" : "latency", milliseconds, busy ? 112 : 92, 0),
    { id: "band", title: "error bounds", value: r => r.figures[TIME + "_high_ms"], cell: band, kind: "number", width: 176, from: 1500 },
    ...(busy ? [figure("npu_load", "NPU", percent, 80, 800), figure("flash_load", "flash read", percent, 104, 800)] : [figure("cpu_ms", "on the CPU", milliseconds, 110, 1000)]),
    figure("ram_bytes", "RAM", bytes, 96, 0),
    ...(busy ? [figure("lower_bound_bytes", "no plan below", bytes, 126, 1000), figure("flash_bytes", "flash", bytes, 96, 800)] : [figure("weights_bytes", "weights", bytes, 96, 800), figure("spilled_bytes", "outside the chip", bytes, 144, 1500)]),
    figure("cpu_layers", "CPU layers", String, 108, 1000),
    ...(busy ? [] : [figure("times_practical", "x attainable minimum", times, 150, 1000), figure("times_absolute", "x theoretical minimum", times, 150, NEVER)]),
    ...(byAccuracy ? [figure("outputs_db", "accuracy", v => v.toFixed(1) + "\u00a0dB", 92, 0)] : []),
    { id: "front", title: "front", value: r => r.on_front ? 0 : 1, cell: r => r.on_front ? "\u2605" : "", text: r => +r.on_front, kind: "number", width: 64, from: 500 },
  ];
  sortable($("table"), columns, { rows: () => [...rows], sort: TIME + "_ms", up: true, chooser: $("chooser"), hint: r => r.label });
  const refused = D.rows.filter(r => !r.figures);
  $("refused").hidden = document.querySelector("nav a[href='#refused']").hidden = !refused.length;
  $("refused-list").append(...refused.flatMap(r => [el("dt", {}, name(r.label, 400)), el("dd", {}, r.why_not)]));
  addEventListener("resize", later(draw));
  draw();
  address.go();
})();
