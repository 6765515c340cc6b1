"""What the owner of a board does with the folder."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.compiler.place import BoardMemory
from atonc.delivery.probes.build import BuiltProbe
from atonc.delivery.probes.places import FLASH
from atonc.machine.base.templates import render


def readme(built: Sequence[BuiltProbe], target: BoardMemory, image: str) -> str:
    size = max((one.flash_used for one in built), default=0)
    base = next((pool.base for pool in target.pools if pool.name == FLASH), 0)
    rows = [
        {
            **{"number": number, "name": one.probe.name, "form": one.probe.form, "known": one.probe.known},
            "control": one.probe.control or "-",
            "settles": one.probe.argument or one.probe.measures or one.probe.rate or "-",
        }
        for number, one in enumerate(built)
    ]
    flash = [{"image": image, "size": f"{size:,}", "base": f"{base:#010x}"}] if size else []
    return render("probes/README.md", board=target.name, count=len(built), flash=flash, rows=rows)
