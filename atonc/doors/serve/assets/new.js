// The form: models, samples, options with their help.

import { ask, send, tried } from "./client.js";
import { $, bytes, h, put, toast } from "./dom.js";
import { changed, keep, server } from "./state.js";

const MODELS = [".tflite", ".onnx"];
const SAMPLES = [".npz", ".npy", ".csv"];
let models = [];
let samples = [];
let again = null; // a former job whose model is compiled once more
let verb = "generate"; // one of those that the server offers
let values = {};
let wrong = null; // what the server said of an option, until its value changes: field, what, rule, remedy

const offered = () => (server.info ? server.info.verbs : { generate: { does: "Compile", samples: "", needs: [], examples: false } });
const optionGroups = () => server.info.forms[verb];

const ending = (file) => file.name.slice(file.name.lastIndexOf(".")).toLowerCase();

export function take(files) {
  const odd = [];
  for (const file of files) {
    if (SAMPLES.includes(ending(file))) samples.push(file);
    else if (MODELS.includes(ending(file))) models.push(file);
    else odd.push(file.name);
  }
  if (odd.length) toast(`${odd.join(", ")}: neither a model nor samples`, "models are .tflite or .onnx, samples .npz, .npy or .csv");
  if (models.length) again = null;
  draw();
}

export function startAgain(job) {
  again = job;
  models = [];
  samples = [];
  verb = job.verb;
  values = { ...job.options };
  mark(job.error);
  draw();
  $("new").scrollIntoView({ block: "nearest" });
}

export function draw() {
  const form = $("new");
  const opened = new Set([...form.querySelectorAll("details[open]")].map((found) => found.dataset.group));
  const total = [...models, ...samples].reduce((sum, file) => sum + file.size, 0);
  const most = server.info ? server.info.limits.upload_bytes : Infinity;
  const { does, needs } = offered()[verb];
  const many = models.length > 1 ? `${does} ${models.length} models` : does;
  const lacks = needs.length && !again && (samples.length !== 1 || !needs.includes(ending(samples[0])));
  put(
    form,
    verbs(),
    zone(),
    examples(),
    again && h("div.again", {}, h("span", {}, h("b", {}, again.title), ` of build #${again.number}, once more`),
      h("button.plain", { type: "button", "aria-label": "Forget this model", onclick: () => { again = null; draw(); } }, "✕")),
    chosen(models, "models"),
    models.length || again ? sampleZone() : null,
    chosen(samples, "samples"),
    total > most ? h("p.alert.bad", {}, `${bytes(total)} are more than the ${bytes(most)} that the server takes`) : null,
    h("button.main", { disabled: !(models.length || again) || lacks || total > most, id: "compile" }, many),
    options(opened),
    server.info && h("p.hint", {}, `A job may take ${server.info.limits.seconds} s of CPU time and ${bytes(server.info.limits.memory_bytes)}; ` +
      `${server.info.limits.processes} run at once. Nothing leaves this machine.`),
  );
}

function verbs() {
  const choose = (event) => {
    verb = event.target.value;
    [values, wrong, again] = [{}, null, null];
    draw();
  };
  const choice = ([name, { does }]) => h("label", {}, h("input", { type: "radio", name: "verb", value: name, checked: name === verb, onchange: choose }), does);
  return h("fieldset.verbs", {}, h("legend", {}, "What to do"), Object.entries(offered()).map(choice));
}

function zone() {
  const input = h("input", { type: "file", id: "files", multiple: true, accept: [...MODELS, ...SAMPLES].join(","), onchange: (event) => take(event.target.files) });
  return h("label.zone", {}, input, h("b", {}, "Drop a model, or choose one"), h("span", {}, `${verb === "quantize" ? "float" : "quantised"} .tflite or .onnx; several at once if you like`));
}

function examples() {
  if (!server.info || !server.info.examples.length || !offered()[verb].examples || models.length || again) return null;
  const button = ({ name, about }) => h("button.plain", { type: "button", title: about, onclick: () => submitted(() => sendExample(name)) }, name);
  return h("p.hint.examples", {}, `No model at hand? ${offered()[verb].does} one that comes with atonc: `, server.info.examples.map(button));
}

function sampleZone() {
  const input = h("input", { type: "file", id: "sample-files", multiple: true, accept: SAMPLES.join(","), onchange: (event) => take(event.target.files) });
  const text = again && again.samples && !samples.length ? "The samples of that build are used again" : offered()[verb].samples;
  return again ? h("p.hint", {}, again.samples ? text : "Without samples, as that build") : h("label.zone.small", {}, input, h("span", {}, text));
}

function chosen(files, kind) {
  if (!files.length) return null;
  const without = (file) => () => {
    if (kind === "models") models = models.filter((other) => other !== file);
    else samples = samples.filter((other) => other !== file);
    draw();
  };
  return h("ul.chosen", { "aria-label": kind }, files.map((file) =>
    h("li", {}, h("span", {}, file.name), h("small", {}, bytes(file.size)),
      h("button.plain", { type: "button", "aria-label": `Remove ${file.name}`, onclick: without(file) }, "✕"))));
}

