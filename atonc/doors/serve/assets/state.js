// All jobs that the page knows, the selection, and who wants to hear of changes.

import { ask, listen, tried } from "./client.js";

export const jobs = new Map();
export const selected = new Set();
export const server = { info: null, queue: { queued: 0, running: 0 }, connected: false };
const listeners = new Set();

export const onChange = (listener) => listeners.add(listener);
export const changed = (what = {}) => listeners.forEach((listener) => listener(what));
export const newestFirst = () => [...jobs.values()].sort((a, b) => b.number - a.number);

// an answer may come behind an event that is newer: a job never goes back
const STEPS = { queued: 0, running: 1 };
const step = (job) => (job ? STEPS[job.state] ?? 2 : -1);

export function keep(found) {
  for (const job of found) if (step(job) >= step(jobs.get(job.id))) jobs.set(job.id, { ...job, heard: Date.now() });
}

export async function load(query) {
  const found = await ask(`/api/jobs?${new URLSearchParams(query)}`);
  keep(found.jobs);
  server.queue = found.queue;
  return found.jobs;
}

export async function job(id) {
  const known = jobs.get(id);
  if (known) return known;
  keep([await ask(`/api/jobs/${encodeURIComponent(id)}`)]);
  return jobs.get(id);
}

export function remove(id) {
  jobs.delete(id);
  selected.delete(id);
}

export function select(id, on) {
  if (on) selected.add(id);
  else selected.delete(id);
  changed({ selection: true });
}

export function connect() {
  listen(
    {
      hello: (queue) => {
        server.connected = true;
        server.queue = queue;
        tried(() => load({ limit: 100 })).then(() => changed());
      },
      queue: (queue) => {
        server.queue = queue;
        changed({ queue: true });
      },
      job: (found) => {
        keep([found]);
        changed({ id: found.id });
      },
      progress: ({ id, stage, share }) => {
        const known = jobs.get(id);
        if (known) Object.assign(known, { stage, share });
        changed({ progress: id });
      },
      removed: ({ id }) => {
        remove(id);
        changed({ removed: id });
      },
    },
    () => {
      server.connected = false;
      changed({ queue: true });
    },
  );
}
