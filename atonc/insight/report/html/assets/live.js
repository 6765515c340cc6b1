// A model that is compiled while its graph is shown: asks the server how far it is, then shows the report or what was wrong.
(function () {
  if (!D.pending) return;
  for (const id of ["timeline", "actions", "figures", "trust", "memory", "lost", "roofline", "reproduce"]) {
    $(id).hidden = true;
    const link = document.querySelector(`nav a[href='#${id}']`);
    if (link) link.hidden = true;
  }
  $("graph").after($("edge"));
  const line = el("p", { class: "sub", role: "status" }, "Compiling \u2026"), parts = { "": "what", Cause: "rule", Fix: "remedy" };
  $("head").append(line);
  function failed(error) {
    line.textContent = "Not compiled: the graph is shown as the model has it.";
    for (const value of document.querySelectorAll(".tile b")) value.textContent = "\u2013";
    for (const said of document.querySelectorAll(".tile small")) said.textContent = "not compiled";
    const rows = Object.entries(parts).filter(([, key]) => error[key]).map(([title, key]) => el("p", {}, title ? el("b", {}, title + ": ") : "", ...coded(error[key])));
    $("alerts").replaceChildren(...rows, ...(error.where ? [el("p", {}, el("b", {}, "Where: "), error.where)] : []));
  }
  async function ask() {
    let found;
    try { found = await (await fetch("/state")).json(); } catch { line.textContent = "The server has ended: start atonc view again."; return; }
    if (found.state === "done") return location.reload();
    if (found.state === "failed") return failed(found.error);
    line.textContent = `Compiling \u2026 ${found.stage}`;
    setTimeout(ask, 400);
  }
  ask();
})();
