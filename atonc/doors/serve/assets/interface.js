// The OpenAPI description as a page.

import { ask, tried } from "./client.js";
import { $, h, put } from "./dom.js";

const named = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return `list of ${named(schema.items) || "values"}`;
  return [schema.type].flat().join(" or ") + (schema.format ? ` (${schema.format})` : "");
};

function table(heads, rows) {
  if (!rows.length) return null;
  return h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", {}, head)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell))))));
}

function bodyRows(operation) {
  const content = (operation.requestBody || { content: {} }).content;
  return Object.entries(content).flatMap(([kind, { schema }]) =>
    Object.entries(schema.properties || {}).map(([name, member]) => [h("code", {}, name), kind, named(member), (schema.required || []).includes(name) ? "required" : "", member.description || ""]));
}

function endpoint(path, method, operation) {
  const parameters = (operation.parameters || []).map((p) => [h("code", {}, p.name), `in the ${p.in}`, named(p.schema), p.required ? "required" : "", p.description || ""]);
  const answers = Object.entries(operation.responses).map(([status, answer]) => {
    const [kind, shape] = Object.entries(answer.content || {})[0] || ["", {}];
    return [h("code", {}, status), answer.description, kind, named((shape || {}).schema)];
  });
  const example = operation["x-example"] && h("pre", {}, h("code", {}, operation["x-example"].replaceAll("$URL", location.origin)));
  const open = method === "get" && !path.includes("{") && !path.includes("events") && !(operation.parameters || []).some((p) => p.required);
  return h("section.card.endpoint", {}, h("details", { open: Boolean(operation["x-example"]) && method === "post" },
    h("summary", {}, h(`span.method.${method}`, {}, method.toUpperCase()), h("code", {}, path), h("span", {}, operation.summary)),
    h("div.inside.scroll", { tabindex: 0 }, example, table(["", "where", "type", "", ""], [...parameters, ...bodyRows(operation)]), table(["answer", "", "", ""], answers),
      open && h("p", {}, h("a", { href: path, target: "_blank", rel: "noopener" }, "Ask for it")))));
}

tried(async () => {
  const found = await ask("/api/openapi.json");
  const rows = Object.entries(found.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => endpoint(path, method, operation)));
  put($("endpoints"), ...rows);
  const kinds = Object.entries(found.components.schemas).filter(([name]) => name.endsWith("Options"));
  const rowsOf = (shape) => Object.entries(shape.properties).map(([name, schema]) => [h("code", {}, name), named(schema), schema.description]);
  put($("options"), kinds.map(([name, shape]) => h("details", {}, h("summary", {}, name), table(["name", "type", ""], rowsOf(shape)))));
});
