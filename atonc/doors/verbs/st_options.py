"""Options of ST's command line that existing scripts carry and that change nothing here: each says why in one line."""

from __future__ import annotations

import argparse
from typing import Any

from atonc.doors.verbs.flags import ST_ONLY, NoEffect, RefusedOption, group, mark_rare
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Foreign:
    names: tuple[str, ...]
    why: str
    value: str = ""  # metavar; empty: a switch
    choices: tuple[str, ...] = ()
    instead: str = ""  # refused, since it asks for something that we do not have: what to do then
    optional: bool = False  # the value may be left out

    @property
    def refused(self) -> bool:
        return bool(self.instead)


_ADDRESSES = "addresses of weights are those of the memory pools (--mpool)"
_NO_FILES = "no intermediate files are written"

COMMON = (
    Foreign(
        ("-c", "--compression"),
        "the NPU reads quantised weights as they are; compression is for float layers on the CPU",
        "LEVEL",
        ("none", "lossless", "low", "medium", "high"),
    ),
    Foreign(("-w", "--workspace"), _NO_FILES, "DIR"),
    Foreign(("--no-workspace",), _NO_FILES),
    Foreign(("--split-weights",), "weights lie in one image for every memory, never in one C array"),
    Foreign(("--no-onnx-optimizer",), "no optimiser changes the model; passes here keep every result as it is"),
    Foreign(("--use-onnx-simplifier",), "constants are folded and repeats merged in any case"),
    Foreign(("--prefetch-compressed-weights",), "weights are not compressed"),
    Foreign(("--allocate-activations",), "the places of activations are fixed when the network is compiled"),
    Foreign(("--allocate-states",), "no state is kept from one inference to the next"),
    Foreign(("--hsp",), "it is for stm32u3", "WORDS", optional=True),
    Foreign(("--optimize.export_hybrid",), "it is internal to ST's tool; its cloud passes it on", "VALUE"),
    Foreign(("--custom",), "layers with code of your own have no place in the program", "FILE.json",
            instead="end the model before such a layer (--cut-output-tensors), compute it in the application, and "
            "compile what follows as a network of its own (--cut-input-tensors)"),
    Foreign(("--device",), "it is for sensors with an ISPU", "NAME",
            instead="leave it out for --target stm32n6; sensors need ST's tool"),
)  # fmt: skip
GENERATE = (
    Foreign(("--dll",), "the emulator runs the generated files on any computer (`atonc run`)"),
    Foreign(("--address",), _ADDRESSES, "ADDRESS"),
    Foreign(("--copy-weights-at", "--copy-weight-at"), _ADDRESSES, "ADDRESS"),
    Foreign(("-l", "--lib"), "the C files of the kernels are written beside the network, no library is linked", "DIR"),
)
VALIDATE = (
    Foreign(("--full",), "layers are compared in any case, unless --io-only is given"),
    Foreign(("--no-check",), "the checks are part of the answer and cost little"),
    Foreign(("--ispu-conf",), "it is for sensors with an ISPU", "FILE"),
)
OPS = (Foreign(("--target",), "the table is that of stm32n6, the only target", "NAME"),)


def add_foreign(parser: argparse.ArgumentParser, *tables: tuple[Foreign, ...]) -> None:
    for known in (option for table in tables for option in table):
        extra: dict[str, Any] = {"metavar": known.value, "choices": known.choices or None} if known.value else {}
        extra |= {"instead": known.instead} if known.refused else {}
        added = group(parser, ST_ONLY).add_argument(
            *known.names,
            action=RefusedOption if known.refused else NoEffect,
            why=known.why,
            nargs=("?" if known.optional else None) if known.value else 0,
            dest="no_effect",
            default=argparse.SUPPRESS,
            help=f"refused: {known.why}" if known.refused else known.why,
            **extra,
        )
        mark_rare(added)
