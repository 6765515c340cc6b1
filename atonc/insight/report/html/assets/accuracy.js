// Signal to noise of every layer against float, what costs most and what mends it; only where that was asked.
(function () {
  if (!D.accuracy) return;
  const found = D.accuracy, db = v => v === null ? "" : typeof v === "string" ? v : v.toFixed(1);
  const price = r => r.after_ms === null ? "" : `, ${milliseconds(r.before_ms)} \u2192 ${milliseconds(r.after_ms)}`;
  const remedy = r => el("li", {}, r.tried ? `${r.what}: ${db(r.before_db)} \u2192 ${db(r.after_db)} dB${price(r)}${r.why_not ? " (" + r.why_not + ")" : ""}` : `${r.what}: not possible: ${r.why_not}`);
  $("accuracy").hidden = false;
  $("accuracy-source").textContent = `${found.outputs.map(o => `${o.name}: ${db(o.quantised_db)} dB as int8, ${db(o.npu_db)} dB on the NPU`).join("; ")}. Against ${found.float_model || "the model's own numbers without rounding"}, ${found.samples} samples. ${found.notes.join(" ")}`;
  $("accuracy-findings").replaceChildren(...found.findings.map(f => el("li", {}, el("strong", {}, name(f.layer)), ` ${f.part}, ${f.symptom}: ${f.says}. Alone it leaves ${db(f.outputs_db)} dB at the outputs.`,
    el("ul", {}, ...f.remedies.map(remedy)))));
  const head = ["layer", "operator", "weights", "activation", "arithmetic", "weights so far", "activations so far", "arithmetic so far", "int8 so far", "worst channel"];
  const cells = l => [name(l.name), l.kind, ...l.alone.map(db), ...l.accumulated.map(db), db(l.quantised), db(l.worst_channel)];
  $("accuracy-table").tHead.replaceChildren(heads(head, i => i > 1));
  $("accuracy-table").tBodies[0].replaceChildren(...found.layers.map(l => el("tr", {}, ...cells(l).map((cell, i) => el("td", { class: i > 1 ? "number" : "" }, cell)))));
})();
