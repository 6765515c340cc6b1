// Memory over time: live bytes against the capacity, and every buffer at its address for as long as it lives.
(function () {
  const count = D.steps.length;
  let constants = false, even = false;

  // the timeline's scale, or one width for every epoch
  const at = width => even ? i => LEFT + i / Math.max(1, count) * (width - LEFT - RIGHT) : i => LEFT + (starts[i] - shown.from) / (shown.to - shown.from) * (width - LEFT - RIGHT);
  function stepUnder(event, host) {
    const box = host.getBoundingClientRect(), part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    return even ? Math.max(0, Math.min(count - 1, Math.floor(part * count))) : stepAt(shown.from + part * (shown.to - shown.from));
  }

  function frame(picture, width, height, x) {
    const id = "m" + (frame.number = (frame.number || 0) + 1), bottom = height - 20;
    picture.append(svg("clipPath", { id }, svg("rect", { x: LEFT, y: 0, width: width - LEFT - RIGHT, height: bottom })));
    let last = -1e9;
    for (let i = 0; i < count; i++) {
      const here = (x(i) + x(i + 1)) / 2;
      if (here < LEFT + 4 || here > width - RIGHT - 4 || here - last < 58) continue;
      last = here;
      picture.append(svg("line", { x1: here, x2: here, y1: bottom, y2: bottom + 4, class: "axis" }), svg("text", { x: here, y: height - 5, "text-anchor": "middle", class: "soft" }, String(D.steps[i].n)));
    }
    picture.append(svg("text", { x: 4, y: height - 5, class: "soft" }, "epoch"));
    const inside = svg("g", { "clip-path": `url(#${id})` });
    picture.append(inside);
    return inside;
  }
  const cursor = (inside, x, bottom) => inside.append(svg("rect", { x: x(selected), y: 2, width: Math.max(1.5, x(selected + 1) - x(selected)), height: bottom - 2, class: "cursor" }));

  function drawLive() {
    const host = $("memory-live"), width = host.clientWidth || 800, HEIGHT = 160, x = at(width);
    const capacity = D.pools.filter(p => !p.external).reduce((sum, p) => sum + p.size, 0);
    const top = Math.max(...live, 1), limit = capacity && capacity < 3 * top ? capacity : 0, most = Math.max(top, limit) * 1.1;
    const y = v => HEIGHT - 24 - v / most * (HEIGHT - 42);
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "live bytes over the epochs" });
    const inside = frame(picture, width, HEIGHT, x);
    for (const value of [0, most / 2.2, most / 1.1]) picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: "axis" }), svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end", class: "soft" }, bytes(Math.round(value))));
    let path = `M${x(0)} ${y(0)}`;
    live.forEach((v, i) => { path += `L${x(i)} ${y(v)}L${x(i + 1)} ${y(v)}`; });
    inside.append(svg("path", { d: path + `L${x(count)} ${y(0)}Z`, fill: "#56b4e9", opacity: 0.6 }));
    const lines = [[top, "peak " + bytes(top) + " live"]];
    if (limit) lines.push([limit, "on chip " + bytes(limit)]);
    for (const [i, [value, text]] of lines.entries()) picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), stroke: "#d55e00", "stroke-dasharray": "5 4" }),
      svg("text", { x: i ? width - RIGHT - 6 : LEFT + 6, y: y(value) - 4, "text-anchor": i ? "end" : "start" }, text));
    cursor(inside, x, HEIGHT - 20);
    picture.addEventListener("click", event => select(stepUnder(event, host), "memory"));
    let i = 0;
    picture.addEventListener("pointermove", event => { i = stepUnder(event, host); });
    picture.addEventListener("pointerdown", event => { i = stepUnder(event, host); });
    tip(picture, () => `epoch ${D.steps[i].n}: ${bytes(live[i])} live\n${short(D.steps[i].title, 80)}`);
    host.replaceChildren(picture);
  }

  // pools that lie side by side are drawn as one column of addresses
  function runs() {
    const pools = [...D.pools].filter(p => p.size > 0).sort((a, b) => a.base - b.base), found = [];
    for (const pool of pools) {
      const last = found[found.length - 1];
      if (last && !pool.external && !last.external && Math.abs(pool.base - last.end) <= 64) { last.pools.push(pool); last.end = pool.base + pool.size; }
      else found.push({ pools: [pool], base: pool.base, end: pool.base + pool.size, external: pool.external });
    }
    return found;
  }
  function drawPools() {
    const host = $("memory-pools"), width = host.clientWidth || 800, unused = [];
    host.replaceChildren();
    for (const run of runs()) {
      const inside = D.buffers.filter(b => b.size > 0 && b.a >= run.base && b.a < run.end && (constants || b.kind !== "constant"));
      if (inside.length) host.append(drawRun(run, inside, width)); else if (!run.pools.some(p => p.used)) unused.push(...run.pools.map(p => p.name));
    }
    if (unused.length) host.append(el("p", { class: "hint" }, `Unused: ${unused.join(", ")}.`));
  }

  const WHOLE = 16 << 20;  // larger memories outside the chip show the part that is used
  function drawRun(run, inside, width) {
    const reach = [Math.min(...inside.map(b => b.a)), Math.max(...inside.map(b => b.a + b.size))];
    const banks = run.pools.filter(p => p.base < reach[1] && p.base + p.size > reach[0]);
    const whole = !run.external && run.end - run.base <= WHOLE;
    const low = whole ? banks[0].base : reach[0], high = whole ? banks[banks.length - 1].base + banks[banks.length - 1].size : reach[1];
    const HEIGHT = Math.max(150, Math.min(460, banks.length * 92 + 34)), bottom = HEIGHT - 20, x = at(width), y = a => 8 + (a - low) / Math.max(1, high - low) * (bottom - 12);
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `buffers in ${banks.map(p => p.name).join(", ")}` });
    const marks = frame(picture, width, HEIGHT, x);
    for (const bank of banks) {
      const a = Math.max(low, bank.base), room = y(Math.min(high, bank.base + bank.size)) - y(a);
      picture.append(svg("line", { x1: 0, x2: width - RIGHT, y1: y(a), y2: y(a), class: "bank" }), svg("text", { x: 4, y: y(a) + 12, class: "strong" }, short(bank.name, 12)));
      if (room > 26) picture.append(svg("text", { x: 4, y: y(a) + 25, class: "soft" }, hex(a)));
      if (room > 70) picture.append(svg("line", { x1: LEFT - 5, x2: width - RIGHT, y1: y(a) + room / 2, y2: y(a) + room / 2, class: "axis" }), svg("text", { x: 4, y: y(a) + room / 2 + 4, class: "soft" }, hex(Math.round(a + (Math.min(high, bank.base + bank.size) - a) / 2))));
    }
    picture.append(svg("line", { x1: 0, x2: width - RIGHT, y1: y(high), y2: y(high), class: "bank" }));
    for (const buffer of inside) {
      const [a, b] = lifetime(buffer), left = Math.max(LEFT, x(a)), right = Math.min(width - RIGHT, x(b));
      if (a === b || right < LEFT || left > width - RIGHT) continue;
      const box = { x: left, y: y(buffer.a), width: Math.max(1, right - left - 0.4), height: Math.max(1, y(buffer.a + buffer.size) - y(buffer.a) - 0.4) };
      const own = chosen >= 0 && buffer.layer === D.layers[chosen].name, called = buffer.kind === "constant" && buffer.layer ? buffer.layer : buffer.name;
      marks.append(tip(svg("rect", { ...box, fill: KIND_COLOURS[buffer.kind] || "#999", opacity: 0.85, class: "mark" + (own ? " chosen" : ""), onclick: () => pick(buffer, a) }),
        `${[buffer.name, ...buffer.also].map(n => short(n, 110)).join("\n= ")}\n${bytes(buffer.size)} at ${hex(buffer.a)} (${buffer.pool})\n${buffer.kind}, epochs ${buffer.first} to ${buffer.last}${buffer.layer ? `\n${buffer.kind === "constant" ? "read" : "written"} by ${short(buffer.layer, 80)}` : ""}`));
      if (box.width > 70 && box.height > 12) marks.append(svg("text", { x: box.x + 4, y: box.y + 11, class: "on-box" }, short(called, Math.floor(box.width / 6.6))));
    }
    cursor(marks, x, bottom);
    const chips = banks.map(p => el("span", { class: "pool" }, el("b", {}, p.name), ` ${bytes(p.used)} of ${bytes(p.size)}`, el("meter", { value: p.used, max: p.size, "aria-label": `${p.name} used` })));
    return el("div", { class: "plot" }, el("p", { class: "pools" }, ...chips), picture);
  }
  function pick(buffer, first) {
    if (layerOf.has(buffer.layer)) selectLayer(layerOf.get(buffer.layer), "memory"); else select(first, "memory");
  }

  // what lives at the worst moment, largest first
  function listPeak() {
    const worst = live.indexOf(Math.max(...live, 0));
    if (worst < 0) return;
    const alive = moving.filter(b => { const [a, z] = lifetime(b); return a <= worst && worst < z; }).sort((a, b) => b.size - a.size), most = 8;
    const rows = alive.slice(0, most).map(b => el("li", {}, `${bytes(b.size)} ${b.kind}: ${short(b.name, 90)}${b.layer ? ` (written by ${short(b.layer, 60)})` : ""}`));
    if (alive.length > most) rows.push(el("li", {}, `and ${alive.length - most} more`));
    $("memory-peak").replaceChildren(el("summary", {}, `RAM ${bytes(D.totals.ram)} (${ramText}); most live in epoch ${D.steps[worst].n}: ${bytes(live[worst])}, ${short(D.steps[worst].title, 60)}`), el("ul", {}, ...rows));
  }

  // weights by the layers that read them
  function listWeights() {
    const sums = new Map();
    for (const b of D.buffers) if (b.kind === "constant") { const known = sums.get(b.layer) || { size: 0, pools: new Set() }; known.size += b.size; known.pools.add(b.pool); sums.set(b.layer, known); }
    if (D.totals.code_constants) sums.set("CPU layers", { size: D.totals.code_constants, pools: new Set(["the C file"]) });
    if (!sums.size) return;
    const rows = [...sums].sort((a, b) => b[1].size - a[1].size), all = rows.reduce((sum, r) => sum + r[1].size, 0);
    const line = ([owner, { size, pools }]) => el("tr", { class: "row", onclick: () => layerOf.has(owner) && selectLayer(layerOf.get(owner), "memory") }, el("td", { class: "name" }, layerOf.has(owner) ? el("b", {}, D.layers[layerOf.get(owner)].label + " ") : "", owner ? name(owner, 60) : "not told"),
      el("td", { class: "number" }, bytes(size)), el("td", { class: "number" }, el("span", { class: "bar", style: `--share:${(100 * size / all).toFixed(2)}%` }, percent(size / all))), el("td", {}, [...pools].join(", ")));
    $("memory-weights").replaceChildren(el("summary", {}, `Weights by layer: ${bytes(all)} in ${rows.length} ${rows.length === 1 ? "layer" : "layers"}`), el("div", { class: "scroll low" }, el("table", {}, el("tbody", {}, ...rows.map(line)))));
  }

  function draw() { if (count) { drawLive(); drawPools(); } }
  const switched = (text, act) => { const button = el("button", { "aria-pressed": "false", onclick: () => { button.setAttribute("aria-pressed", act()); draw(); } }, text); return button; };
  $("memory-tools").append(switched("Show weights", () => (constants = !constants)), switched("Same width for every epoch", () => (even = !even)));
  for (const kind of new Set(D.buffers.map(b => b.kind))) $("memory-tools").append(key(KIND_COLOURS[kind] || "#999", kind));
  listPeak();
  listWeights();
  const redraw = later(draw);
  onSelect(draw);
  onShow(() => { if (!even) redraw(); });
  addEventListener("resize", redraw);
})();
