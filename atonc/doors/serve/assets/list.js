// The queue and the history.

import { send, tried } from "./client.js";
import { $, h, put } from "./dom.js";
import { about, badge, chips, failure, figures, progress, verdict } from "./parts.js";
import { keep, load, newestFirst, select, selected } from "./state.js";

const PAGE = 100;
const WAITING = { running: 1, queued: 2 };
let found = null; // ids that the server found for the words in the box; null: everything
let more = false;

export function draw() {
  const shown = newestFirst().filter((job) => (found ? found.has(job.id) : true));
  const waiting = shown.filter((job) => WAITING[job.state]).sort((a, b) => WAITING[a.state] - WAITING[b.state] || a.number - b.number);
  const ended = shown.filter((job) => !WAITING[job.state]);
  put($("list"), group("Queue", waiting), group("History", ended), shown.length ? null : empty());
  $("older").hidden = !more;
}

function group(name, members) {
  if (!members.length) return null;
  return [h("h2.group", {}, name), members.map(row)];
}

function empty() {
  if (found) return h("div.empty", {}, h("b", {}, "Nothing found"), "No build has all of these words.");
  return h("div.empty", {}, h("b", {}, "No builds yet"), "Drop a quantised model on this page: it is compiled, verified on the emulator, and stays here with its report and files.");
}

export function row(job) {
  const pick = h("input", { type: "checkbox", checked: selected.has(job.id), disabled: job.state !== "done" || job.verb !== "generate", "aria-label": `Select build ${job.number}`,
    onchange: (event) => select(job.id, event.target.checked) });
  const state = job.state === "done" ? verdict(job) : badge(job);
  const who = h("div.who", {}, h("a", { href: `#/build/${job.id}` }, job.title), h("div.about", {}, state, about(job), chips(job)));
  return h("article.job", { "data-job": job.id, "data-state": job.state }, pick, who, h("div.side", {}, side(job)), job.state === "failed" ? failure(job) : null);
}

function side(job) {
  if (job.state === "done") return figures(job);
  if (job.state === "running") return h("div.progress", {}, progress(job), cancel(job));
  return job.state === "queued" ? cancel(job) : null;
}

export function cancel(job) {
  return h("button", { type: "button", onclick: () => tried(() => send(`/api/jobs/${job.id}/cancel`, {})) }, "Cancel");
}

async function look() {
  const search = $("search").value.trim();
  const state = $("state").value;
  const rows = await tried(() => load({ search, state, limit: PAGE }));
  if (!rows) return;
  found = search || state ? new Set(rows.map((job) => job.id)) : null;
  more = rows.length === PAGE;
  draw();
}

async function older() {
  const last = Math.min(...newestFirst().filter((job) => !found || found.has(job.id)).map((job) => job.number));
  const rows = await tried(() => load({ search: $("search").value, state: $("state").value, before: last, limit: PAGE }));
  if (!rows) return;
  keep(rows);
  if (found) rows.forEach((job) => found.add(job.id));
  more = rows.length === PAGE;
  draw();
}

export function start() {
  let waiting;
  $("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 150); });
  $("state").addEventListener("change", look);
  $("older").addEventListener("click", older);
}
