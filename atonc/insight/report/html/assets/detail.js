// What is selected, in a panel of its own that never moves the page: the layer, then one of its epochs.
(function () {
  const UNIT = { STRENG: "#56b4e9", CONVACC: "#0072b2", ARITH: "#009e73", ACTIV: "#cc79a7", POOL: "#e69f00", DECUN: "#8c6bb1" };

  const codes = t => t.scale === undefined && !t.scales && /int/.test(t.type) ? " (stored values)" : "";
  const range = t => t.low === undefined ? "" : t.low === t.high ? `, all ${number(t.low)}` : `, ${number(t.low)} to ${number(t.high)}${codes(t)}`;
  const quantised = t => t.scale !== undefined ? `scale ${number(t.scale)}, zero point ${t.zero}` : t.scales ? `${t.scales} scales, one a channel` : "";
  const tensorText = t => [shapeText(t.shape), t.type].filter(Boolean).join(" ") + (quantised(t) ? `; ${quantised(t)}` : "");

  function layerFacts(layer) {
    const rows = D.pending ? [] : [["runs on", layer.on === "none" ? "nothing: the data stays where it is" : layer.on.toUpperCase()]];
    if (layer.epochs.length) rows.push(["time", `${milliseconds(layer.milliseconds)}, ${percent(share(layer))} of the whole; ${format(layer.cycles)} cycles`]);
    const board = measuredOf(layer);
    if (board !== null) rows.push(["measured", `${milliseconds(board)}, ${(board / layer.milliseconds).toFixed(2)} of the prediction`]);
    if (layer.times_limit) rows.push(["minimum", `${layer.times_limit.toFixed(2)}x its attainable minimum of ${format(layer.practical_cycles)} cycles, limited by ${bottleneck(layer.limited_by)}; theoretical minimum ${format(layer.absolute_cycles)} cycles`]);
    if (layer.macs) rows.push(["multiplications", `${format(layer.macs)}${layer.cycles ? `, ${layer.macs_per_cycle.toFixed(1)} per cycle` : ""}`]);
    const tensor = (t, more = "") => el("span", {}, `${tensorText(t)}${more}`, el("small", {}, name(t.name)));
    layer.inputs.forEach((t, i) => rows.push([i ? "" : "input", tensor(D.tensors[t])]));
    layer.outputs.forEach((t, i) => rows.push([i ? "" : "output", tensor(D.tensors[t])]));
    for (const [i, w] of layer.weights.entries()) rows.push([i ? "" : "weights", tensor(w, range(w))], ...(w.spread ? [["", spread(w)]] : []));
    for (const [title, value] of Object.entries(layer.attributes)) rows.push([title.replaceAll("_", " "), value]);
    if (layer.error) rows.push(["error", `${layer.error[1].toFixed(2)} % of the values differ from exact arithmetic, max error ${layer.error[0]} LSB (limit ${layer.error[2]})`]);
    if (layer.nodes.length > 1) rows.push(["made of", name(layer.nodes.join("; "), 400)]);
    return pairs(rows);
  }

  // codes of the weights: a row for each channel or a few, darker where more of them are, from the smallest code to the largest
  function spread(w) {
    const { rows, ends, channels, saturated, elements } = w.spread, wide = rows[0].length, each = Math.ceil(channels / rows.length);
    const said = `${format(saturated)} of ${format(elements)} values (${percent(saturated / elements)}) at an end of their range`;
    const picture = el("canvas", { width: wide, height: rows.length, class: "spread", role: "img", "aria-label": `Histogram of the values for each of ${channels} channels; ${said}`, style: `height:${Math.max(36, Math.min(144, 4 * rows.length))}px` });
    const pen = picture.getContext("2d"), dots = pen.createImageData(wide, rows.length), paint = matchMedia("(prefers-color-scheme: dark)").matches ? [86, 180, 233] : [0, 86, 150];
    rows.forEach((row, r) => [...row].forEach((digit, c) => dots.data.set([...paint, Math.round(+digit * 255 / 9)], 4 * (r * wide + c))));
    pen.putImageData(dots, 0, 0);
    let at = 0;
    picture.addEventListener("pointermove", event => { const box = picture.getBoundingClientRect(); at = Math.max(0, Math.min(rows.length - 1, Math.floor((event.clientY - box.top) / box.height * rows.length))); });
    const channel = () => each > 1 ? `channels ${at * each} to ${Math.min(channels, (at + 1) * each) - 1}` : `channel ${at}`;
    return el("span", {}, tip(picture, () => `${channel()}: codes ${ends[at][0]} to ${ends[at][1]}`), el("small", {}, `${channels} channels from top to bottom, values from the smallest to the largest; ${said}`));
  }

  function stepFacts(step) {
    const rows = [["epoch", name(`${step.n}: ${step.title}`, 160)], ["cycles", `${format(step.cycles)} (${step.ms.toFixed(4)} ms)${step.known ? "" : ", a rough estimate"}`], ["bottleneck", step.bound ? bottleneck(step.bound) : "none"]];
    if (step.st) rows.push(["ST's estimate", format(step.st) + " cycles"]);
    if (step.bytes) rows.push(["bytes moved", bytes(step.bytes)]);
    if (step.chains.length) rows.push(["chain", step.chains.join("; ")]);
    if (step.modes.length) rows.push(["modes", step.modes.join(", ")]);
    const terms = Object.entries(step.parts).map(([name, cycles]) => `${bottleneck(name)} ${format(cycles)}`);
    if (terms.length) rows.push(["terms of the model", terms.join(", ")]);
    return pairs(rows);
  }

  function wiring(step) {
    const names = Object.keys(step.units);
    if (!names.length) return el("p", { class: "hint" }, step.on === "npu" ? "Which units it uses is not in the files." : "The CPU computes this step: no units are wired.");
    if (!step.links.length) return pairs(names.map(unit => [name(unit), step.units[unit]]));  // listed, but how they are wired is not told
    // rows by the longest way from a reader; rings are cut where they close
    const depth = new Map(names.map(n => [n, 0]));
    for (let round = 0; round < names.length; round++) {
      let moved = false;
      for (const [from, to] of step.links) {
        if (from === to || !depth.has(from) || !depth.has(to)) continue;
        const wanted = depth.get(from) + 1;
        if (wanted > depth.get(to) && wanted < names.length) { depth.set(to, wanted); moved = true; }
      }
      if (!moved) break;
    }
    const rows = [];
    for (const name of names) (rows[depth.get(name)] = rows[depth.get(name)] || []).push(name);
    const used = rows.filter(Boolean), W = 92, H = 26, GX = 10, GY = 26, most = Math.max(...used.map(r => r.length));
    const width = most * (W + GX) + 6, height = used.length * (H + GY), spot = new Map();
    used.forEach((row, r) => row.sort().forEach((name, c) => spot.set(name, { x: (width - row.length * (W + GX)) / 2 + c * (W + GX) + GX / 2, y: r * (H + GY) + 8 })));
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "units and links of the epoch" });
    for (const [from, to, port, gate] of step.links) {
      const a = spot.get(from), b = spot.get(to);
      if (!a || !b) continue;
      const x1 = a.x + W / 2, y1 = a.y + H, x2 = b.x + W / 2 - 18 + Math.min(port, 2) * 18, y2 = b.y, bend = y2 > y1 ? Math.max(12, (y2 - y1) / 2) : 30;
      picture.append(tip(svg("path", { d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, fill: "none", stroke: gate ? "#d55e00" : "var(--soft)", "stroke-width": 1.6 }), `${from} to ${to} port ${port}${gate ? "\n" + gate : ""}`));
    }
    for (const name of names) {
      const { x, y } = spot.get(name);
      picture.append(tip(svg("g", {}, svg("rect", { x, y, width: W, height: H, rx: 5, fill: UNIT[name.replace(/\d+$/, "")] || "#777" }), svg("text", { x: x + W / 2, y: y + 17, "text-anchor": "middle", style: "fill:#fff;font-weight:600" }, short(name, 13))), `${name}\n${step.units[name]}`));
    }
    return el("div", { class: "wiring" }, picture);
  }

  function stepper(layer) {
    if (layer.epochs.length < 2) return null;
    const at = layer.epochs.indexOf(D.steps[selected].n), go = k => select(byNumber.get(layer.epochs[k]), "detail");
    return el("p", { class: "tools" }, el("button", { disabled: at <= 0, onclick: () => go(at - 1) }, "\u2190"), `epoch ${at + 1} of ${layer.epochs.length}`, el("button", { disabled: at >= layer.epochs.length - 1, onclick: () => go(at + 1) }, "\u2192"));
  }

  onSelect(() => {
    const step = D.steps[selected], layer = D.layers[chosen], own = layer && layer.epochs.length;
    $("detail-title").replaceChildren(layer ? layer.label : `epoch ${step.n}`, " ", layer && !D.pending ? badge(layer.on) : "");
    $("detail-name").replaceChildren(name(layer ? layer.name : step.title));
    $("said").textContent = layer ? `${layer.label} ${layer.name}, ${D.pending ? "not compiled yet" : layer.on === "none" ? "costs nothing" : `${layer.on.toUpperCase()}, ${milliseconds(layer.milliseconds)}`}` : `epoch ${step.n}`;
    $("detail-body").replaceChildren(...[layer ? layerFacts(layer) : null, ...(layer ? reasons(layer) : []),
      ...(own || !layer ? [el("h3", {}, "In the machine"), layer ? stepper(layer) : null, stepFacts(step), wiring(step)] : [])].filter(Boolean));
    $("detail-body").scrollTop = 0;
  });
  $("detail-toggle").addEventListener("click", () => {
    const open = $("detail").classList.toggle("open");
    $("detail-toggle").setAttribute("aria-expanded", open);
  });
})();

function openDetail() {
  $("detail").classList.add("open");
  $("detail-toggle").setAttribute("aria-expanded", true);
}

function reasons(layer) {
  if (!layer.decisions.length) return D.pending ? [] : [el("p", { class: "hint" }, layer.on === "none" ? "Costs nothing: the data stays where it is." : "Nothing special.")];
  return layer.decisions.map(d => el("div", { class: "rule" }, el("b", {}, `${d.rule}: ${D.rules[d.rule]}`), el("p", {}, `Seen: ${d.seen}. Limit: ${d.limit}.`),
    !d.remedy ? null : el("p", {}, ...coded(`Action: ${d.remedy}.${d.price && d.price.tried ? ` Tried: ${format(d.price.cycles)} cycles and ${bytesGain(d.price.bytes)} gained (${d.price.how}).` : ""}`))));
}
const bytesGain = n => (n < 0 ? "\u2212" : "") + bytes(Math.abs(n));
