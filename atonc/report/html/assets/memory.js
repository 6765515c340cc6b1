// Memory over time: live bytes against the capacity, and every buffer at its address for as long as it lives.
(function () {
  const LEFT = 78, RIGHT = 8;
  const order = D.steps.map(s => s.n), index = n => byNumber.has(n) ? byNumber.get(n) : n <= order[0] ? 0 : order.length - 1;
  const moving = D.buffers.filter(b => b.kind !== "constant" && b.size > 0);
  let showConstants = false;

  const span = buffer => [index(buffer.first), index(buffer.last) + 1];

  function live() {
    const change = new Array(order.length + 1).fill(0);
    for (const buffer of moving) { const [a, b] = span(buffer); change[a] += buffer.size; change[b] -= buffer.size; }
    let sum = 0;
    return change.slice(0, -1).map(c => (sum += c));
  }

  function drawLive() {
    const host = $("memory-live"), width = host.clientWidth || 800, HEIGHT = 150, values = live();
    const capacity = D.pools.filter(p => !p.external).reduce((sum, p) => sum + p.size, 0);
    const top = Math.max(...values, 1), limit = capacity && capacity < 3 * top ? capacity : 0, most = Math.max(top, limit) * 1.08;
    const x = i => LEFT + i / order.length * (width - LEFT - RIGHT), y = v => HEIGHT - 22 - v / most * (HEIGHT - 36);
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "live bytes over the epochs" });
    let path = `M${x(0)} ${y(0)}`;
    values.forEach((v, i) => { path += `L${x(i)} ${y(v)}L${x(i + 1)} ${y(v)}`; });
    picture.append(svg("path", { d: path + `L${x(order.length)} ${y(0)}Z`, fill: "#56b4e9", opacity: 0.55 }));
    const lines = [[top, "peak " + bytes(top)]];
    if (limit) lines.push([limit, "on chip " + bytes(limit)]);
    for (const [i, [value, text]] of lines.entries()) picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), stroke: "#d55e00", "stroke-dasharray": "5 4" }),
      svg("text", { x: i ? width - RIGHT - 6 : LEFT + 6, y: y(value) - 3, "text-anchor": i ? "end" : "start" }, text));
    picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(0), y2: y(0), class: "axis" }), svg("text", { x: 2, y: y(top) + 4, class: "soft" }, "live bytes"));
    cursor(picture, x, HEIGHT - 20);
    picture.addEventListener("click", event => select(at(event, host, width), "memory"));
    tipSteps(picture, host, width, i => `epoch ${order[i]}: ${bytes(values[i])} live\n${short(D.steps[i].title, 80)}`);
    host.replaceChildren(picture);
  }

  const at = (event, host, width) => {
    const box = host.getBoundingClientRect();
    return Math.max(0, Math.min(order.length - 1, Math.floor((event.clientX - box.left - LEFT) / (width - LEFT - RIGHT) * order.length)));
  };
  function tipSteps(picture, host, width, text) {
    let i = 0;
    picture.addEventListener("pointermove", event => { i = at(event, host, width); });
    tip(picture, () => text(i));
  }
  function cursor(picture, x, bottom) {
    picture.append(svg("rect", { x: x(selected), y: 4, width: Math.max(1.5, x(selected + 1) - x(selected)), height: bottom - 4, fill: "none", stroke: "var(--ink)", "stroke-width": 1.2 }));
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
    const host = $("memory-pools"), width = host.clientWidth || 800;
    host.replaceChildren();
    for (const run of runs()) {
      const inside = D.buffers.filter(b => b.size > 0 && b.a >= run.base && b.a < run.end && (showConstants || b.kind !== "constant"));
      if (inside.length) host.append(drawRun(run, inside, width));
    }
  }

  function drawRun(run, inside, width) {
    const low = Math.min(...inside.map(b => b.a)), high = Math.max(...inside.map(b => b.a + b.size));
    const HEIGHT = 240, x = i => LEFT + i / order.length * (width - LEFT - RIGHT), y = a => 14 + (a - low) / Math.max(1, high - low) * (HEIGHT - 34);
    const names = run.pools.map(p => p.name).join(", ");
    const picture = svg("svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `buffers in ${names}` });
    for (const pool of run.pools) {
      const a = Math.max(low, pool.base);
      if (pool.base >= high || pool.base + pool.size <= low) continue;
      picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(a), y2: y(a), class: "axis" }), svg("text", { x: 2, y: y(a) + 11, class: "soft" }, pool.name));
    }
    for (const buffer of inside) {
      const [a, b] = span(buffer), box = { x: x(a), y: y(buffer.a), width: Math.max(1, x(b) - x(a) - 0.4), height: Math.max(1, y(buffer.a + buffer.size) - y(buffer.a) - 0.4) };
      const mark = svg("rect", { ...box, fill: KIND_COLOURS[buffer.kind] || "#999", opacity: 0.85, class: "mark", onclick: () => select(a, "memory") });
      picture.append(tip(mark, `${short(buffer.name, 110)}\n${bytes(buffer.size)} at ${hex(buffer.a)} (${buffer.pool})\n${buffer.kind}, epochs ${buffer.first} to ${buffer.last}`));
      if (box.width > 90 && box.height > 12) picture.append(svg("text", { x: box.x + 4, y: box.y + 11, "pointer-events": "none" }, short(buffer.name, Math.floor(box.width / 6.5))));
    }
    cursor(picture, x, HEIGHT - 20);
    const idle = run.pools.filter(p => !p.used).map(p => p.name);
    const chips = run.pools.filter(p => p.used).map(p => el("span", { class: "pool" }, el("b", {}, p.name), ` ${bytes(p.used)} of ${bytes(p.size)}`, el("meter", { value: p.used, max: p.size, "aria-label": `${p.name} used` })));
    return el("div", { class: "plot" }, el("p", { class: "pools" }, ...chips, idle.length ? el("span", { class: "hint" }, `unused: ${idle.join(", ")}`) : null), picture);
  }

  // what lives at the worst moment, largest first
  function listPeak() {
    const values = live(), worst = values.indexOf(Math.max(...values, 0));
    if (worst < 0) return;
    const alive = moving.filter(b => { const [a, z] = span(b); return a <= worst && worst < z; }).sort((a, b) => b.size - a.size);
    const most = 8, rows = alive.slice(0, most).map(b => el("li", {}, `${bytes(b.size)} ${b.kind}: ${b.name}${b.layer ? ` (written by ${b.layer})` : ""}`));
    if (alive.length > most) rows.push(el("li", {}, `and ${alive.length - most} more`));
    $("memory-peak").replaceChildren(el("summary", {}, `Peak: ${bytes(values[worst])} live in epoch ${order[worst]}, ${short(D.steps[worst].title, 60)}`), el("ul", {}, ...rows));
  }

  function draw() { drawLive(); drawPools(); }
  const toggle = el("button", { "aria-pressed": "false", onclick: () => { showConstants = !showConstants; toggle.setAttribute("aria-pressed", showConstants); drawPools(); } }, "Show weights");
  $("memory-tools").append(toggle);
  for (const kind of new Set(D.buffers.map(b => b.kind))) $("memory-tools").append(el("span", { class: "key" }, el("i", { style: `background:${KIND_COLOURS[kind] || "#999"}` }), kind));
  listPeak();
  onSelect(draw);
  addEventListener("resize", draw);
})();
