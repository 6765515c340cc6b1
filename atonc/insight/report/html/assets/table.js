// All layers with shape, time and reasons: search, sort, save; a click selects.
(function () {
  const bound = l => Object.keys(l.bound_by)[0] || "", rules = l => l.decisions.map(d => d.rule);
  const columns = [
    ["epochs", l => l.epochs[0] ?? 1e9, "number wide", epochText, epochText],
    ["layer", l => l.name, "name", l => name(l.name, 60), l => l.name],
    ["operator", l => l.label, "line", l => l.label],
    ["ms", l => l.milliseconds, "number", l => l.epochs.length ? l.milliseconds.toFixed(4) : "", l => l.milliseconds.toFixed(6)],
    ["share", l => l.milliseconds, "number", l => el("span", { class: "bar", style: `--share:${(100 * share(l)).toFixed(2)}%` }, percent(share(l))), l => share(l).toFixed(6)],
    ["shape", l => l.shape.reduce((a, b) => a * b, 1), "number", l => shapeText(l.shape), l => l.shape.join("x")],
    ["on", l => l.on, "", l => badge(l.on)],
  ];
  if (D.measured) columns.push(["measured ms", l => measuredOf(l) ?? -1, "number", l => measuredOf(l) === null ? "" : measuredOf(l).toFixed(4), l => measuredOf(l) ?? ""]);
  for (const [key, title, digits] of D.columns) columns.push([title, l => l[key], "number", l => !l[key] ? "" : digits ? l[key].toFixed(digits) : format(l[key]), l => l[key]]);
  if (D.layers.some(l => l.error)) columns.push(["codes that differ", l => l.error ? l.error[1] : -1, "number", l => l.error ? l.error[1].toFixed(2) + " %" : "", l => l.error ? l.error[1] : ""]);
  columns.push(["bound by", bound, "line", bound], ["rules", l => rules(l).join(" "), "rules", l => rules(l).join(", ")]);

  const haystack = new Map(D.layers.map(l => [l, [l.name, l.op, l.label, l.on, ...l.nodes, ...l.modes, ...Object.keys(l.bound_by), ...l.decisions.map(d => d.rule + " " + d.seen)].join(" ").toLowerCase()]));
  function found() {
    const wanted = $("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean), cpu = $("only-cpu").checked;
    const list = D.layers.filter(l => (!cpu || l.on === "cpu" || l.on === "hybrid") && wanted.every(w => haystack.get(l).includes(w)));
    $("found").textContent = `${list.length} of ${D.layers.length} layers`;
    return list;
  }
  const rowOf = new Map(), pick = (layer, open) => { selectLayer(layerOf.get(layer.name), "table"); if (open) $("detail").classList.add("open"); };
  const table = sortable($("table"), columns, found, (layer, cells) => {
    const row = el("tr", { class: "row" + (layerOf.get(layer.name) === chosen ? " open" : ""), tabindex: 0, title: layer.nodes.join(", "), onclick: () => pick(layer, true),
      onkeydown: e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); pick(layer, true); } } }, ...cells);
    rowOf.set(layer.name, row);
    return row;
  });
  $("search").addEventListener("input", table.body);
  $("only-cpu").addEventListener("change", table.body);
  $("csv").addEventListener("click", () => table.csv(`${D.name}_layers.csv`));
  let lit = null;
  onSelect((index, from) => {
    const row = chosen >= 0 ? rowOf.get(D.layers[chosen].name) : null;
    if (lit) lit.classList.remove("open");
    if (row) row.classList.add("open");
    lit = row;
    const box = $("table").parentElement;  // the table scrolls inside, the page stays
    if (row && from !== "table" && row.isConnected) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  });
  table.body();
})();
