// One build: figures, what deserves attention, files, the report.

import { ask, send, tried } from "./client.js";
import { $, bytes, count, h, plural, put } from "./dom.js";
import { cancel } from "./list.js";
import { startAgain } from "./new.js";
import { about, badge, chips, failure, progress, quantised, span, verdict } from "./parts.js";
import { job as known, jobs, keep } from "./state.js";

export async function show(id) {
  const job = await tried(() => known(id));
  if (!job) return put($("build"), h("div.empty", {}, h("b", {}, "There is no such build"), h("a", { href: "#/" }, "All builds")));
  return draw(job);
}

export function refresh(id) {
  const job = jobs.get(id);
  if (job) draw(job);
  else location.hash = "#/";
}

function draw(job) {
  const parts = [head(job)];
  if (job.state === "done" && job.verb === "quantize") parts.push(showTiles(quantised(job.summary)), quantisedCards(job), report(job));
  else if (job.state === "done" && job.summary.tiles) parts.push(job.verb !== "explain" && showTiles(job.summary.tiles), foundCards(job), report(job));
  else if (job.state === "done") parts.push(...alerts(job.summary), cards(job), report(job));  // the report has the tiles
  else if (job.state === "running") parts.push(h("div.card", {}, progress(job)));
  else if (job.state === "queued") parts.push(h("div.card", {}, "It waits for a free process."));
  else parts.push(job.state === "failed" ? failed(job) : h("div.card", {}, "It was cancelled."), commandCard(job));
  put($("build"), ...parts);
}

function head(job) {
  const address = `/api/jobs/${job.id}`;
  const done = job.state === "done";
  const ended = done || job.state === "failed" || job.state === "cancelled";
  return h("div.head", {},
    h("div.grow", {}, h("h1", {}, job.title), h("div.about", {}, badge(job), verdict(job), about(job), chips(job))),
    done && job.verb === "quantize" && h("button.main", { type: "button", id: "compile-it", onclick: () => compile(job) }, "Compile the int8 model"),
    done && h("a.button.main", { href: `${address}/files.zip`, download: true, id: "zip" }, "Download all"),
    done && h("a.button", { href: pageOf(job), target: "_blank", rel: "noopener" }, "Report in its own tab"),
    ended && h("button", { type: "button", onclick: () => { startAgain(job); location.hash = "#/"; } }, "Again, with other options"),
    ended && h("button", { type: "button", onclick: () => remove(job) }, "Delete"),
    !ended && cancel(job));
}

async function compile(job) {
  const next = await tried(() => send(`/api/jobs/${job.id}/compile`, { options: {} }));
  if (!next) return;
  keep([next]);
  location.hash = `#/build/${next.id}`;
}

async function remove(job) {
  if (!confirm(`Delete build #${job.number} of ${job.title} with all its files?`)) return;
  if ((await tried(() => ask(`/api/jobs/${job.id}`, { method: "DELETE" }))) === null) location.hash = "#/";
}

const showTiles = (rows) => h("div.tiles", {}, rows.map(([value, name]) => h("div.tile", {}, h("b", {}, value), h("span", {}, name))));

function quantisedCards(job) {
  const found = job.summary;
  const outputs = found.accuracy.map((one) => `${one.name}: ${one.snr_db.toFixed(1)} dB (${span(one)} on new samples, 95 %), ${one.clipped ?? 0} of ${count(one.values)} values clipped`);
  const judged = `${found.chosen.name}; ${found.split}.`;
  const card = h("section.card", {}, h("h2", {}, "How good it is"), h("ul", { tabindex: 0 }, [judged, ...outputs, ...found.notes].map((text) => h("li", {}, text))));
  return h("div.columns", {}, card, filesCard(job), commandCard(job));
}

// a verb that says itself what its figures are
function foundCards(job) {
  const notes = job.summary.notes;
  const card = notes.length ? h("section.card", {}, h("h2", {}, "To be noted"), h("ul", { tabindex: 0 }, notes.map((text) => h("li", {}, text)))) : null;
  return h("div.columns", {}, card, filesCard(job), commandCard(job));
}

