// What several views show of a job.

import { band, bytes, count, duration, h, ms, when } from "./dom.js";

// all RAM; builds of earlier versions knew the activations only
export const ramOf = (found) => found.ram_bytes ?? found.activations_bytes;

export function chips(job) {
  return Object.entries(job.options || {}).flatMap(([name, value]) => {
    const text = value === true ? name : Array.isArray(value) ? value.map((pair) => `${name} ${pair.join(" ")}`).join(", ") : `${name} ${value}`;
    return value === false ? [] : [h("span.chip", { title: text }, text)];
  });
}

export function verdict(job) {
  const found = job.summary;
  if (!found || job.verb !== "generate") return null;
  if (found.gates.length) return h("span.state.bad", { title: found.gates.join("\n") }, "gate failed");
  if (found.validation && found.validation.verdict === "cannot judge") return h("span.state.warn", { title: found.validation.notes.join("\n") }, "cannot judge");
  if (found.validation && !found.validation.passed) return h("span.state.bad", { title: found.validation.complaints.join("\n") }, "samples differ");
  if (found.spilled_bytes) return h("span.state.warn", { title: `${count(found.spilled_bytes)} bytes of activations lie outside the chip` }, "spills");
  return null;
}

export const badge = (job) => h(`span.state.${job.state}`, {}, job.state);

export function about(job) {
  const spent = job.finished && job.started ? `took ${duration(job.finished - job.started)}` : "";
  const time = h("span", { title: new Date(job.created * 1000).toLocaleString() }, when(job.created));
  return [h("span", {}, `#${job.number}`), time, spent && h("span", {}, spent), job.samples ? h("span.chip", {}, "samples") : null];
}

export const span = (one) => one.interval_db.map((db) => db.toFixed(1)).join(" to ");

// what a job that quantised found out
export function quantised(found) {
  const { snr_db: snr, milliseconds } = found.chosen;
  return [
    [`${snr.toFixed(1)} dB`, `signal to noise (${span(found.chosen)})`],
    [milliseconds === null ? "–" : ms(milliseconds), "latency, predicted"],
    [count(found.samples), "samples"],
  ];
}

export function figures(job) {
  const found = job.summary;
  const rows = found.tiles ? found.tiles.slice(0, 3) : job.verb === "quantize" ? quantised(found) : [
    [ms(found.latency_ms), `latency (${band(found)})`],
    [bytes(ramOf(found)), "RAM"],
    [bytes(found.weights_bytes), "weights"],
    [`${found.epochs.npu} + ${found.epochs.cpu}`, "NPU + CPU"],
  ];
  return h(found.tiles ? "div.figures.three" : "div.figures", {}, rows.map(([value, name]) => h("div", {}, h("b", {}, value), h("span", {}, name))));
}

export function progress(job) {
  const share = job.share || 0;
  const bar = h("i");
  bar.style.width = `${Math.round(100 * share)}%`;
  const passed = job.started ? duration(Math.max(0, Date.now() / 1000 - job.started)) : "";
  const track = h("div.track", { role: "progressbar", "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100 }, bar);
  return h("div.progress", { "data-progress": job.id }, track, h("small", {}, `${job.stage || "starting"} · ${passed}`));
}

export function refreshProgress(job) {
  for (const old of document.querySelectorAll(`[data-progress="${job.id}"]`)) {
    const fresh = progress(job);
    old.querySelector("i").style.width = fresh.querySelector("i").style.width;
    old.querySelector(".track").setAttribute("aria-valuenow", fresh.querySelector(".track").getAttribute("aria-valuenow"));
    old.querySelector("small").textContent = fresh.querySelector("small").textContent;
  }
}

export function failure(job) {
  const error = job.error || {};
  const said = (error.where ? `${error.where}: ` : "") + (error.what || "failed");
  const text = /[.!?]$/.test(said) ? said : `${said}.`;
  return h("p.failure", {}, text, error.remedy ? h("span", {}, ` Fix: ${error.remedy}.`) : null);
}
