// Views by address, and what follows from a change.

import * as build from "./build.js";
import { ask, tried } from "./client.js";
import * as compare from "./compare.js";
import { $, h, put } from "./dom.js";
import * as list from "./list.js";
import * as models from "./models.js";
import * as form from "./new.js";
import { refreshProgress } from "./parts.js";
import { changed, connect, jobs, onChange, selected, server } from "./state.js";

const VIEWS = ["home", "build", "models", "compare"];
let here = { view: "home", words: [] };

function go() {
  const [view, ...words] = location.hash.replace(/^#\/?/, "").split("/");
  here = { view: VIEWS.includes(view) ? view : "home", words };
  VIEWS.forEach((name) => { $(name).hidden = name !== here.view; });
  document.querySelectorAll("nav a[data-view]").forEach((link) => link.classList.toggle("here", link.dataset.view === (here.view === "build" ? "home" : here.view === "compare" ? "models" : here.view)));
  scrollTo(0, 0);
  if (here.view === "build") build.show(words[0] || "");
  else if (here.view === "models") models.draw();
  else if (here.view === "compare") compare.show(words[0] || "", words[1] || "");
  else list.draw();
  selection();
}

function queue() {
  const { queued, running } = server.queue;
  const text = !server.connected ? "no connection" : running || queued ? `${running} running, ${queued} waiting` : "idle";
  $("queue").textContent = text;
  $("queue").className = `queue${!server.connected ? " lost" : running ? " busy" : ""}`;
}

function selection() {
  const chosen = [...selected].map((id) => jobs.get(id)).filter(Boolean).sort((a, b) => a.number - b.number);
  const box = $("selection");
  box.hidden = !chosen.length || here.view === "compare" || here.view === "build";
  if (box.hidden) return;
  const pair = chosen.length === 2 ? h("button.main", { type: "button", onclick: () => { location.hash = `#/compare/${chosen[0].id}/${chosen[1].id}`; } }, "Compare the two") : null;
  const side = here.view !== "models" && chosen.length > 1 ? h("button", { type: "button", onclick: () => { location.hash = "#/models"; } }, "Side by side") : null;
  const drop = h("button", { type: "button", onclick: () => { selected.clear(); changed(); } }, "None");
  put(box, h("span", {}, chosen.length === 1 ? "1 selected; select another to compare" : `${chosen.length} selected`), pair || "", side || "", drop);
}

function update(what) {
  if (what.progress) return refreshProgress(jobs.get(what.progress) || {});
  queue();
  if (what.queue) return undefined;
  selection();
  if (what.selection) return undefined;
  if (here.view === "home") list.draw();
  else if (here.view === "models") models.draw();
  else if (here.view === "build" && (what.id === here.words[0] || what.removed === here.words[0])) build.refresh(here.words[0]);
  return undefined;
}

onChange(update);
list.start();
form.start();
addEventListener("hashchange", go);
addEventListener("resize", () => { if (here.view === "models") models.fill(); });
setInterval(() => jobs.forEach((job) => { if (job.state === "running") refreshProgress(job); }), 1000);
go();
connect();
tried(() => ask("/api/info")).then((info) => {
  server.info = info;
  form.draw();
});
