// The server: requests, and what it tells by itself.

import { toast } from "./dom.js";

const TRIES = 5; // while others have the places

export async function ask(path, options = {}, tries = TRIES) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Failure({ what: "the server does not answer", remedy: "is atonc serve still running?" });
  }
  if (answer.status === 204) return null;
  if (answer.status === 429 && tries > 1) {
    await new Promise((done) => setTimeout(done, 1000 * Number(answer.headers.get("Retry-After") || 1)));
    return ask(path, options, tries - 1);
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Failure(found.error || { what: `the server says ${answer.status}` });
  return found;
}

export class Failure extends Error {
  constructor(error) {
    super(error.where ? `${error.where}: ${error.what}` : error.what);
    this.remedy = error.remedy || error.rule || "";
    this.error = error;
  }
}

// errors are shown, and end what was asked for
export async function tried(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Failure)) console.error(error);
    toast(error.message, error.remedy);
    return undefined;
  }
}

export const send = (path, data) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) });

// handlers by kind of event; `hello` comes on every connection, also after one was lost
export function listen(handlers, lost) {
  const source = new EventSource("/api/events");
  for (const [kind, handler] of Object.entries(handlers))
    source.addEventListener(kind, (event) => handler(JSON.parse(event.data)));
  source.onerror = lost;
  addEventListener("pagehide", () => source.close());
}
