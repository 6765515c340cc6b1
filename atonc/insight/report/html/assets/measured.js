// What a board took, block by block, beside what was predicted; only where a board has run it.
(function () {
  if (!D.measured) return;
  const found = D.measured, head = ["epochs", "measured", "predicted", "measured / predicted", "before / core / after (CPU cycles)", "measured at the NPU's clock", "predicted cycles"];
  const row = cells => el("tr", {}, ...cells.map((cell, i) => el("td", { class: i ? "number" : "" }, cell)));
  $("measured").hidden = false;
  $("measured-source").textContent = `${found.source}: ${milliseconds(found.ms)} from start to end.`;
  $("measured-table").tHead.replaceChildren(heads(head, i => i));
  $("measured-table").tBodies[0].replaceChildren(...found.blocks.map(b => row([b.first === b.last ? String(b.first) : `${b.first}\u2013${b.last}`, milliseconds(b.ms), milliseconds(b.predicted_ms),
    b.predicted_ms ? (b.ms / b.predicted_ms).toFixed(2) : "", b.parts.map(format).join(" / "), format(b.cycles), format(b.predicted)])));
})();
