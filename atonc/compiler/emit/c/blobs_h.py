"""`<name>_ecblobs.h`: programs for the epoch controller, and how they are made ready.

Programs that use buffers of the application or pools without a fixed base are stored with a relocation table; the copy
that runs lies in RAM, and the addresses in it are moved to where these are: pools once, when the network is
initialised, buffers of the application before each inference. This needs no function of the loader, whose arguments
differ between releases.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atonc.compiler.emit import relocs
from atonc.compiler.emit.c import encryption, memories, names, resident
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.emit.program import Movable, UserBuffer
from atonc.compiler.emit.usage import copy_bytes
from atonc.machine.hw.ec.blob import Container, Relocation
from atonc.machine.hw.limits import NPU_CACHE_LINE

_HEAD = """/* {file}: programs for the epoch controller, written by {tool}. Do not edit. */

#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ll_aton_caches_interface.h"

/* Where the constant programs and the ones that are patched at run time go; empty: .rodata and .bss. */
#if !defined(ECBLOB_CONST_SECTION)
#define ECBLOB_CONST_SECTION
#endif
#if !defined(ECBLOB_RUNTIME_SECTION)
#define ECBLOB_RUNTIME_SECTION
#endif

"""

_RELOCATE = """/* Adds `delta` to some 32-bit words of a program. */
static void atonc_relocate(uint64_t *program, const uint32_t *words, uint32_t count, uint32_t delta)
{
  for (uint32_t i = 0; i < count; i++) {
    uint64_t *pair = &program[words[i] / 2U];
    uint32_t low = (uint32_t)*pair;
    uint32_t high = (uint32_t)(*pair >> 32);
    if ((words[i] & 1U) != 0U) {
      high += delta;
    } else {
      low += delta;
    }
    *pair = ((uint64_t)high << 32) | low;
  }
}

