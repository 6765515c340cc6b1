// Epochs over time: one row for the NPU, one for the CPU. What runs side by side in an epoch is a bar of its own.
(function () {
  const host = $("timeline-plot"), HEIGHT = 118, TALL = 30, COPY = "#9aa3b2";
  const carries = new Set(D.layers.filter(l => l.decisions.some(d => d.rule === "CHAIN-CARRIES")).flatMap(l => l.epochs));
  const beside = D.steps.map(chainsOf);

  // chains of an epoch: units that are linked, copies (engines alone) last
  function chainsOf(step) {
    const home = Object.fromEntries(Object.keys(step.units).map(unit => [unit, unit]));
    const root = unit => home[unit] === unit ? unit : root(home[unit]);
    for (const [from, to] of step.links) if (from in home && to in home) home[root(from)] = root(to);
    const found = {};
    for (const unit in home) (found[root(unit)] ??= []).push(unit);
    return Object.values(found).map(units => units.every(unit => unit.startsWith("STRENG"))).sort();
  }

  // lines between the bars of chains, copies beside others in their own colour, a line above chains of several layers
  function inside(step, i, x, width) {
    const copies = beside[i], tall = TALL / copies.length, marks = [];
    if (width < 3 || step.on !== "npu") return marks;
    copies.forEach((copy, k) => {
      const y = 22 + k * tall, none = { "pointer-events": "none" };
      if (copy && !copies[0]) marks.push(svg("rect", { x, y, width, height: tall, fill: COPY, class: "copy", ...none }));
      if (k) marks.push(svg("line", { x1: x, x2: x + width, y1: y, y2: y, stroke: "var(--card)", "stroke-width": 1.5, class: "beside", ...none }));
    });
    if (carries.has(step.n)) marks.push(svg("line", { x1: x, x2: x + width, y1: 20, y2: 20, stroke: "currentColor", "stroke-width": 2, class: "chain" }));
    return marks;
  }

  function draw() {
    const width = host.clientWidth || 800, { from, to } = shown, scale = (width - LEFT - RIGHT) / (to - from);
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "timeline" });
    for (const [lane, y] of [["NPU", 26], ["CPU", 68]]) picture.append(svg("text", { x: 4, y: y + 16, class: "soft" }, lane));
    axis(picture, width, scale);
    const marks = svg("g", { "clip-path": "url(#lane)" });
    D.steps.forEach((step, i) => {
      const x = LEFT + (starts[i] - from) * scale, w = step.ms * scale;
      if (x + w < LEFT || x > width) return;
      const left = Math.max(LEFT, x);
      const mark = svg("rect", { x: left, y: step.on === "npu" ? 22 : 64, width: Math.max(0.6, Math.min(x + w, width - RIGHT) - left - (w > 3 ? 0.5 : 0)),
        height: TALL, fill: colour(step), class: "mark" + (i === selected ? " chosen" : ""), "data-step": i });
      marks.append(mark, ...inside(step, i, left, +mark.getAttribute("width")));
    });
    picture.append(svg("clipPath", { id: "lane" }, svg("rect", { x: LEFT, y: 0, width: width - LEFT - RIGHT + 1, height: HEIGHT })), marks);
    host.replaceChildren(picture);
  }

  function axis(picture, width, scale) {
    const { found, digits } = ticks(shown.from, shown.to, (width - LEFT) / 100);
    for (const t of found) {
      const x = LEFT + (t - shown.from) * scale, last = x > width - 34;
      picture.append(svg("line", { x1: x, x2: x, y1: 16, y2: 98, class: "axis" }),
        svg("text", { x: last ? width - 2 : x, y: 112, "text-anchor": last ? "end" : "middle", class: "soft" }, t.toFixed(digits) + " ms"));
    }
  }

  function zoom(factor, centre) {
    if (!factor) return show(0, total);
    const middle = centre ?? (starts[selected] + starts[selected + 1]) / 2, span = (shown.to - shown.from) / factor;
    const inside = Math.max(0, Math.min(1, (middle - shown.from) / (shown.to - shown.from)));
    show(middle - span * inside, middle + span * (1 - inside));
  }
  const timeAt = event => { const box = host.getBoundingClientRect(); return shown.from + (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * (shown.to - shown.from); };

  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoom(+button.dataset.zoom));
  host.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.3 : 1 / 1.3, timeAt(event));
  }, { passive: false });
  let held = null;
  host.addEventListener("pointerdown", event => { held = { x: event.clientX, from: shown.from, span: shown.to - shown.from, moved: false }; });
  addEventListener("pointerup", event => {
    if (held && !held.moved && host.contains(event.target)) select(stepAt(timeAt(event)), "timeline");
    held = null;
  });
  host.addEventListener("pointermove", event => {
    if (held && (held.moved || Math.abs(event.clientX - held.x) > 4)) {
      held.moved = true;
      const from = held.from + (held.x - event.clientX) / (host.clientWidth - LEFT - RIGHT) * held.span;
      return show(from, from + held.span);
    }
    const step = event.target.dataset ? event.target.dataset.step : undefined;
    if (step !== undefined) showTip(event, stepText(D.steps[+step])); else hideTip();
  });
  host.addEventListener("pointerleave", hideTip);
  host.addEventListener("keydown", event => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    if (event.key in steps) { event.preventDefault(); select(selected + steps[event.key], "keys"); }
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.6 : 0.625);
  });

  for (const name of new Set(D.steps.map(boundKey))) $("legend").append(boundKeyed(COLOURS[name], name));
  if (beside.some(copies => copies.at(-1) && !copies[0])) $("legend").append(key(COPY, "copy beside"));
  const redraw = later(draw);
  onShow(redraw);
  onSelect(() => {
    const start = starts[selected], end = starts[selected + 1], span = shown.to - shown.from;
    if (end < shown.from || start > shown.to) show(start - span / 2, start + span / 2);
    draw();
  });
  addEventListener("resize", redraw);
})();
