"""An image as C: an array for firmware that carries it in its own flash, and its sizes as macros."""

from __future__ import annotations

from atonc.delivery.reloc.image import Image


def c_files(image: Image, name: str) -> dict[str, bytes]:
    return {f"{name}_rel.h": _header(image, name).encode(), f"{name}_rel.c": _source(image, name).encode()}


def _header(image: Image, name: str) -> str:
    key, context = f"AI_{name.upper()}_RELOC", image.context
    values: dict[str, str] = {
        "C_NAME": f'"{context.c_name}"',
        "RT_DESC": f'"{context.runtime}"',
        "RAM_SIZE_XIP": f"({image.xip_bytes})",
        "RAM_SIZE_COPY": f"({image.copy_bytes})",
        "IMAGE_SIZE": f"({len(image.data)})",
        "ACTIVATIONS_SIZE": f"({context.activations_bytes})",
        "WEIGHTS_SIZE": f"({context.params_bytes})",
        "EXT_RAM_SIZE": f"({context.ext_ram_bytes})",
    }
    for k, pool in enumerate(image.pools[:-1]):
        values[f"MPOOL_DESC_{k}_NAME"] = f'"{pool.name}"'
        values[f"MPOOL_DESC_{k}_FLAGS"] = f"(0x{pool.flags:X}) /* {pool.label()} */"
        values[f"MPOOL_DESC_{k}_FOFF"] = f"({pool.file_offset})"
        values[f"MPOOL_DESC_{k}_DST"] = f"(0x{pool.destination:X})"
        values[f"MPOOL_DESC_{k}_SIZE"] = f"({pool.size_bytes})"
    guard = f"{name.upper()}_REL_H"
    lines = [f"#define {key}_{what} {value}" for what, value in values.items()]
    return "\n".join(
        [
            f"/* {name}_rel.h: sizes of a relocatable image, written by atonc. Do not edit. */",
            f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n",
            *lines,
            f"\nuintptr_t ai_{name}_reloc_img_get(void);\n\n#endif\n",
        ]
    )


def _source(image: Image, name: str) -> str:
    rows = (", ".join(f"0x{b:02x}" for b in image.data[k : k + 16]) for k in range(0, len(image.data), 16))
    body = ",\n".join(f"  {row}" for row in rows)
    return (
        f"/* {name}_rel.c: a relocatable image, written by atonc. Do not edit. */\n"
        f'#include "{name}_rel.h"\n\n'
        f"#if defined(__ICCARM__)\n#pragma data_alignment = 64\n#define ALIGNED\n#else\n"
        f"#define ALIGNED __attribute__((aligned(64)))\n#endif\n\n"
        f"ALIGNED static const uint8_t image[{len(image.data)}] = {{\n{body}\n}};\n\n"
        f"uintptr_t ai_{name}_reloc_img_get(void)\n{{\n  return (uintptr_t)image;\n}}\n"
    )
