// Roofline: multiplications per cycle over multiplications per byte that moves.
(function () {
  const host = $("roofline-plot"), HEIGHT = 440, EDGE = 52, BOTTOM = 40;
  const { peak: PEAK, rate: RATE, cpu } = D.roofline;
  const dots = D.roofline.dots.map(([place, x, y]) => ({ layer: D.layers[place], x, y }));
  if (cpu.length) $("roofline-cpu").textContent = `Not shown: ${cpu.length} ${cpu.length === 1 ? "layer that multiplies" : "layers that multiply"} on the CPU (${cpu.slice(0, 4).map(i => short(D.layers[i].name, 40)).join(", ")}${cpu.length > 4 ? ", ..." : ""}); the NPU's bus is no limit to them.`;

  function draw() {
    if (!dots.length) { host.textContent = "No layer multiplies on the NPU."; return; }
    const width = host.clientWidth || 500;
    const lowX = Math.min(0.1, ...dots.map(d => d.x)), highX = Math.max(100, ...dots.map(d => d.x)) * 1.5;
    const lowY = Math.max(0.01, Math.min(1, ...dots.map(d => d.y)) * 0.7), highY = PEAK * 1.6;
    const log = (v, a, b) => (Math.log10(v) - Math.log10(a)) / (Math.log10(b) - Math.log10(a));
    const x = v => EDGE + log(v, lowX, highX) * (width - EDGE - 10), y = v => HEIGHT - BOTTOM - log(v, lowY, highY) * (HEIGHT - BOTTOM - 12);
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "roofline" });
    for (let p = Math.ceil(Math.log10(lowX)); p <= Math.log10(highX); p++) picture.append(svg("line", { x1: x(10 ** p), x2: x(10 ** p), y1: 12, y2: HEIGHT - BOTTOM, class: "axis" }), svg("text", { x: x(10 ** p), y: HEIGHT - 24, "text-anchor": "middle", class: "soft" }, String(10 ** p)));
    for (let p = Math.ceil(Math.log10(lowY)); p <= Math.log10(highY); p++) picture.append(svg("line", { x1: EDGE, x2: width - 10, y1: y(10 ** p), y2: y(10 ** p), class: "axis" }), svg("text", { x: EDGE - 6, y: y(10 ** p) + 4, "text-anchor": "end", class: "soft" }, String(10 ** p)));
    const corner = PEAK / RATE;
    picture.append(svg("path", { d: `M${x(Math.max(lowX, lowY / RATE))} ${y(Math.max(lowY, lowX * RATE))}L${x(corner)} ${y(PEAK)}L${x(highX)} ${y(PEAK)}`, fill: "none", stroke: "#d55e00", "stroke-width": 1.6 }),
      svg("text", { x: width - 14, y: y(PEAK) - 5, "text-anchor": "end" }, `${PEAK} MAC/cycle: all four convolvers, 3x3`),
      svg("text", { x: width / 2, y: HEIGHT - 6, "text-anchor": "middle", class: "soft" }, "multiplications per byte moved"), svg("text", { x: 4, y: 10, class: "soft" }, "MAC/cycle"));
    const most = Math.max(...dots.map(d => d.layer.cycles)), current = chosen >= 0 ? D.layers[chosen].name : "";
    for (const { layer, x: a, y: b } of dots) {
      const mark = svg("circle", { cx: x(a), cy: y(Math.max(b, lowY)), r: 3 + 9 * Math.sqrt(layer.cycles / most), fill: COLOURS[labelKey(Object.keys(layer.bound_by)[0])], opacity: 0.75, class: "mark" + (layer.name === current ? " chosen" : ""), onclick: () => selectLayer(layerOf.get(layer.name), "roofline") });
      picture.append(tip(mark, `${layer.label}: ${short(layer.name, 80)}\n${b.toFixed(1)} MAC/cycle, ${a.toFixed(1)} MAC/byte, ${format(layer.cycles)} cycles`));
    }
    host.replaceChildren(picture);
  }
  onSelect(draw);
  addEventListener("resize", later(draw));
})();
