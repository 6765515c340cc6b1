// Two builds of one model: figures, both timelines with bands between partners, live bytes, and the pairs as a table.
(function () {
  const [A, B] = D.sides, LETTERS = ["A", "B"], SIDE = ["#0072b2", "#d55e00"], LEFT = 84, RIGHT = 10;
  const rows = [...D.pairs.map(([a, b]) => ({ sides: [a, b] })), ...D.alone[0].map(i => ({ sides: [[i], []] })), ...D.alone[1].map(i => ({ sides: [[], [i]] }))];
  const owner = D.sides.map(side => new Array(side.layers.length).fill(-1));
  rows.forEach((row, r) => {
    row.place = r;
    row.layers = row.sides.map((own, k) => own.map(i => D.sides[k].layers[i]));
    row.ms = row.layers.map(own => own.reduce((sum, l) => sum + l.ms, 0));
    row.delta = row.ms[1] - row.ms[0];
    row.text = row.layers.flat().map(l => `${l.name} ${l.label} ${l.shape.join("x")} ${l.on}`).join(" ").toLowerCase();
    row.sides.forEach((own, k) => own.forEach(i => { owner[k][i] = r; }));
  });
  for (const side of D.sides) { let sum = 0; side.starts = side.steps.map(s => { const start = sum; sum += s[1]; return start; }); side.starts.push(sum); }
  const total = Math.max(...D.sides.map(side => side.starts[side.starts.length - 1]), 1e-9), shown = { from: 0, to: total };
  let chosen = -1;
  const paired = row => row.sides[0].length && row.sides[1].length;
  const mayor = own => own.length ? own.reduce((best, l) => l.ms > best.ms ? l : best, own[0]) : null;
  const sideName = own => own.length ? short(own[0].name, 46) + (own.length > 1 ? ` and ${own.length - 1} more` : "") : "none";
  const times = row => row.ms[0] && row.ms[1] ? row.ms[1] / row.ms[0] : null;

  // the faster one's colour, stronger the larger the ratio
  function tint(row) {
    if (!row) return "#9aa3b2";
    if (!paired(row)) return "#7f7f7f";
    const ratio = Math.log2(Math.max(1e-3, times(row) || 1)), part = Math.min(1, Math.abs(ratio) / 1.5), base = ratio > 0 ? [0, 114, 178] : [213, 94, 0], grey = [190, 196, 206];
    return `rgb(${grey.map((g, i) => Math.round(g + (base[i] - g) * part)).join()})`;
  }

  // ------------------------------------------------------------ head and figures
  const same = A.model === B.model;
  $("head").append(el("h1", {}, same ? A.model : `${A.model} and ${B.model}`), ...D.sides.map((side, k) => el("p", { class: "sub" }, key(SIDE[k], LETTERS[k]), `${side.tool}${side.board ? " for " + side.board : ""}${same ? "" : ": " + side.model}; NPU ${side.npu_mhz} MHz, CPU ${side.cpu_mhz} MHz; ${side.basis}`)),
    el("div", { class: "tiles" }, ...D.sides.map((side, k) => tile("latency", milliseconds(side.latency_ms), `${LETTERS[k]}, ${side.basis}${side.basis === "predicted" ? `, error bounds ${milliseconds(side.low_ms)} to ${milliseconds(side.high_ms)}` : ""}`)),
      tile("B / A", A.latency_ms ? (B.latency_ms / A.latency_ms).toFixed(3) : "\u2013", "latency"), tile("pairs", String(D.pairs.length), `groups of layers that do the same work, by ${D.paired_by}`)));
  const [titles, ...figures] = D.figures, cells = row => el("tr", {}, ...row.map((cell, k) => el("td", { class: k ? "number" : "" }, cell)));
  $("figure-table").tHead.append(heads(["figure", ...titles.slice(1)], k => k));
  $("figure-table").tBodies[0].append(...figures.map(cells),
    ...D.outputs.map(([a, cosine, exact, close, largest]) => el("tr", {}, el("td", { class: "name" }, "output ", name(a, 50)), el("td", { class: "number", colspan: titles.length - 1 }, `cosine ${cosine.toFixed(6)}, exact ${exact.toFixed(2)} %, within one step ${close.toFixed(2)} %, largest difference ${largest}`))));
  $("alerts").append(...D.warnings.map(text => el("p", {}, text)));
  $("differ-table").tHead.append(heads(["option", "A", "B"], () => false));
  $("differ-table").tBodies[0].append(...D.differ.map(([what, a, b]) => el("tr", {}, el("td", {}, what), ...[a, b].map(value => el("td", { class: "name" }, name(value, 160))))));
  $("differ-none").hidden = D.differ.length > 0;
  $("notes").append(...D.says.map(text => el("li", {}, text)), ...D.sides.flatMap((side, k) => side.notes.map(text => el("li", {}, `${LETTERS[k]}: ${text}`))));
  $("pairing").textContent = D.pairing.map(t => t + ".").join(" ") + ` Paired by ${D.paired_by}.`;

  // ------------------------------------------------------------ both timelines
  const host = $("timeline-plot"), HEIGHT = 208, LANES = [24, 142], TALL = 36;
  const layerSpans = D.sides.map(side => { const spans = new Map(); side.steps.forEach(([, ms, , , layer], i) => { const list = spans.get(layer) || []; const last = list[list.length - 1]; if (last && Math.abs(last[1] - side.starts[i]) < 1e-9) last[1] = side.starts[i] + ms; else list.push([side.starts[i], side.starts[i] + ms]); spans.set(layer, list); }); return spans; });
  function draw() {
    const width = host.clientWidth || 800, scale = (width - LEFT - RIGHT) / (shown.to - shown.from), x = ms => LEFT + (ms - shown.from) * scale;
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "both timelines" });
    const { found, digits } = ticks(shown.from, shown.to, (width - LEFT) / 100);
    for (const t of found) { const last = x(t) > width - 34; picture.append(svg("line", { x1: x(t), x2: x(t), y1: 14, y2: HEIGHT - 22, class: "axis" }), svg("text", { x: last ? width - 2 : x(t), y: HEIGHT - 6, "text-anchor": last ? "end" : "middle", class: "soft" }, t.toFixed(digits) + " ms")); }
    D.sides.forEach((side, k) => picture.append(svg("text", { x: 4, y: LANES[k] + 16, class: "strong" }, LETTERS[k]), svg("text", { x: 4, y: LANES[k] + 30, class: "soft" }, milliseconds(side.latency_ms))));
    const inside = svg("g", { "clip-path": "url(#lane)" });
    for (const row of rows) if (paired(row)) bands(row, x, inside, width);
    D.sides.forEach((side, k) => {
      for (const [layer, spans] of layerSpans[k]) for (const [a, b] of spans) {
        if (x(b) < LEFT || x(a) > width) continue;
        const r = layer >= 0 ? owner[k][layer] : -1;
        inside.append(svg("rect", { x: x(a), y: LANES[k], width: Math.max(0.7, x(b) - x(a) - (x(b) - x(a) > 3 ? 0.6 : 0)), height: TALL, fill: tint(rows[r]), class: "mark" + (r === chosen && r >= 0 ? " chosen" : ""), "data-row": r }));
      }
    });
    picture.append(svg("clipPath", { id: "lane" }, svg("rect", { x: LEFT, y: 0, width: width - LEFT - RIGHT + 1, height: HEIGHT })), inside);
    host.replaceChildren(picture);
  }
  function bands(row, x, inside, width) {
    const ends = row.sides.map((own, k) => { const spans = own.flatMap(i => layerSpans[k].get(i) || []); return spans.length ? [Math.min(...spans.map(s => s[0])), Math.max(...spans.map(s => s[1])), spans.reduce((sum, s) => sum + s[1] - s[0], 0)] : null; });
    if (!ends[0] || !ends[1] || Math.max(x(ends[0][1]), x(ends[1][1])) < LEFT || Math.min(x(ends[0][0]), x(ends[1][0])) > width) return;
    // layers far apart in time are joined in their middle only
    const [[a0, a1], [b0, b1]] = ends.map(([s, e, sum]) => e - s <= 1.3 * sum ? [s, e] : [(s + e) / 2, (s + e) / 2 + 0.6 / Math.max(1, width)]), y0 = LANES[0] + TALL, y1 = LANES[1], m = (y0 + y1) / 2, own = row.place === chosen;
    inside.append(svg("path", { d: `M${x(a0)} ${y0}C${x(a0)} ${m} ${x(b0)} ${m} ${x(b0)} ${y1}L${x(b1)} ${y1}C${x(b1)} ${m} ${x(a1)} ${m} ${x(a1)} ${y0}Z`, fill: tint(row), opacity: own ? 0.9 : 0.28, class: "mark", "data-row": row.place, ...(own ? { stroke: "var(--ink)", "stroke-width": 1.5 } : {}) }));
  }
  function show(from, to) {
    const span = Math.min(total, Math.max(total / 5000, to - from));
    shown.from = Math.max(0, Math.min(total - span, from));
    shown.to = shown.from + span;
    redraw(); redrawMemory();
  }
  function zoom(factor, middle) {
    if (!factor) return show(0, total);
    const centre = middle ?? (shown.from + shown.to) / 2, span = (shown.to - shown.from) / factor, inside = Math.max(0, Math.min(1, (centre - shown.from) / (shown.to - shown.from)));
    show(centre - span * inside, centre + span * (1 - inside));
  }
  const timeAt = event => { const box = host.getBoundingClientRect(); return shown.from + (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * (shown.to - shown.from); };
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoom(+button.dataset.zoom));
  host.addEventListener("wheel", event => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(event.deltaY < 0 ? 1.3 : 1 / 1.3, timeAt(event)); } }, { passive: false });
  let held = null;
  host.addEventListener("pointerdown", event => { held = { x: event.clientX, from: shown.from, span: shown.to - shown.from, moved: false, row: event.target.dataset ? event.target.dataset.row : undefined }; });
  addEventListener("pointerup", () => { if (held && !held.moved && held.row !== undefined && +held.row >= 0) choose(+held.row, "timeline"); held = null; });
  host.addEventListener("pointermove", event => {
    if (held && (held.moved || Math.abs(event.clientX - held.x) > 4)) { held.moved = true; const from = held.from + (held.x - event.clientX) / (host.clientWidth - LEFT - RIGHT) * held.span; return show(from, from + held.span); }
    const r = event.target.dataset ? event.target.dataset.row : undefined;
    if (r !== undefined && +r >= 0) showTip(event, rowText(rows[+r])); else hideTip();
  });
  host.addEventListener("pointerleave", hideTip);
  const inTime = rows.filter(r => r.sides[0].length || r.sides[1].length).map(r => r.place).sort((p, q) => first(p) - first(q));
  function first(p) { const k = rows[p].sides[0].length ? 0 : 1; return Math.min(...rows[p].sides[k].map(i => (layerSpans[k].get(i) || [[total, 0]])[0][0])); }
  host.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { event.preventDefault(); choose(inTime[Math.max(0, Math.min(inTime.length - 1, inTime.indexOf(chosen) + step))], "keys"); }
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.6 : 0.625);
  });
  const rowText = row => row.layers.map((own, k) => `${LETTERS[k]}: ${own.length ? `${sideName(own)}, ${milliseconds(row.ms[k])}` : "no partner"}`).join("\n") + (times(row) ? `\nB / A ${times(row).toFixed(2)}` : "");
  $("legend").append(key("rgb(0,114,178)", "A faster"), key("rgb(190,196,206)", "alike"), key("rgb(213,94,0)", "B faster"), key("#7f7f7f", "no partner"));

  // ------------------------------------------------------------ live bytes
  const lives = D.sides.map(side => side.live);
  function drawMemory() {
    const plot = $("memory-plot"), width = plot.clientWidth || 800, TOP = 170, most = Math.max(1, ...lives.flat()), x = ms => LEFT + (ms - shown.from) / (shown.to - shown.from) * (width - LEFT - RIGHT), y = v => TOP - 10 - v / most * (TOP - 26);
    const picture = svg("svg", { height: TOP, viewBox: `0 0 ${width} ${TOP}`, role: "img", "aria-label": "live bytes of both builds" });
    for (const value of ticks(0, most / 1024, 3).found.map(kib => 1024 * kib)) picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: "axis" }), svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end", class: "soft" }, bytes(Math.round(value))));
    const inside = svg("g", { "clip-path": "url(#live)" });
    lives.forEach((live, k) => {
      const starts = D.sides[k].starts;
      let path = `M${x(0)} ${y(0)}`;
      live.forEach((v, i) => { path += `L${x(starts[i])} ${y(v)}L${x(starts[i + 1])} ${y(v)}`; });
      inside.append(svg("path", { d: path + `L${x(starts[live.length])} ${y(0)}Z`, fill: SIDE[k], "fill-opacity": 0.18, stroke: SIDE[k], "stroke-width": 1.4 }));
    });
    picture.append(svg("clipPath", { id: "live" }, svg("rect", { x: LEFT, y: 0, width: width - LEFT - RIGHT, height: TOP })), inside);
    plot.replaceChildren(picture);
  }
  $("memory-legend").append(...LETTERS.map((letter, k) => key(SIDE[k], `${letter}: peak ${bytes(Math.max(0, ...lives[k]))}`, `most bytes that live at the same time in ${letter}`)));
  const redraw = later(draw), redrawMemory = later(drawMemory);

  // ------------------------------------------------------------ the pairs
  const shapeOf = row => { const l = mayor(row.layers[0]) || mayor(row.layers[1]); return l ? l.shape : []; };
  const worst = Math.max(1e-9, ...rows.map(r => Math.abs(r.delta)));
  const places = row => [...new Set(row.layers.flat().map(l => l.on))];
  const columns = [
    { id: "a", title: "A", value: r => r.sides[0][0] ?? 1e9, cell: r => cell(r, 0), text: r => r.layers[0].map(l => l.name).join(" "), kind: "name", from: 0 },
    { id: "b", title: "B", value: r => r.sides[1][0] ?? 1e9, cell: r => cell(r, 1), text: r => r.layers[1].map(l => l.name).join(" "), kind: "name", from: 800 },
    { id: "shape", title: "shape", value: r => shapeOf(r).reduce((a, b) => a * b, 1), cell: r => shapeText(shapeOf(r)), text: r => shapeOf(r).join("x"), kind: "number", width: 130, from: 1400 },
    { id: "on", title: "on", value: r => places(r).join(), cell: r => el("span", {}, ...places(r).map(badge)), text: r => places(r).join(" "), width: 56, from: 800 },
    { id: "a-ms", title: "A ms", value: r => r.ms[0], cell: r => r.sides[0].length ? r.ms[0].toFixed(4) : "", kind: "number", width: 72, from: 0 },
    { id: "b-ms", title: "B ms", value: r => r.ms[1], cell: r => r.sides[1].length ? r.ms[1].toFixed(4) : "", kind: "number", width: 72, from: 0 },
    { id: "delta", title: "B - A", value: r => r.delta, cell: r => el("span", { class: "delta", style: `--left:${r.delta < 0 ? 50 - 50 * -r.delta / worst : 50}%;--right:${r.delta > 0 ? 50 + 50 * r.delta / worst : 50}%;--paint:${r.delta > 0 ? SIDE[1] : SIDE[0]}` }, (r.delta > 0 ? "+" : r.delta < 0 ? "\u2212" : "") + Math.abs(r.delta).toFixed(4)), text: r => r.delta.toFixed(6), kind: "number", width: 110, from: 640 },
    { id: "ratio", title: "B / A", value: r => times(r) ?? -1, cell: r => times(r) === null ? "" : times(r).toFixed(2), text: r => times(r) === null ? "" : times(r).toFixed(4), kind: "number", width: 60, from: 0 },
  ];
  function cell(row, k) {
    const own = row.layers[k];
    return own.length ? el("span", {}, el("b", { class: "op" }, [...new Set(own.map(l => l.label))].slice(0, 3).join(" + ")), " ", sideName(own)) : el("span", { class: "hint" }, "no partner");
  }
  function found() {
    const wanted = $("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean), alone = $("only-alone").checked;
    const list = rows.filter(r => (!alone || !paired(r)) && wanted.every(w => r.text.includes(w)));
    $("found").textContent = `${list.length} of ${rows.length} rows`;
    return list;
  }
  const table = sortable($("table"), columns, {
    rows: found, chooser: $("chooser"), isChosen: row => row.place === chosen, hint: rowText,
    pick: (row, open) => choose(row.place, open ? "table" : "keys"),
  });
  $("search").addEventListener("input", table.draw);
  $("only-alone").addEventListener("change", table.draw);
  $("csv").addEventListener("click", () => table.csv("comparison.csv"));

  // ------------------------------------------------------------ the selected pair
  function choose(place, from) {
    const row = rows[place];
    if (!row) return;
    chosen = place;
    if (from === "table") table.redraw(); else table.goTo(row);
    if (from !== "start") address.set("pair", place);
    host.dataset.chosen = place;
    if (from === "table" || from === "keys") { const t = first(place), span = shown.to - shown.from; if (t < shown.from || t > shown.to) show(t - span / 2, t + span / 2); }
    draw();
    const lead = mayor(row.layers[0]) || mayor(row.layers[1]);
    $("detail-title").textContent = lead.label;
    $("detail-name").textContent = `${milliseconds(row.ms[0])} in A, ${milliseconds(row.ms[1])} in B${times(row) ? `: ${times(row).toFixed(2)} times` : ""}`;
    $("detail-body").replaceChildren(...row.layers.flatMap((own, k) => [el("h3", {}, key(SIDE[k], `${LETTERS[k]}, ${D.sides[k].tool}`, meaning(LETTERS[k]))), ...(own.length ? own.map(facts) : [el("p", { class: "hint" }, "No layer of this build does this work by itself.")])]));
    $("detail-body").scrollTop = 0;
    if (from === "table") { $("detail").classList.add("open"); $("detail-toggle").setAttribute("aria-expanded", true); }
  }
  const facts = layer => el("div", { class: "rule" }, el("b", {}, layer.label, " ", badge(layer.on)), pairs([["layer", name(layer.name)], ["shape", shapeText(layer.shape)], ["epochs", layer.epochs.length > 4 ? `${layer.epochs[0]} to ${layer.epochs[layer.epochs.length - 1]}` : layer.epochs.join(", ")], ["time", milliseconds(layer.ms)],
    ...layer.figures, ["bottleneck", bottleneck(layer.bound) || "none"], ...layer.rules.map(([id, seen]) => [id, seen])].filter(r => r[1] !== "")));
  $("detail-toggle").addEventListener("click", () => $("detail-toggle").setAttribute("aria-expanded", $("detail").classList.toggle("open")));

  addEventListener("resize", () => { redraw(); redrawMemory(); });
  drawMemory();
  const asked = Number(address.get("pair") || NaN);
  choose(rows[asked] ? asked : rows.length ? rows.reduce((best, r) => Math.abs(r.delta) > Math.abs(rows[best].delta) ? r.place : best, 0) : -1, "start");
  if (!rows.length) draw();
  address.go();
})();
