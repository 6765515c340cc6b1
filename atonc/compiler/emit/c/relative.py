"""Memory pools without a fixed base: arrays that the linker, or the loader of a relocatable image, gives a place.

Each of them is declared, with the bytes that are used in a comment: ST's packager reads both, and wants as many as
there are pools of that mode.
"""

from __future__ import annotations

from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.c.pool_comments import used_bytes


def declarations(network: CNetwork) -> str:
    pools = [pool for pool in network.pools if not pool.absolute]
    lines = [
        f"extern unsigned char {network.c_symbol(pool)}[]; /* [{used_bytes(network, pool)}]; */\n" for pool in pools
    ]
    return "/* Memory pools whose base is known at run time only. */\n" + "".join(lines) if lines else ""
