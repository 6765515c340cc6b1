"""An image as C: an array for firmware that carries it in its own flash, and its sizes as macros."""

from __future__ import annotations

from atonc.delivery.reloc.image import Image
from atonc.machine.base.templates import render


def c_files(image: Image, name: str) -> dict[str, bytes]:
    rows = (", ".join(f"0x{b:02x}" for b in image.data[k : k + 16]) for k in range(0, len(image.data), 16))
    words = {
        **vars(image.context),
        **{"name": name, "NAME": name.upper()},
        **{"xip_bytes": image.xip_bytes, "copy_bytes": image.copy_bytes, "image_bytes": len(image.data)},
        "body": ",\n".join(f"  {row}" for row in rows),
        "pools": [
            {
                **{"k": k, "pool": pool.name, "flags": f"{pool.flags:X}", "label": pool.label()},
                **{"offset": pool.file_offset, "destination": f"{pool.destination:X}", "size": pool.size_bytes},
            }
            for k, pool in enumerate(image.pools[:-1])
        ],
    }
    return {f"{name}_rel.{kind}": render(f"reloc/rel.{kind}", words).encode() for kind in ("h", "c")}
