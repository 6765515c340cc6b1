"""Layers with a state: one call for a whole sequence."""

from __future__ import annotations

from atonc.compiler.emit.c.calls import CpuCall
from atonc.compiler.emit.c.cpu.site import Site, kernel_for, table
from atonc.compiler.ops.recurrent import MOST_CELLS


@kernel_for("lstm")
def lstm(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    batch, steps, inputs = source.shape
    cells = target.shape[-1]
    if cells > MOST_CELLS:
        raise site.refuse(f"{cells} cells, the kernel has room for {MOST_CELLS}")
    if source.dtype != "int8" or target.dtype != "int8" or "clip" in site.attrs:
        raise site.refuse(f"of {source.dtype} values with a result of {target.dtype}")
    multipliers = [number for pair in site.attrs["multipliers"] for number in pair]
    return site.call(
        "atonc_lstm",
        site.target(target),
        site.source(source),
        batch,
        steps,
        inputs,
        cells,
        *(site.source(site.input(k)) for k in (1, 2, 3)),
        table("int32_t", multipliers),
        int(site.attrs["cell_bits"]),
        int(site.attrs["cell_clip"]),
        target.zero_point,
    )
