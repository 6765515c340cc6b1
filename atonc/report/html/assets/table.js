// All layers with their reasons: search, sort, open a row for the rules.
(function () {
  const COLUMNS = [["epochs", l => l.epochs[0] ?? 1e9, "number"], ["layer", l => l.nodes.join(", ")], ["operator", l => l.op, "wide"], ["runs on", l => l.on], ["cycles", l => l.cycles, "number wide"],
    ["share", l => l.milliseconds, "number"], ["MAC/cycle", l => l.macs_per_cycle, "number wide"], ["bound by", l => Object.keys(l.bound_by)[0] || "", "wide"], ["rules", l => l.decisions.map(d => d.rule).join(" "), "wide"]];
  let sorted = 0, down = false;
  const open = new Set();
  const haystack = new Map(D.layers.map(l => [l, [l.name, l.op, l.on, ...l.nodes, ...l.modes, ...Object.keys(l.bound_by), ...l.decisions.map(d => d.rule + " " + d.seen)].join(" ").toLowerCase()]));

  function head() {
    $("table").tHead.replaceChildren(el("tr", {}, ...COLUMNS.map(([name, , kind], i) => el("th", { class: kind || "", "aria-sort": i === sorted ? (down ? "descending" : "ascending") : "none" },
      el("button", { onclick: () => { down = sorted === i ? !down : i > 3; sorted = i; head(); body(); } }, name + (i === sorted ? (down ? " \u25be" : " \u25b4") : ""))))));
  }

  function rows() {
    const wanted = $("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean), cpu = $("only-cpu").checked, value = COLUMNS[sorted][1];
    const found = D.layers.filter(l => (!cpu || l.on === "cpu" || l.on === "hybrid") && wanted.every(w => haystack.get(l).includes(w)));
    return found.sort((a, b) => { const p = value(a), q = value(b); return (p < q ? -1 : p > q ? 1 : 0) * (down ? -1 : 1); });
  }

  function body() {
    const found = rows(), total = D.totals.latency_ms || 1;
    $("found").textContent = `${found.length} of ${D.layers.length} layers`;
    $("table").tBodies[0].replaceChildren(...found.flatMap(layer => {
      const numbers = layer.epochs.length > 1 ? `${layer.epochs[0]}\u2013${layer.epochs[layer.epochs.length - 1]}` : layer.epochs.join("");
      const cells = [numbers, layer.nodes.join(", "), layer.op, badge(layer.on), format(layer.cycles), (100 * layer.milliseconds / total).toFixed(1) + " %", layer.macs ? layer.macs_per_cycle.toFixed(1) : "", Object.keys(layer.bound_by)[0] || "", layer.decisions.map(d => d.rule).join(", ")];
      const toggle = () => { open.has(layer) ? open.delete(layer) : open.add(layer); if (layer.epochs.length) selectStep(layer.epochs[0], "table"); body(); };
      const row = el("tr", { class: "row" + (open.has(layer) ? " open" : ""), tabindex: 0, "aria-expanded": open.has(layer), onclick: toggle, onkeydown: e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); toggle(); } } },
        ...cells.map((cell, i) => el("td", { class: (COLUMNS[i][2] || "") + (i === 1 ? " name" : "") }, cell)));
      return open.has(layer) ? [row, el("tr", { class: "open" }, el("td", { colspan: COLUMNS.length }, ...reasons(layer)))] : [row];
    }));
  }
  const badge = on => el("span", { class: "badge", style: `background:${{ npu: "#0072b2", cpu: "#8a6508", hybrid: "#76529c", none: "#667085" }[on] || "#667085"}` }, on);

  $("search").addEventListener("input", body);
  $("only-cpu").addEventListener("change", body);
  head();
  body();
})();

function reasons(layer) {
  if (!layer.decisions.length) return [el("p", { class: "hint" }, layer.on === "none" ? "Costs nothing: the data stays where it is." : "Nothing special.")];
  return layer.decisions.map(d => el("div", { class: "rule" }, el("b", {}, `${d.rule}: ${d.sentence}`), el("p", {}, `Seen: ${d.seen}. Limit: ${d.limit}.`),
    el("p", {}, !d.remedy ? "" : `What to do: ${d.remedy}.${d.price && d.price.tried ? ` Tried: ${format(d.price.cycles)} cycles and ${bytesGain(d.price.bytes)} gained (${d.price.how}).` : ""}`)));
}
const bytesGain = n => (n < 0 ? "\u2212" : "") + bytes(Math.abs(n));