function options(opened) {
  if (!server.info) return null;
  const set = Object.keys(values).length;
  const groups = optionGroups().map(({ group, options: members }) => {
    const here = members.filter((option) => option.name in values).length;
    const open = opened.has(group) || members.some((option) => wrong && option.name === wrong.field);
    return h("details", { open, "data-group": group },
      h("summary", {}, group, here ? h("small", {}, `${here} set`) : null), members.map(field));
  });
  const reset = h("button.plain", { type: "button", onclick: () => { values = {}; wrong = null; draw(); } }, "all back to their defaults");
  return h("details", { open: opened.has("all") || wrong !== null, "data-group": "all" },
    h("summary", {}, "Options", set ? h("small.chip", {}, `${set} set`) : null), h("div.options", {}, groups), set ? reset : null);
}

function field(option) {
  const { name, kind } = option;
  const box = h(name in values ? "div.option.changed" : "div.option");
  const keepValue = (value, empty) => {
    if (empty) delete values[name];
    else values[name] = value;
    box.classList.toggle("changed", name in values);
    if (wrong && wrong.field === name) unmark(box);
  };
  box.append(h("label", {}, h("span", {}, name), control(option, kind, keepValue)), h("p", { id: `help-${name}` }, option.help));
  const input = box.querySelector("[name]");
  input.setAttribute("aria-describedby", `help-${name}`);
  if (wrong && wrong.field === name) showWrong(box, input);
  return box;
}

const isOption = (name) => optionGroups().some(({ options: members }) => members.some((option) => option.name === name));

function mark(error) {
  wrong = error && error.field && server.info && isOption(error.field) ? error : null;
  return wrong !== null;
}

function showWrong(box, input) {
  const said = [wrong.what, wrong.rule, wrong.remedy].filter(Boolean).join(". ");
  box.append(h("p.wrong", { id: `wrong-${wrong.field}`, role: "alert" }, said));
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", `wrong-${wrong.field} help-${wrong.field}`);
}

function unmark(box) {
  const input = box.querySelector("[name]");
  input.removeAttribute("aria-invalid");
  input.setAttribute("aria-describedby", `help-${wrong.field}`);
  box.querySelector(".wrong").remove();
  wrong = null;
}

function control(option, kind, keepValue) {
  const value = values[option.name];
  if (kind === "switch")
    return h("input", { type: "checkbox", name: option.name, checked: value === true, onchange: (event) => keepValue(true, !event.target.checked) });
  if (kind === "choice") {
    const rows = option.choices.map((choice) => h("option", {}, choice));
    const free = option.default === null ? [h("option", { value: "" }, "not set")] : [];
    const box = h("select", { name: option.name, onchange: (event) => keepValue(event.target.value, event.target.value === (option.default || "")) }, free, rows);
    box.value = value === undefined ? option.default || "" : value;
    return box;
  }
  const shown = kind === "pairs" ? (value || []).map((pair) => pair.join(" ")).join(", ") : value === true ? "yes" : value;
  const hint = kind === "pairs" ? "cpu NODE, npu NODE" : option.bare ? `yes, or ${option.hint}` : option.default === null ? option.hint : option.default;
  const read = (text) => kind === "pairs" ? text.split(",").map((part) => part.trim().split(/\s+(.*)/s).slice(0, 2)) : option.bare && text.trim() === "yes" ? true : text.trim();
  return h("input", { type: "text", name: option.name, value: shown === undefined ? "" : shown, placeholder: hint, spellcheck: "false", autocomplete: "off",
    oninput: (event) => keepValue(read(event.target.value), !event.target.value.trim()) });
}

// a refused option is marked in the form; any other failure is told as everywhere
async function submitted(work) {
  wrong = null;
  $("compile").disabled = true;
  await tried(() => work().catch((error) => {
    if (!mark(error.error)) throw error;
  }));
  draw();
  if (wrong) $("new").elements.namedItem(wrong.field).focus();
  changed();
}

async function sendAgain() {
  keep([await send(`/api/jobs/${again.id}/again`, { options: values })]);
  again = null;
}

async function sendExample(name) {
  keep([await send(`/api/examples/${encodeURIComponent(name)}`, { verb, options: values })]);
}

async function sendModels() {
  for (const model of [...models]) {
    $("compile").textContent = `Sending ${model.name}`;
    keep([await upload(model)]);
    models = models.filter((other) => other !== model);
  }
  samples = [];
}

function upload(model) {
  const body = new FormData();
  body.append("model", model);
  samples.forEach((file) => body.append("samples", file));
  body.append("verb", verb);
  body.append("options", JSON.stringify(values));
  return ask("/api/jobs", { method: "POST", body });
}

export function start() {
  $("new").addEventListener("submit", (event) => {
    event.preventDefault();
    submitted(again ? sendAgain : sendModels);
  });
  let depth = 0;
  const files = (event) => [...event.dataTransfer.types].includes("Files");
  addEventListener("dragenter", (event) => { if (files(event)) { depth += 1; $("drop").hidden = false; } });
  addEventListener("dragleave", (event) => { if (files(event) && --depth <= 0) { depth = 0; $("drop").hidden = true; } });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    $("drop").hidden = true;
    if (event.dataTransfer.files.length) {
      take(event.dataTransfer.files);
      location.hash = "#/";
    }
  });
  draw();
}
