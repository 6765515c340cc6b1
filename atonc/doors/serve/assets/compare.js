// Two builds: figures, and the layers that differ most.

import { ask, tried } from "./client.js";
import { $, bytes, count, h, ms, put } from "./dom.js";
import { chips } from "./parts.js";

const MOST = 200;
let asked = "";

export async function show(a, b) {
  asked = `${a} ${b}`;
  put($("compare"), h("p.hint", {}, "Comparing …"));
  const found = await tried(() => ask(`/api/compare?${new URLSearchParams({ a, b })}`));
  if (asked !== `${a} ${b}`) return;
  put($("compare"), ...(found ? page(found, a, b) : [h("div.empty", {}, h("b", {}, "These builds cannot be compared"))]));
}

function page(found, a, b) {
  const [left, right] = found.jobs;
  const side = (name, job) => h("section.card", {}, h("h2", {}, `${name}: `, h("a", { href: `#/build/${job.id}` }, `${job.title} #${job.number}`)), h("div.about", {}, chips(job)), h("pre", {}, h("code", {}, job.command)));
  return [
    h("div.head", {}, h("div.grow", {}, h("h1", {}, "Two builds")), h("a.button.main", { href: `/api/compare/report?a=${a}&b=${b}`, target: "_blank", rel: "noopener" }, "Both on one page, layer by layer"), h("a.button", { href: `#/compare/${b}/${a}` }, "Exchange A and B")),
    h("div.columns", {}, side("A", left), side("B", right)),
    ...differs(found),
    h("section.card.scroll", { tabindex: 0, role: "region", "aria-label": "Figures of both" }, figures(found)),
    h("section.card.scroll", { tabindex: 0, role: "region", "aria-label": "Layers that differ most" }, h("h2", {}, "Layers that differ most"), layers(found)),
  ];
}

// what differs before anything was compiled
function differs(found) {
  const said = (value) => (value === null ? "without" : value || "with");
  const lines = [...found.warnings, ...(found.options || []).map((one) => `${one.option}: A ${said(one.a)}, B ${said(one.b)}`)];
  return lines.length ? [h("section.card", {}, h("h2", {}, "Options that differ"), h("ul", {}, lines.map((text) => h("li", {}, text))))] : [];
}

const shown = (figure, value) => (figure.unit === "ms" ? ms(value) : figure.unit === "bytes" ? bytes(value) : count(value));

const CLOCKS = [["npu_mhz", "NPU clock"], ["cpu_mhz", "CPU clock"]];
const clocksDiffer = (found) => CLOCKS.some(([key]) => found.a.clocks[key] !== found.b.clocks[key]);
const inCycles = (figure) => figure.unit === "cycles" || figure.name.startsWith("cycles");

function figures(found) {
  const other = clocksDiffer(found);
  const row = (name, a, b, change, kind = "td.number") => h("tr", {}, h("td", {}, name), h("td.number", {}, a), h("td.number", {}, b), h(kind, {}, change));
  const line = (figure) => {
    const plain = figure.ratio === null || figure.ratio === 1 || figure.name === "epochs on the NPU" || (other && inCycles(figure));
    return row(figure.name, shown(figure, figure.a), shown(figure, figure.b), changeOf(figure.ratio), plain ? "td.number" : figure.ratio < 1 ? "td.number.better" : "td.number.worse");
  };
  const clock = ([key, name]) => row(name, `${found.a.clocks[key]} MHz`, `${found.b.clocks[key]} MHz`, changeOf(found.b.clocks[key] / found.a.clocks[key]));
  const heads = h("tr", {}, h("th", {}, ""), h("th.number", {}, "A"), h("th.number", {}, "B"), h("th.number", {}, "B against A"));
  const note = "The clocks differ: cycles are those of each build's own NPU clock, so that more of them may take less time. Compare the latencies.";
  return [
    other && h("p.alert", { id: "clocks-differ" }, note),
    h("table", { id: "figures" }, h("thead", {}, heads), h("tbody", {}, CLOCKS.map(clock), found.figures.map(line))),
  ];
}

function changeOf(ratio) {
  if (ratio === null) return "–";
  return ratio === 1 ? "same" : `${ratio > 1 ? "+" : "−"}${Math.abs(100 * (ratio - 1)).toFixed(1)} %`;
}

function layers(found) {
  const rows = found.layers.slice(0, MOST);
  if (!rows.length) return h("p", {}, "No layer of one has a partner in the other.");
  const line = (layer) => {
    const change = (layer.b_ms || 0) - (layer.a_ms || 0);
    const kind = Math.abs(change) < 5e-5 ? "td.number" : change < 0 ? "td.number.better" : "td.number.worse";
    const cell = (value, on) => h("td.number", {}, value === null ? "–" : ms(value), on === "cpu" ? " (CPU)" : "");
    return h("tr", {}, h("td.name", {}, layer.nodes.join(" / ")), cell(layer.a_ms, layer.a_on), cell(layer.b_ms, layer.b_on), h(kind, {}, `${change < 0 ? "−" : "+"}${ms(Math.abs(change))}`));
  };
  const heads = h("tr", {}, h("th", {}, "layer"), h("th.number", {}, "A"), h("th.number", {}, "B"), h("th.number", {}, "difference"));
  const left = found.layers.length - rows.length;
  return [
    h("table", { id: "layers" }, h("thead", {}, heads), h("tbody", {}, rows.map(line))),
    h("p.hint", {}, `Paired by ${found.paired_by}.`, left > 0 ? ` ${left} pairs that differ less are not shown.` : "", found.unmatched ? ` ${found.unmatched} layers of both have no partner.` : ""),
  ];
}
