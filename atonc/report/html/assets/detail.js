// The selected epoch: figures, the terms of its time, the wiring of its units, the rules of its layer.
(function () {
  const UNIT = { STRENG: "#56b4e9", CONVACC: "#0072b2", ARITH: "#009e73", ACTIV: "#cc79a7", POOL: "#e69f00", DECUN: "#8c6bb1" };

  function facts(step) {
    const rows = [["epoch", `${step.n}: ${step.title}`], ["runs on", step.on.toUpperCase()], ["cycles", `${format(step.cycles)} (${step.ms.toFixed(4)} ms)${step.known ? "" : ", a guess"}`], ["bound by", step.bound || "nothing"]];
    if (step.st) rows.push(["ST would estimate", format(step.st) + " cycles"]);
    if (step.bytes) rows.push(["bytes moved", bytes(step.bytes)]);
    if (step.chains.length) rows.push(["chain", step.chains.join("; ")]);
    if (step.modes.length) rows.push(["modes", step.modes.join(", ")]);
    const parts = Object.entries(step.parts).map(([name, cycles]) => `${name} ${format(cycles)}`);
    if (parts.length) rows.push(["terms of the model", parts.join(", ")]);
    return el("dl", {}, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }

  function wiring(step) {
    const names = Object.keys(step.units);
    if (!names.length) return el("p", { class: "hint" }, "The processor computes this step: no units are wired.");
    // columns by the longest way from a reader; rings are cut where they close
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
    const columns = [];
    for (const name of names) (columns[depth.get(name)] = columns[depth.get(name)] || []).push(name);
    const used = columns.filter(Boolean), W = 104, H = 30, GX = 44, GY = 10, rowsMost = Math.max(...used.map(c => c.length));
    const width = used.length * (W + GX), height = rowsMost * (H + GY) + 10, place = new Map();
    used.forEach((column, c) => column.sort().forEach((name, r) => place.set(name, { x: c * (W + GX) + 4, y: 6 + r * (H + GY) + (rowsMost - column.length) * (H + GY) / 2 })));
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, style: `max-width:${width}px;min-width:${Math.min(width, 620)}px`, role: "img", "aria-label": "units and links of the epoch" });
    for (const [from, to, port, gate] of step.links) {
      const a = place.get(from), b = place.get(to);
      if (!a || !b) continue;
      const x1 = a.x + W, y1 = a.y + H / 2, x2 = b.x, y2 = b.y + 6 + Math.min(port, 2) * 9;
      const line = svg("path", { d: x2 > x1 ? `M${x1} ${y1}C${x1 + 22} ${y1} ${x2 - 22} ${y2} ${x2} ${y2}` : `M${x1} ${y1}C${x1 + 40} ${y1 + 40} ${x2 - 40} ${y2 + 40} ${x2} ${y2}`, fill: "none", stroke: gate ? "#d55e00" : "var(--soft)", "stroke-width": 1.6 });
      picture.append(tip(line, `${from} to ${to} port ${port}${gate ? "\n" + gate : ""}`));
    }
    for (const name of names) {
      const { x, y } = place.get(name), kind = name.replace(/\d+$/, "");
      picture.append(tip(svg("g", {}, svg("rect", { x, y, width: W, height: H, rx: 5, fill: UNIT[kind] || "#777" }), svg("text", { x: x + W / 2, y: y + 19, "text-anchor": "middle", style: "fill:#fff;font-weight:600" }, short(name, 15))), `${name}\n${step.units[name]}`));
    }
    return el("div", { class: "scroll" }, picture);
  }

  onSelect(index => {
    const step = D.steps[index], layer = layerOf.get(step.layer);
    const rules = layer ? reasons(layer) : [];
    $("detail-body").replaceChildren(el("div", {}, facts(step), ...rules), el("div", {}, wiring(step)));
  });
})();