"""


def files(network: CNetwork) -> dict[str, bytes]:
    """The file of programs; networks that call the driver have none."""
    return {f"{network.name}_ecblobs.h": text(network).encode()} if network.epoch_controller else {}


def included(network: CNetwork) -> str:
    """What the C file has of it: scripts copy the file only where there are programs."""
    if network.epoch_controller:
        return f'#include "{network.name}_ecblobs.h"\n'
    return f"{_network_init(network, [])}\n{_inference_init(network, [])}"


def text(network: CNetwork) -> str:
    blobs = [StoredProgram(network, block) for block in network.blocks if not block.on_cpu]
    relocated = [blob for blob in blobs if blob.relocations]
    head = _HEAD.format(file=f"{network.name}_ecblobs.h", tool=network.tool, guard=guard(network))
    arrays = "".join(blob.arrays() for blob in blobs)
    code = _RELOCATE if relocated else ""
    return f"{head}{arrays}{code}{_network_init(network, relocated)}\n{_inference_init(network, relocated)}\n#endif\n"


def guard(network: CNetwork) -> str:
    return f"{names.macro(network.name)}_ECBLOBS_H"


class StoredProgram:
    """One program and its arrays."""

    def __init__(self, network: CNetwork, block: Block) -> None:
        self.network, self.block = network, block
        self.name = names.blob(network.name, block.first)
        self.container: Container = relocs.container(network.program, block.steps)

    @property
    def relocations(self) -> tuple[Relocation, ...]:
        return self.container.relocations

    @property
    def prefix_words(self) -> int:
        return len(self.container.prefix)

    @property
    def blob_words(self) -> int:
        return len(self.container.blob.words())

    @property
    def of_application(self) -> list[Relocation]:
        """Those that may change between inferences."""
        return [one for one in self.relocations if isinstance(self.part(one), UserBuffer)]

    def part(self, relocation: Relocation) -> Movable:
        return next(part for part in self.network.program.movable if part.symbol == relocation.symbol)

    def arrays(self) -> str:
        digits = np.array(self.container.words(), "<u4").view("<u8").astype(">u8").tobytes().hex()
        pairs = [f"0x{digits[k : k + 16]}ULL" for k in range(0, len(digits), 16)]
        epochs = f"epochs {self.block.first} to {self.block.last}"
        stored = (
            f"/* {epochs} */\nECBLOB_CONST_SECTION __attribute__((aligned({NPU_CACHE_LINE})))\n"
            f"static const uint64_t {self.name}[{len(pairs)}] = {{\n{names.lines_of(pairs, 4)}}};\n"
        )
        if not self.relocations:
            return f"{stored}#define {self.name}_address {self.name}\n\n"
        return stored + "".join(self._runtime())

    def _runtime(self) -> Iterator[str]:
        yield (
            f"ECBLOB_RUNTIME_SECTION __attribute__((aligned({NPU_CACHE_LINE})))\n"
            f"static uint64_t {self.name}_ptr[{self.padded_bytes // 8}];\n"
            f"#define {self.name}_address {self.name}_ptr\n"
        )
        for index, relocation in enumerate(self.relocations):
            key = f"{self.name}_{relocation.symbol}"
            symbol = self.network.c_symbol(self.part(relocation))
            words = [f"{word + 2}U" for word in relocation.offsets]  # magic and length lie in front
            yield (
                f"#define {key}_RELOC_IDX {index}\n"
                f"#define {key}_BASE_SYMBOL ((unsigned char *){symbol})\n"
                f"static const uint32_t {key}_words[{len(words)}] = {{\n{names.lines_of(words, 12)}}};\n"
            )
            if relocation in self.of_application:
                yield f"static uint32_t {key}_base;\n"
        yield "\n"

    @property
    def padded_bytes(self) -> int:
        return copy_bytes(self.container)


def _network_init(network: CNetwork, blobs: list[StoredProgram]) -> str:
    body = memories.CHECK
    for blob in blobs:
        start = f"{blob.name} + {blob.prefix_words // 2}"
        body += f"  memcpy({blob.name}_ptr, {start}, {4 * blob.blob_words}U);\n"
        for relocation in blob.relocations:
            key = f"{blob.name}_{relocation.symbol}"
            body += f"  {key}_base = 0U;\n" if relocation in blob.of_application else _move(blob, relocation)
        body += "" if blob.of_application else _publish(blob)
    body += encryption.at_initialisation(network) + resident.at_initialisation(network)
    return (
        "/* Once, when the network is initialised. */\n"
        f"bool LL_ATON_EC_Network_Init_{network.suffix}(void)\n{{\n{body}  return true;\n}}\n"
    )


def _inference_init(network: CNetwork, blobs: list[StoredProgram]) -> str:
    body = ""
    users = network.program.user_io
    if users:
        missing = " || ".join(f"({network.c_symbol(user)} == NULL)" for user in users)
        body += f"  if ({missing}) {{\n    return false; /* the application has not set its buffers */\n  }}\n"
    for blob in blobs:
        if blob.of_application:
            body += "".join(_move_again(blob, relocation) for relocation in blob.of_application) + _publish(blob)
    body += resident.before_inference(network)
    return (
        "/* Before each inference. */\n"
        f"bool LL_ATON_EC_Inference_Init_{network.suffix}(void)\n{{\n{body}  return true;\n}}\n"
    )


def _publish(blob: StoredProgram) -> str:
    """The program in RAM is what the controller will read."""
    area = f"(uintptr_t){blob.name}_ptr, {blob.padded_bytes}U"
    return f"  LL_ATON_Cache_NPU_Clean_Invalidate_Range({area});\n  LL_ATON_Cache_MCU_Clean_Range({area});\n"


def _move(blob: StoredProgram, relocation: Relocation, since: str = "") -> str:
    key = f"{blob.name}_{relocation.symbol}"
    distance = f"(uint32_t)(uintptr_t){key}_BASE_SYMBOL{since}"
    return f"  atonc_relocate({blob.name}_ptr, {key}_words, {len(relocation.offsets)}U, {distance});\n"


def _move_again(blob: StoredProgram, relocation: Relocation) -> str:
    key = f"{blob.name}_{relocation.symbol}"
    moved = _move(blob, relocation, f" - {key}_base")
    return f"{moved}  {key}_base = (uint32_t)(uintptr_t){key}_BASE_SYMBOL;\n"