function alerts(found) {
  const bad = [...found.gates, ...(found.validation ? found.validation.complaints : [])];
  const warn = found.spilled_bytes ? [`${count(found.spilled_bytes)} bytes of activations lie outside the chip, where they cost most.`] : [];
  const box = (kind, rows) => (rows.length ? [h(kind, {}, rows.map((text) => h("p", {}, text)))] : []);
  return [...box("div.alert.bad", bad), ...box("div.alert", warn)];
}

function cards(job) {
  const found = job.summary;
  return h("div.columns", {}, checkCard(found), cpuCard(found), filesCard(job), commandCard(job));
}

function checkCard(found) {
  const lines = [];
  if (found.verify)
    lines.push(`On the emulator, ${found.verify.samples} synthetic inputs: each of ${found.verify.layers} layers within its limit, max error ${found.verify.worst_layer} LSB from exact arithmetic; cosine ${Math.min(...found.verify.outputs.map((output) => output.cos)).toFixed(5)} in the worst output; ${found.verify.sums}.`);
  else lines.push("Not verified on the emulator: no-verify was set.");
  const checked = found.validation;
  if (checked) {
    lines.push(`${plural(checked.samples, "sample")} against ${checked.reference}: ${checked.verdict}.`);
    for (const output of checked.outputs) lines.push(`${output.name}: cosine ${output.cos.toFixed(6)}, ${output.exact_pct.toFixed(1)} % exact, max error ${output.max_lsb} LSB (${output.verdict}).`);
    if (checked.accuracy) lines.push(`Right labels: ${count(checked.accuracy.program)} of ${count(checked.accuracy.samples)}; reference ${count(checked.accuracy.reference)}.`);
  } else lines.push("No samples were given; add .npz or .npy files to compare with the reference interpreter.");
  return h("section.card", {}, h("h2", {}, "Validation status"), h("ul", { tabindex: 0 }, [...lines, ...found.notes].map((text) => h("li", {}, text))));
}

function cpuCard(found) {
  const rows = found.cpu_ops.map((op) => h("li", {}, h("b", {}, op.op), ` ${op.node}: ${op.seen}. `, h("span.hint", {}, op.remedy)));
  const left = found.cpu_count - rows.length;
  const body = rows.length ? h("ul", { tabindex: 0 }, rows, left > 0 ? h("li", {}, `and ${left} more, see the report`) : null) : h("p", {}, "Nothing: all operators run on the NPU.");
  return h("section.card", {}, h("h2", {}, `Runs on the CPU${found.cpu_count ? ` (${found.cpu_count})` : ""}`), body);
}

function filesCard(job) {
  const link = ([name, size]) => h("a", { href: `/api/jobs/${job.id}/files/${encodeURIComponent(name)}`, download: name }, h("span", {}, name), h("small", {}, bytes(size)));
  return h("section.card", {}, h("h2", {}, "Files"), h("div.files", {}, Object.entries(job.files).map(link)));
}

function commandCard(job) {
  const rows = [["model", `${job.title}, ${bytes(job.size_bytes)}`], ["sha256", job.sha256]];
  return h("section.card", {}, h("h2", {}, "The same on the command line"), h("pre", {}, h("code", {}, job.command)),
    rows.map(([name, value]) => h("p.hint", {}, `${name}: `, h("span.mono", {}, value))));
}

function failed(job) {
  const details = (job.error && job.error.details) || [];
  return h("div.alert.bad", {}, failure(job), details.length ? h("pre", {}, details.join("\n")) : null);
}

const pageOf = (job) => `/api/jobs/${job.id}/pages/${encodeURIComponent(job.report)}`;

// the report has an origin of its own: it can show, but ask the server for nothing
const report = (job) => h("iframe", { src: pageOf(job), title: `Report of ${job.title}`, sandbox: "allow-scripts allow-downloads allow-popups" });
