// Roofline: multiplications per cycle over multiplications per byte, of the bus or of the flash. Scaled by the layers of the NPU.
(function () {
  const host = $("roofline-plot"), HEIGHT = 440, EDGE = 64, BOTTOM = 52, TOP = 14;
  const { peak: PEAK, cpu } = D.roofline, ROOFS = { bus: { rate: D.roofline.rate, title: "RAM over the bus", paint: "#009e73" }, flash: { rate: D.roofline.flash, title: "flash", paint: "#cc79a7" } };
  const dots = D.roofline.dots.map(([place, bus, y, flash]) => ({ layer: D.layers[place], at: { bus, flash }, y }));
  let by = address.get("roof") === "flash" ? "flash" : "bus";
  if (cpu.length) $("roofline-cpu").textContent = `Apart, since the NPU's bus is no limit to them: ${cpu.length} ${cpu.length === 1 ? "layer that multiplies" : "layers that multiply"} on the CPU (${cpu.slice(0, 4).map(i => `${short(D.layers[i].name, 40)}, ${D.layers[i].macs_per_cycle.toFixed(2)} MAC/cycle`).join("; ")}${cpu.length > 4 ? "; ..." : ""}).`;

  function draw() {
    const seen = dots.filter(d => d.at[by] > 0);
    $("roofline-legend").replaceChildren(key("#d55e00", "roof of the convolvers"), key(ROOFS[by].paint, `roof of ${ROOFS[by].title}: ${+ROOFS[by].rate.toPrecision(3)} bytes per cycle`, meaning(`roof of ${ROOFS[by].title}`)));
    for (const name of Object.keys(ROOFS)) $(`roof-${name}`).setAttribute("aria-pressed", name === by);
    if (!seen.length) { host.textContent = dots.length ? "No layer of the NPU reads weights from flash." : "No layer multiplies on the NPU."; return; }
    const width = host.clientWidth || 500, right = width - 12, bottom = HEIGHT - BOTTOM, all = seen.map(d => d.at[by]);
    const lowX = Math.min(...all) / 1.6, highX = Math.max(...all) * 1.6, lowY = Math.min(...seen.map(d => d.y)) / 1.6, highY = PEAK * 1.6;
    const log = (v, a, b) => Math.log10(v / a) / Math.log10(b / a);
    const x = v => EDGE + log(v, lowX, highX) * (right - EDGE), y = v => bottom - log(v, lowY, highY) * (bottom - TOP);
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `Roofline of ${seen.length} layers of the NPU, by bytes ${by === "bus" ? "over the bus" : "of weights from flash"}` });
    const plain = v => String(+v.toPrecision(2));
    axes(picture, { left: EDGE, top: TOP, right, bottom }, { at: x, ticks: decades(lowX, highX), text: plain, title: by === "bus" ? "multiplications per byte over the bus" : "multiplications per byte of weights from flash" }, { at: y, ticks: decades(lowY, highY), text: plain, title: "multiplications per cycle" });
    picture.append(svg("clipPath", { id: "roof" }, svg("rect", { x: EDGE, y: TOP, width: right - EDGE, height: bottom - TOP })));
    const { rate, paint, title } = ROOFS[by], corner = Math.min(highX, PEAK / rate), from = Math.max(lowX, lowY / rate);
    if (from < corner) picture.append(tip(svg("path", { d: `M${x(from)} ${y(from * rate)}L${x(corner)} ${y(corner * rate)}`, fill: "none", stroke: paint, "stroke-width": 2.4, "clip-path": "url(#roof)" }), `${title}: ${rate} bytes per cycle`));
    picture.append(svg("line", { x1: EDGE, x2: right, y1: y(PEAK), y2: y(PEAK), stroke: "#d55e00", "stroke-width": 2 }), svg("text", { x: right - 4, y: y(PEAK) - 5, "text-anchor": "end" }, `${PEAK} MAC/cycle: all convolvers`));
    const most = Math.max(...seen.map(d => d.layer.cycles)), current = chosen >= 0 ? D.layers[chosen].name : "";
    for (const { layer, at, y: b } of seen) {
      const mark = svg("circle", { cx: x(at[by]), cy: y(b), r: 3 + 9 * Math.sqrt(layer.cycles / most), fill: COLOURS[labelKey(Object.keys(layer.bound_by)[0])], opacity: 0.75, class: "mark" + (layer.name === current ? " chosen" : ""), onclick: () => selectLayer(layerOf.get(layer.name), "roofline") });
      picture.append(tip(mark, `${layer.label}: ${short(layer.name, 80)}\n${b.toFixed(1)} MAC/cycle, ${at[by].toFixed(1)} MAC/byte, ${format(layer.cycles)} cycles, bottleneck ${bottleneck(Object.keys(layer.bound_by)[0] || "none")}`));
    }
    host.replaceChildren(picture);
  }
  for (const name of Object.keys(ROOFS)) $(`roof-${name}`).addEventListener("click", () => { by = name; address.set("roof", name === "bus" ? null : name); draw(); });
  onSelect(draw);
  addEventListener("resize", later(draw));
})();
