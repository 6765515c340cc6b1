// All layers with shape, time and reasons: search, sort, choose columns, save, print; a click selects.
(function () {
  const bound = l => bottleneck(Object.keys(l.bound_by)[0] || ""), rules = l => l.decisions.map(d => d.rule).filter(id => !id.startsWith("BOUND-")), size = l => l.shape.reduce((a, b) => a * b, 1);
  const columns = [
    { id: "epochs", title: "epochs", value: l => l.epochs[0] ?? 1e9, cell: epochText, text: epochText, kind: "number", width: 66, from: 1500 },
    { id: "layer", title: "layer", value: l => D.pending ? layerOf.get(l.name) : l.name, cell: l => l.name, kind: "name", from: 0 },
    { id: "operator", title: "operator", value: l => l.label, cell: l => l.label, width: 152, from: 700 },
    { id: "ms", title: "ms", value: l => l.milliseconds, cell: l => l.epochs.length ? l.milliseconds.toFixed(4) : "", text: l => l.milliseconds.toFixed(6), kind: "number", width: 68, from: 0 },
    { id: "share", title: "share", value: l => l.milliseconds, cell: l => el("span", { class: "bar", style: `--share:${(100 * share(l)).toFixed(2)}%` }, percent(share(l))), text: l => share(l).toFixed(6), kind: "number", width: 76, from: 0 },
    { id: "shape", title: "shape", value: size, cell: l => shapeText(l.shape), text: l => l.shape.join("x"), kind: "number", width: 112, from: 1700 },
    { id: "on", title: "on", value: l => l.on, cell: l => badge(l.on), text: l => l.on, width: 56, from: 0 },
  ];
  if (D.measured) columns.push({ id: "measured", title: "measured ms", value: l => measuredOf(l) ?? -1, cell: l => measuredOf(l) === null ? "" : measuredOf(l).toFixed(4), text: l => measuredOf(l) ?? "", kind: "number", width: 92, from: 1100 });
  for (const [key, title, digits, window] of D.columns) columns.push({ id: key, title, value: l => l[key], cell: l => !l[key] ? "" : digits ? l[key].toFixed(digits) : format(l[key]), text: l => l[key], kind: "number", width: Math.max(66, 8 * Math.max(...title.split(" ").map(word => word.length)) + 18), from: window ?? NEVER });
  if (D.layers.some(l => l.error)) columns.push({ id: "error", title: "values that differ", value: l => l.error ? l.error[1] : -1, cell: l => l.error ? l.error[1].toFixed(2) + " %" : "", text: l => l.error ? l.error[1] : "", kind: "number", width: 128, from: 1700 });
  columns.push({ id: "bound", title: "bottleneck", value: bound, cell: bound, width: 104, from: 700 },
    { id: "weights", title: "weights", value: elements, cell: l => l.weights.length ? shapeText(l.weights[0].shape) : "", text: l => l.weights.map(w => w.shape.join("x")).join(" "), kind: "number", width: 112, from: NEVER },
    { id: "rules", title: "rules", value: l => rules(l).join(" "), cell: l => rules(l).join(", "), kind: "rules", width: 150, from: 1100 });

  if (D.pending) columns.splice(0, columns.length, ...columns.filter(c => ["layer", "operator", "shape", "weights"].includes(c.id)).map(c => ({ ...c, from: c.id === "shape" ? 700 : 0 })));

  const haystack = new Map(D.layers.map(l => [l, [l.name, l.op, l.label, l.on, ...l.nodes, ...l.modes, ...Object.keys(l.bound_by), ...l.decisions.map(d => d.rule + " " + d.seen)].join(" ").toLowerCase()]));
  function found() {
    const wanted = $("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean), cpu = $("only-cpu").checked;
    const list = D.layers.filter(l => (!cpu || l.on === "cpu" || l.on === "hybrid") && wanted.every(w => haystack.get(l).includes(w)));
    $("found").textContent = `${list.length} of ${D.layers.length} ${D.layers.length === 1 ? "layer" : "layers"}`;
    return list;
  }
  const table = sortable($("table"), columns, {
    rows: found, chooser: $("chooser"), isChosen: l => layerOf.get(l.name) === chosen,
    hint: l => `${l.name}\n${rules(l).join(", ")}`, why: l => l.decisions.map(d => `${d.rule}: ${d.seen}.${d.remedy ? ` Action: ${d.remedy}.` : ""}`).join(" "),
    pick: (layer, open) => { selectLayer(layerOf.get(layer.name), "table"); if (open) openDetail(); },
  });
  $("search").addEventListener("input", table.draw);
  $("only-cpu").addEventListener("change", table.draw);
  $("csv").addEventListener("click", () => table.csv(`${D.name}_layers.csv`));
  onSelect((index, from) => { if (from !== "table" && chosen >= 0) table.goTo(D.layers[chosen]); else table.redraw(); });
})();
