"""The C text around the example's program: epoch block list, buffer tables, blob array, memory pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

NAME, BLOB = "first", "_ec_blob_first_1"

NPU_RAM = "READ_WRITE THROUGHPUT=HIGH LATENCY=LOW byte width=8 freq ratio=1.25"
FLASH = "READ_ONLY THROUGHPUT=MID LATENCY=HIGH byte width=1 freq ratio=6"
POOLS = (  # index, postfix, name, base, size, kind
    (0, "AXISRAM6", "npuRAM6", 0x3435_0000, 458744, NPU_RAM),
    (1, "AXISRAM5", "npuRAM5", 0x342E_0000, 458752, NPU_RAM),
    (2, "AXISRAM4", "npuRAM4", 0x3427_0000, 458752, NPU_RAM),
    (3, "AXISRAM3", "npuRAM3", 0x3420_0000, 458752, NPU_RAM),
    (4, "xSPI2", "octoFlash", 0x7038_0000, 61865984, FLASH),
)

HEAD = """/* first: an image of 64x64x4 bytes becomes eight means of filtered channels.

   Written by examples/make_first.py of atonc, for the emulator: the same tables that a compiled network has, and
   nothing else. Not yet run on a board. Apache-2.0. */

#include "ll_aton.h"
#include "ll_aton_NN_interface.h"
#include "network_ecblobs.h"
"""

BLOCKS = """
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_{name}(void)
{{
  static const EpochBlock_ItemTypeDef blocks[] = {{
    {{
      .start_epoch_block = NULL,
      .end_epoch_block = NULL,
      .blob_address = (uintptr_t)({blob}),
      .wait_mask = 0,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_blob |
               EpochBlock_Flags_pure_hw,
#ifdef LL_ATON_EB_DBG_INFO
      .epoch_num = 1,
      .last_epoch_num = {last},
#endif
    }},
    {{
      .flags = EpochBlock_Flags_last_eb,
    }},
  }};
  return blocks;
}}
"""

TABLE = """
const LL_Buffer_InfoTypeDef *LL_ATON_{kind}_Buffers_Info_{name}(void)
{{
{arrays}
  static const LL_Buffer_InfoTypeDef buffers[] = {{
{entries}
    {{ .name = NULL }},
  }};
  return buffers;
}}
"""

ENTRY = """    {{
      .name = "{name}",
      .addr_base = {{(unsigned char *)({address:#010x}UL)}},
      .offset_start = 0, .offset_end = {size}, .offset_limit = {limit},
      .is_user_allocated = 0, .is_param = {param}, .epoch = {epoch}, .batch = {batch},
      .mem_shape = {name}_shape, .mem_ndims = 4, .chpos = CHPos_Last,
      .Qm = 7, .Qn = 0, .Qunsigned = 0, .type = DataType_INT8, .nbits = 8,
      .ndims = 4, .shape = {name}_shape,
      .per_channel = {per_channel}, .scale = {name}_scale, .offset = {name}_offset,
    }},"""

HEADER = """/* The program of `first`, assembled from network.s. Written by examples/make_first.py of atonc. */

#include <stdint.h>

static const uint64_t {blob}[] =
{{
{lines}
}};
"""


@dataclass(frozen=True)
class Tensor:
    """An int8 buffer, channels last."""

    name: str
    address: int
    shape: tuple[int, int, int, int]
    scales: tuple[float, ...]
    zero: int
    epoch: int
    param: bool = False


def network_c(epochs: int, tables: Mapping[str, Sequence[Tensor]]) -> str:
    text = HEAD + "\n" + "".join(_pool(*pool) for pool in POOLS)
    text += BLOCKS.format(name=NAME, blob=BLOB, last=epochs)
    return text + "".join(_table(kind, tensors) for kind, tensors in tables.items())


def blob_header(words: Sequence[int]) -> str:
    """64-bit numbers, the first word of each pair in the low half."""
    pairs = [f"0x{high:08x}{low:08x}UL," for low, high in zip(words[::2], words[1::2], strict=True)]
    lines = [" ".join(pairs[k : k + 4]) for k in range(0, len(pairs), 4)]
    return HEADER.format(blob=BLOB, lines="\n".join(f"  {line}" for line in lines))


def _pool(index: int, postfix: str, name: str, base: int, size: int, kind: str) -> str:
    flash = "ON" if kind is FLASH else "OFF", "YES" if kind is FLASH else "NO"
    return (
        f"/* index={index} file postfix={postfix} name={name} offset={base:#x}  absolute_mode size={size} {kind} "
        f"cacheable={flash[0]} use4initializers={flash[1]} */\n"
    )


def _table(kind: str, tensors: Sequence[Tensor]) -> str:
    arrays = "\n".join(line for tensor in tensors for line in _arrays(tensor))
    entries = "\n".join(_entry(tensor) for tensor in tensors)
    return TABLE.format(kind=kind, name=NAME, arrays=arrays, entries=entries)


def _arrays(tensor: Tensor) -> list[str]:
    def numbers(values: Sequence[float]) -> str:
        return ", ".join(f"{value:.15g}" for value in values)

    zeros = [tensor.zero] * len(tensor.scales)
    return [
        f"  static const uint32_t {tensor.name}_shape[] = {{ {numbers(tensor.shape)} }};",
        f"  static const float {tensor.name}_scale[] = {{ {numbers(tensor.scales)} }};",
        f"  static const int16_t {tensor.name}_offset[] = {{ {numbers(zeros)} }};",
    ]


def _entry(tensor: Tensor) -> str:
    size = prod(tensor.shape)
    return ENTRY.format(
        name=tensor.name,
        address=tensor.address,
        size=size,
        limit=size + 64,
        param=int(tensor.param),
        epoch=tensor.epoch,
        batch=tensor.shape[3],
        per_channel=int(len(tensor.scales) > 1),
    )
