// Where time is lost: what each layer takes beyond its attainable minimum, the most first.
(function () {
  if (!D.limit) { $("lost").hidden = true; document.querySelector("nav a[href='#lost']").hidden = true; return; }
  const lost = D.layers.filter(l => l.lost_cycles), most = Math.max(...lost.map(l => l.cycles), 1), ms = cycles => cycles / D.npu_mhz / 1000, whole = D.totals.cycles || 1;
  const onCpu = D.steps.filter(s => s.on !== "npu").reduce((sum, s) => sum + s.cycles, 0), sum = lost.reduce((all, l) => all + l.lost_cycles, 0);
  const tried = l => { const found = l.decisions.find(d => d.rule === "FORM-CHEAPEST"); return found ? found.seen : ""; };
  const waits = l => bottleneck(Object.keys(l.bound_by)[0] || "");
  $("lost-hint").textContent = `The network takes ${D.limit.times_practical.toFixed(2)}x its attainable minimum of ${milliseconds(ms(D.limit.practical_cycles))} (each convolution in one epoch, on three chains of one convolver or two chains of two; other operators free) ` +
    `and ${D.limit.times_absolute.toFixed(2)}x the theoretical minimum of ${milliseconds(ms(D.limit.absolute_cycles))} (all convolvers busy in every cycle, weights read from external memory once). With all weights in RAM the attainable minimum would be ${milliseconds(ms(D.limit.practical_in_ram_cycles))}. ` +
    `Lost: ${milliseconds(ms(sum))}, ${percent(sum / whole)} of the time; the CPU takes ${milliseconds(ms(onCpu))}, which counts in full in the attainable minimum.`;
  const bar = l => el("span", { class: "two", style: `--bound:${(100 * Math.min(l.practical_cycles, l.cycles) / most).toFixed(2)}%;--all:${(100 * l.cycles / most).toFixed(2)}%` });
  const columns = [
    { id: "layer", title: "layer", value: l => l.name, cell: l => l.name, kind: "name", from: 0 },
    { id: "operator", title: "operator", value: l => l.label, cell: l => l.label, width: 152, from: 1500 },
    { id: "taken", title: "attainable, lost", value: l => l.cycles, cell: bar, kind: "number", width: 120, from: 700 },
    { id: "lost", title: "lost ms", value: l => l.lost_cycles, cell: l => ms(l.lost_cycles).toFixed(4), kind: "number", width: 86, from: 0 },
    { id: "part", title: "of all", value: l => l.lost_cycles, cell: l => percent(l.lost_cycles / whole), kind: "number", width: 66, from: 0 },
    { id: "times", title: "x attainable minimum", value: l => l.times_limit || 1e9, cell: l => l.times_limit ? l.times_limit.toFixed(2) : "free", kind: "number", width: 104, from: 0 },
    { id: "waits", title: "bottleneck", value: waits, cell: waits, width: 106, from: 900 },
    { id: "held", title: "limited by", value: l => l.limited_by, cell: l => bottleneck(l.limited_by), width: 134, from: 1200 },
    { id: "tried", title: "alternatives", value: tried, cell: tried, width: 110, from: 1280 },
  ];
  const table = sortable($("lost-table"), columns, {
    rows: () => [...lost], sort: "lost", down: true, most: 20, key: "lost-columns", isChosen: l => layerOf.get(l.name) === chosen, hint: l => `${l.name}\n${tried(l) || "no alternative was possible"}`,
    pick: (layer, open) => { selectLayer(layerOf.get(layer.name), "lost"); if (open) openDetail(); },
  });
  onSelect((index, from) => { if (from !== "lost" && chosen >= 0 && lost.includes(D.layers[chosen])) table.goTo(D.layers[chosen]); else table.redraw(); });
})();
