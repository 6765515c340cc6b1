"""Weights that live in RAM (`--resident`): the list of copies, and the functions that make and release them."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.emit.c import kernels, names
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.place.types import Placed
from atonc.compiler.schedule.passes import KERNELS_IN_RAM
from atonc.machine.hw.limits import CPU_CACHE_LINE

_TEXT = """/* Weights in RAM: {total} bytes, copied when the network is initialised. Of evidence there is this much:
 * {evidence}. Run `atonc validate --mode target` on your board before you rely on it.
 *
 * To use this memory for something else between inferences, call ATONC_Release_Resident_{net}. The weights are copied
 * again before the next inference, or when ATONC_Load_Resident_{net} is called.
 */
#include <string.h>

typedef struct {{
  uintptr_t from;
  uintptr_t to;
  uint32_t bytes; /* of the copy */{bits}
}} atonc_resident_t;

static bool atonc_resident_ready = false;

static const atonc_resident_t *ATONC_Resident_{net}(void)
{{
  static const atonc_resident_t copies[] = {{
{rows}    {{ .bytes = 0 }},
  }};

  return copies;
}}

void ATONC_Load_Resident_{net}(void);
void ATONC_Release_Resident_{net}(void);
{unpack}
void ATONC_Load_Resident_{net}(void)
{{
  for (const atonc_resident_t *copy = ATONC_Resident_{net}(); copy->bytes != 0U; copy++) {{
{copy}    LL_ATON_Cache_MCU_Clean_Range(copy->to, (copy->bytes + {line}U - 1U) / {line}U * {line}U);
  }}
  atonc_resident_ready = true;
}}

void ATONC_Release_Resident_{net}(void)
{{
  atonc_resident_ready = false;
}}
"""


_BITS = "\n  uint32_t bits;  /* of a value where it comes from: 8, or 4 with the first of two in the low bits */"
_COPY = "    memcpy((void *)copy->to, (const void *)copy->from, copy->bytes);\n"
_COPY_OR_UNPACK = """    if (copy->bits == 4U) {
      atonc_unpack((int8_t *)copy->to, (const uint8_t *)copy->from, copy->bytes);
    } else {
      memcpy((void *)copy->to, (const void *)copy->from, copy->bytes);
    }
"""


def residents(network: CNetwork) -> list[Placed]:
    homes = (home for home in network.program.placed.values() if home.copy_of)
    return sorted(homes, key=lambda home: home.address)


def text(network: CNetwork) -> str:
    found = residents(network)
    if not found:
        return ""
    total = sum(home.buffer.size_bytes for home in found)
    small = any(network.home(home.copy_of).buffer.four_bits for home in found)
    parts = {"bits": "", "unpack": "", "copy": _COPY}
    if small:
        parts = {"bits": _BITS, "unpack": f"\n{kernels.unpacking()}", "copy": _COPY_OR_UNPACK}
    parts["rows"] = "".join(_row(network, home, small) for home in found)
    return _TEXT.format(net=network.suffix, total=total, line=CPU_CACHE_LINE, evidence=KERNELS_IN_RAM, **parts)


def _row(network: CNetwork, home: Placed, small: bool) -> str:
    constant = network.home(home.copy_of)
    source, target = network.place(constant.address), network.place(home.address)
    bits = f", .bits = {4 if constant.buffer.four_bits else 8}U" if small else ""
    label = names.comment(home.copy_of)
    return f"    {{ .from = {source}, .to = {target}, .bytes = {home.buffer.size_bytes}U{bits} }}, /* {label} */\n"


def at_initialisation(network: CNetwork) -> str:
    return f"  ATONC_Load_Resident_{network.suffix}();\n" if residents(network) else ""


def before_inference(network: CNetwork) -> str:
    if not residents(network):
        return ""
    return f"  if (!atonc_resident_ready) {{\n    ATONC_Load_Resident_{network.suffix}();\n  }}\n"


def header_lines(network: CNetwork, prefix: str) -> list[str]:
    """Tells the application what is in RAM, and declares the functions."""
    found = residents(network)
    if not found:
        return []
    net = network.suffix
    return [
        "/* Weights in RAM: loaded with the network, given up and loaded again by these. */",
        f"#define {prefix}_RESIDENT_BYTES ({network.memory.resident_bytes})",
        *_ranges(network, prefix),
        "#ifdef __cplusplus",
        f'extern "C" void ATONC_Load_Resident_{net}(void);',
        f'extern "C" void ATONC_Release_Resident_{net}(void);',
        "#else",
        f"void ATONC_Load_Resident_{net}(void);",
        f"void ATONC_Release_Resident_{net}(void);",
        "#endif",
        "",
    ]


def _ranges(network: CNetwork, prefix: str) -> Iterator[str]:
    """Neighbours together, in whole cache lines."""
    merged: list[list[int]] = []
    for home in residents(network):
        end = -(-home.end // CPU_CACHE_LINE) * CPU_CACHE_LINE
        if merged and merged[-1][1] == home.address:
            merged[-1][1] = end
        else:
            merged.append([home.address, end])
    yield f"#define {prefix}_RESIDENT_RANGES ({len(merged)})"
    for number, (start, end) in enumerate(merged, 1):
        yield f"#define {prefix}_RESIDENT_{number}_ADDRESS {names.address(start)}"
        yield f"#define {prefix}_RESIDENT_{number}_SIZE_BYTES ({end - start})"
