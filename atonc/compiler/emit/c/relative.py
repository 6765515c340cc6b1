"""Memory pools without a fixed base: arrays that the linker, or the loader of a relocatable image, gives a place."""

from __future__ import annotations

from atonc.compiler.emit.c.network import CNetwork


def declarations(network: CNetwork) -> str:
    lines = [f"extern unsigned char {network.c_symbol(pool)}[];\n" for pool in network.program.relative]
    return "/* Memory pools whose base is known at run time only. */\n" + "".join(lines) if lines else ""
