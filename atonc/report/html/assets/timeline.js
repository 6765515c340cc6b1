// Epochs over time: one lane for the NPU, one for the CPU.
(function () {
  const host = $("timeline-plot"), LEFT = 40, HEIGHT = 118;
  const starts = []; let total = 0;
  for (const step of D.steps) { starts.push(total); total += step.ms; }
  total = total || 1;
  let from = 0, to = total;  // the part that is shown, in milliseconds

  function draw() {
    const width = host.clientWidth || 800, scale = (width - LEFT - 6) / (to - from);
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "timeline" });
    for (const [lane, y] of [["NPU", 26], ["CPU", 68]]) picture.append(svg("text", { x: 2, y: y + 18, class: "soft" }, lane));
    axis(picture, width, scale);
    const marks = svg("g");
    D.steps.forEach((step, i) => {
      const x = LEFT + (starts[i] - from) * scale, w = step.ms * scale;
      if (x + w < LEFT || x > width) return;
      const left = Math.max(LEFT, x);
      const mark = svg("rect", { x: left, y: step.on === "npu" ? 22 : 64, width: Math.max(0.6, Math.min(x + w, width) - left - (w > 3 ? 0.5 : 0)),
        height: 30, fill: colour(step), class: "mark" + (i === selected ? " chosen" : ""), "data-step": i, onclick: () => select(i, "timeline") });
      marks.append(tip(mark, () => stepText(step)));
    });
    const clip = svg("clipPath", { id: "lane" }, svg("rect", { x: LEFT, y: 0, width: width - LEFT, height: HEIGHT }));
    marks.setAttribute("clip-path", "url(#lane)");
    picture.append(clip, marks);
    host.replaceChildren(picture);
  }

  function axis(picture, width, scale) {
    const rough = (to - from) / Math.max(3, width / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = LEFT + (t - from) * scale;
      picture.append(svg("line", { x1: x, x2: x, y1: 16, y2: 98, class: "axis" }),
        svg("text", { x: x, y: 112, "text-anchor": "middle", class: "soft" }, t.toFixed(digits) + " ms"));
    }
  }

  function zoom(factor, centre) {
    if (!factor) { from = 0; to = total; return draw(); }
    const middle = centre ?? (starts[selected] + D.steps[selected].ms / 2);
    const span = Math.min(total, Math.max(total / 5000, (to - from) / factor));
    from = Math.max(0, Math.min(total - span, middle - span * (middle - from) / (to - from)));
    to = from + span;
    draw();
  }

  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoom(+button.dataset.zoom));
  host.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls
    event.preventDefault();
    const box = host.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.3 : 1 / 1.3, from + (event.clientX - box.left - LEFT) / (box.width - LEFT) * (to - from));
  }, { passive: false });
  let held = null;
  host.addEventListener("pointerdown", event => { held = { x: event.clientX, from, to }; });
  addEventListener("pointerup", () => { held = null; });
  host.addEventListener("pointermove", event => {
    if (!held || Math.abs(event.clientX - held.x) < 4) return;
    const span = held.to - held.from, moved = (held.x - event.clientX) / (host.clientWidth - LEFT) * span;
    from = Math.max(0, Math.min(total - span, held.from + moved));
    to = from + span;
    draw();
  });
  host.addEventListener("keydown", event => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    if (event.key in steps) { event.preventDefault(); select(selected + steps[event.key], "keys"); }
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.6 : 0.625);
  });

  const present = [...new Set(D.steps.map(boundKey))];
  for (const key of present) $("legend").append(el("span", { class: "key" }, el("i", { style: `background:${COLOURS[key]}` }), key));
  onSelect(() => {
    const start = starts[selected], end = start + D.steps[selected].ms, span = to - from;
    if (end < from || start > to) { from = Math.max(0, Math.min(total - span, start - span / 2)); to = from + span; }
    draw();
  });
  addEventListener("resize", draw);
})();
