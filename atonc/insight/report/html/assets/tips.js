"use strict";
// Tips: what a word or a mark means, beside the pointer, under a finger or at the focus of the keyboard. Words have theirs in data-tip.
const tipBox = document.getElementById("tip");
function showTip(event, text) {
  tipBox.textContent = text;
  tipBox.hidden = false;
  const x = Math.min(event.clientX + 14, innerWidth - tipBox.offsetWidth - 8);
  const y = event.clientY + 18 + tipBox.offsetHeight > innerHeight ? event.clientY - tipBox.offsetHeight - 10 : event.clientY + 18;
  tipBox.style.left = Math.max(4, x) + "px";
  tipBox.style.top = Math.max(4, y) + "px";
}
const hideTip = () => { tipBox.hidden = true; };
const wordAt = node => node && node.closest ? node.closest("[data-tip]") : null;
function tipAtFocus() {
  const word = wordAt(document.activeElement);
  if (!word || !word.matches(":focus-visible, :has(:focus-visible)")) return false;
  const box = word.getBoundingClientRect();
  word.setAttribute("aria-describedby", "tip");
  showTip({ clientX: box.left - 14, clientY: box.bottom - 12 }, word.dataset.tip);
  return true;
}
addEventListener("pointerdown", hideTip, { capture: true });
for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, event => { const word = wordAt(event.target); if (word) showTip(event, word.dataset.tip); });
// a finger leaves at once: its tip stays until the next touch
document.addEventListener("pointerout", event => { if (wordAt(event.target) && event.pointerType !== "touch") hideTip(); });
document.addEventListener("focusin", tipAtFocus);
document.addEventListener("focusout", event => { if (wordAt(event.target)) hideTip(); });
addEventListener("scroll", () => { if (!tipAtFocus()) hideTip(); }, { passive: true });
addEventListener("keydown", event => { if (event.key === "Escape" && !tipBox.hidden) { hideTip(); event.preventDefault(); } });
