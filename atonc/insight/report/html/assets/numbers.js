"use strict";
// Numbers as people read them, in the report and in the service.
const grouped = new Intl.NumberFormat("en-US"), format = n => grouped.format(Math.round(n));
// as the terminal says them (base/words.py): halves go to the even digit there
const half = (v, digits) => { const scaled = v * 10 ** digits, down = Math.floor(scaled); return scaled - down === 0.5 && down % 2 === 0 ? down / 10 ** digits : v; };
const fixed = (v, digits) => { const [whole, rest] = v.toFixed(digits).split("."); return grouped.format(whole) + (rest ? "." + rest : ""); };
function bytes(n) {
  if (n < 1024) return `${grouped.format(n)}\u00a0byte${n === 1 ? "" : "s"}`;
  const [value, unit] = n < 10485760 ? [n / 1024, "KiB"] : [n / 1048576, "MiB"], digits = value >= 100 ? 0 : 1;
  return `${fixed(half(value, digits), digits)}\u00a0${unit}`;
}
const milliseconds = ms => ms > 0 && ms < 0.00005 ? "<0.0001\u00a0ms" : `${fixed(ms, ms >= 100 ? 1 : ms >= 1 ? 2 : ms >= 0.01 || !ms ? 3 : 4)}\u00a0ms`;
