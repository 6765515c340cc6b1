// Elements, numbers as people read them, and messages.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

// h("a.main", {href: "#/"}, "text", child): text is always text, never markup
export function h(what, properties = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElement(tag), classes, properties, children);
}

export function s(what, properties = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElementNS(SVG, tag), classes, properties, children);
}

function fill(element, classes, properties, children) {
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "indeterminate") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

const present = (children) => children.flat(9).filter((child) => child !== null && child !== undefined && child !== false && child !== "");

export const put = (element, ...children) => element.replaceChildren(...present(children));

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export const count = (value) => Number(value).toLocaleString("en-US");

// sizes and times as reports and the terminal say them: numbers.js of the report
/* global bytes, milliseconds */
const sized = bytes;
export const ms = milliseconds;
export { sized as bytes };

// what may pass around a predicted time; builds of earlier versions say one figure for both sides
export function band(found) {
  const low = found.latency_low_ms ?? found.latency_ms * (1 - found.expected_error);
  return `${ms(low)} to ${ms(found.latency_high_ms ?? found.latency_ms * (1 + found.expected_error))}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

export function when(stamp) {
  const passed = Date.now() / 1000 - stamp;
  if (passed < 60) return "just now";
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  return new Date(stamp * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

export function toast(what, remedy = "", bad = true) {
  const shown = h(bad ? "div.toast.bad" : "div.toast", {}, what, remedy && h("small", {}, remedy));
  $("toasts").append(shown);
  setTimeout(() => shown.remove(), 9000);
}

export function save(name, text, kind) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
