// Head, warnings and the reproduce block; then everything is drawn once.
(function () {
  const t = D.totals, tiles = [[milliseconds(t.latency_ms), D.basis === "predicted" ? `predicted, \u00b1 ${Math.max(1, Math.round(100 * t.error))} %` : D.basis], [t.cycles >= 1e8 ? (t.cycles / 1e6).toFixed(1) + " M" : format(t.cycles), "cycles"], [`${t.npu} / ${t.cpu + t.hybrid}`, "epochs on NPU / CPU"], [bytes(t.activations), "activations"], [bytes(t.weights), "weights"]];
  if (t.macs) tiles.push([(t.macs / 1e6).toFixed(1) + " M", "multiplications"], [(t.macs / Math.max(1, t.cycles)).toFixed(1), "MAC/cycle"]);
  if (t.energy_uj) tiles.push([t.energy_uj >= 100 ? (t.energy_uj / 1000).toFixed(2) + " mJ" : t.energy_uj.toFixed(2) + " \u00b5J", "energy of the NPU, estimated"]);
  const top = Object.entries(D.bound_by)[0];
  if (top) tiles.push([top[0], `bounds ${(100 * top[1]).toFixed(0)} % of the time`]);
  $("head").append(el("h1", {}, D.model), el("p", { class: "sub" }, `compiled by ${D.tool}${D.board ? " for " + D.board : ""}, NPU ${D.npu_mhz} MHz, CPU ${D.cpu_mhz} MHz; ${D.measured ? "predicted, and measured: " + milliseconds(D.measured.ms) : D.basis + ", not measured on a board"}`),
    el("div", { class: "tiles" }, ...tiles.map(([value, name]) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, name)))));
  const alerts = [];
  if (t.spilled) {
    const slow = D.steps.filter(s => boundKey(s) === "external").reduce((sum, s) => sum + s.ms, 0);
    alerts.push(`Spill: ${bytes(t.spilled)} of activations lie in external RAM; epochs that wait for it take ${milliseconds(slow)}. atonc explain tries what would help.`);
  }
  if (D.floats.length) alerts.push(`${D.floats.length} operators were left in float by the quantiser: they run on the CPU.`);
  $("alerts").append(...alerts.map(text => el("p", {}, text)), ...(D.floats.length ? [el("details", {}, el("summary", {}, "Which, and why"), el("ul", {}, ...D.floats.map(([kind, name, size, why]) => el("li", {}, `${kind} ${name} (${bytes(size)}): ${why}`))))] : []));
  const doubts = D.uncertain.map(([what, share]) => `${(100 * share).toFixed(0)} % of the predicted time is ${what}.`);
  $("notes").append(...[...doubts, ...D.notes].map(text => el("p", {}, text)));
  if (D.silicon) $("notes").append(el("p", {}, `Evidence on silicon: ${D.silicon.head}.`), ...D.silicon.groups.map(([what, epochs, forms]) => el("details", {}, el("summary", {}, `${what} (${epochs} epochs)`), el("ul", {}, ...forms.map(text => el("li", {}, text))))));
  const list = Object.entries(D.reproduce);
  $("reproduce-list").append(...(list.length ? list : [["tool", D.tool]]).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, el("code", {}, value))]));
  select(D.steps.reduce((best, s, i) => s.ms > D.steps[best].ms ? i : best, 0), "start");
})();
