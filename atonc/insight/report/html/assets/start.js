// Head with four tiles, best actions, more figures, validation status, inputs and outputs, how to reproduce it; then everything is drawn once.
(function () {
  const t = D.totals, known = D.basis === "predicted", bounds = `${milliseconds(t.low_ms)} to ${milliseconds(t.high_ms)}`;
  const energy = uj => uj >= 1000 ? (uj / 1000).toFixed(2) + " mJ" : uj.toFixed(1) + " uJ";
  $("head").append(el("h1", {}, name(D.model, 160)), el("p", { class: "sub" }, D.pending ? `${D.layers.length} operators, as the model has them` : `compiled by ${D.tool}${D.board ? " for " + D.board : ""}; NPU ${D.npu_mhz} MHz, CPU ${D.cpu_mhz} MHz; ${D.measured ? "predicted and measured" : D.basis + ", not measured on a board"}`),
    el("div", { class: "tiles" }, ...D.tiles.map(one => tile(...one))));
  $("more").append(...D.more.flatMap(([title, value]) => [el("dt", {}, el("span", worded(title), title)), el("dd", {}, value)]));
  $("actions").hidden = document.querySelector("nav a[href='#actions']").hidden = !D.actions.length;
  const toLayer = layer => el("button", { class: "link", onclick: () => { selectLayer(layerOf.get(layer), "actions"); openDetail(); } }, "show the layer");
  $("action-hint").hidden = D.advised;
  $("action-list").append(...D.actions.map(([what, gain, layer]) => el("li", {}, el("b", {}, ...coded(what)), `: ${gain}. `, layerOf.has(layer) ? toLayer(layer) : null)));

  const alerts = [];
  if (t.spilled) {
    const slow = D.steps.filter(s => boundKey(s) === "external").reduce((sum, s) => sum + s.ms, 0);
    alerts.push(`${bytes(t.spilled)} of activations are in external RAM; epochs whose bottleneck it is take ${milliseconds(slow)}. atonc explain tries what would help.`);
  }
  if (D.floats.length) alerts.push(`${D.floats.length} operators were left in float by the quantiser: they run on the CPU.`);
  $("alerts").append(...alerts.map(text => el("p", {}, text)), ...(D.floats.length ? [el("details", {}, el("summary", {}, "Which, and why"), el("ul", {}, ...D.floats.map(([kind, name, size, why]) => el("li", {}, `${kind} ${name} (${bytes(size)}): ${why}`))))] : []));

  // inputs and outputs
  const edge = (kind, place) => { const one = D.tensors[place]; return el("tr", {}, el("td", {}, kind), el("td", { class: "name" }, name(one.name)), el("td", { class: "line" }, shapeText(one.shape)), el("td", {}, one.type), el("td", { class: "number" }, one.scale === undefined ? (one.scales ? `${one.scales} scales` : "\u2013") : number(one.scale)), el("td", { class: "number" }, one.zero ?? "\u2013")); };
  $("edges").tHead.replaceChildren(heads(["edge", "name", "shape", "type", "scale", "zero point"], i => i > 3));
  $("edges").tBodies[0].replaceChildren(...D.inputs.map(i => edge("input", i)), ...D.outputs.map(i => edge("output", i)));

  const trust = [], say = (name, ...text) => trust.push(el("dt", {}, name), el("dd", {}, ...text.flatMap(part => typeof part === "string" ? coded(part) : [part])));
  if (D.verified) {
    const v = D.verified;
    say("numbers", `verified on the emulator with ${v.samples} input${v.samples === 1 ? "" : "s"}: ${v.layers} layer${v.layers === 1 ? "" : "s"}, each of their ${v.tensors} tensors within its limit, ${v.worst}; ${v.sums}.`,
      el("ul", {}, ...v.outputs.map(([name, said]) => el("li", {}, `${short(name, 60)}: ${said}`))));
  } else say("numbers", D.tool.startsWith("atonc") ? "not verified in this run: atonc generate does it unless --no-verify is given, and atonc validate compares with the model." : "compiled elsewhere; atonc run executes it, atonc validate compares it with the model.");
  if (known) say("latency", `error bounds ${bounds}: how far the cycle model, calibrated on boards, may be off here.`,
    ...(D.uncertain.length ? [el("ul", {}, ...D.uncertain.map(([what, part]) => el("li", {}, `${(100 * part).toFixed(0)} % of the predicted time: ${what}.`)))] : []));
  else say("latency", "what ST's compiler estimated; it leaves out the time of the CPU, and memory waits that boards show.");
  if (t.energy_uj) say("energy", `${energy(t.energy.low_uj)} to ${energy(t.energy.high_uj)}/inference of ${t.energy.covers}, ${energy(t.energy.core_uj)} of the likely figure on the core rail; whole ${t.energy.board} ${energy(t.energy.board_low_uj)} to ${energy(t.energy.board_high_uj)}, ${t.energy.board_milliwatts.toFixed(0)} mW while it runs and ${t.energy.board_idle_milliwatts.toFixed(0)} mW idle with the CPU awake; not measured. It is ${t.energy.source}.`,
    el("details", {}, el("summary", {}, "What draws it"), el("ul", {}, ...Object.entries(t.energy.parts).map(([what, [low, likely, high]]) => el("li", {}, `${what}: ${energy(likely)} (${energy(low)} to ${energy(high)})`)))));
  if (D.measured) say("board", `${D.measured.source}: ${milliseconds(D.measured.ms)}, ${(D.measured.ms / (t.latency_ms || 1)).toFixed(3)} of the prediction.`);
  if (D.silicon) say("hardware confidence", `${D.silicon.head}. ${D.silicon.strength}.`, ...(D.silicon.groups.length ? [el("details", {}, el("summary", {}, "Which NPU configurations, and why they may be used"), ...D.silicon.groups.map(([what, share, forms]) => el("details", { class: "inner" }, el("summary", {}, `${what} (${share})`), el("ul", {}, ...forms.map(text => el("li", {}, text))))))] : []));
  if (D.search.length > 1) say("search", `${D.search.length} programs were built, and this one was the best.`, el("details", {}, el("summary", {}, "What was tried"), el("ul", {}, ...D.search.map(([why, cycles, peak, verdict]) => el("li", {}, `${why}: ${cycles ? `${number(cycles)} cycles, ${number(peak)} bytes at the peak; ` : ""}${verdict}`)))));
  if (D.notes.length) say("notes", el("ul", {}, ...D.notes.map(text => el("li", {}, ...coded(text)))));
  $("trust-list").append(...trust);

  const list = Object.entries(D.reproduce);
  $("reproduce-list").append(...(list.length ? list : [["tool", D.tool]]).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, el("code", {}, value))]));
  // what the address asks for, else the slowest
  function look(from) {
    const [a, b] = numbersOf("time"), layer = layerOf.get(address.get("layer")), epoch = byNumber.get(Number(address.get("epoch") || NaN));
    if (b > a) show(a, b);
    if (layer !== undefined) selectLayer(layer, from);
    if (epoch !== undefined) select(epoch, from);
    if (D.pending && layer === undefined) selectLayer(0, from);
    if (layer === undefined && epoch === undefined && from === "start") select(D.steps.reduce((best, s, i) => s.ms > D.steps[best].ms ? i : best, 0), from);
    address.go();
  }
  address.onChange(() => look("address"));
  look("start");
})();
