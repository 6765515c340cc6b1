"""Firmware projects of our own, laid out as the published ones, small enough to build in a second."""

from __future__ import annotations

import json
import os
from pathlib import Path

BOARD = "STM32N6570-DK"
_CONF = {
    "env": {
        "cproject_name": "Small",
        "project_folder": "${ProjectFolder}/Application/STM32N6570-DK/STM32CubeIDE",
        "network_src_root": "${ProjectFolder}/Model/STM32N6570-DK",
        "fsbl_bin": "ai_fsbl.hex",
    },
    "templates": [["", "${ProjectFolder}/Application/STM32N6570-DK/Inc/app_config.h", "copy"]],
    "memory_pool": {"neuralart_user_path": "${ProjectFolder}/Model/profile.json", "profile": "default"},
    "configurations": [
        {
            "cproject_location": "${project_folder}",
            "cproject_config": "Debug",
            "cproject_name": "${cproject_name}",
            "external_loader": "loader.stldr",
        }
    ],
}
_MAKEFILE = """TARGET = Project
BUILD_TOP = build
BUILD_DIR = $(BUILD_TOP)/out
C_SOURCES += Src/main.c
CFLAGS = -mcpu=cortex-m55 -mthumb -Os -Wall $(C_DEFS) -IInc -fcyclomatic-complexity
$(BUILD_DIR)/$(TARGET).elf: $(C_SOURCES) Inc/app_config.h ../../Model/STM32N6570-DK/network.c Makefile
\tmkdir -p $(BUILD_DIR)
\tarm-none-eabi-gcc $(CFLAGS) -nostdlib -nostartfiles -Wl,-e,main,-Ttext=0x34000400 -o $@ $(C_SOURCES)
"""
_MAIN_C = """#include "app_config.h"
CLASSES_TABLE;
int main(void) { return NB_CLASSES + NN_WIDTH + classes_table[0][0]; }
"""


def n6_project(root: Path) -> Path:
    files = {
        f"stmaic_{BOARD}.conf": "// as people write it\n" + json.dumps(_CONF),
        "Model/profile.json": json.dumps({"Profiles": {"default": {"options": "-O3"}}}),
        f"Model/{BOARD}/network.c": "/* of another model */\n",
        f"Application/{BOARD}/Makefile": _MAKEFILE,
        f"Application/{BOARD}/Src/main.c": _MAIN_C,
        f"Application/{BOARD}/Inc/app_config.h": "/* of another model */\r\n#define OLD 1\r\n",
        f"Application/{BOARD}/Inc/arm_math.h": "typedef float float32_t;\n",
        "Binary/ai_fsbl.hex": ":00000001FF\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


def fake_tool(folder: Path, name: str, body: str) -> None:
    """A script in the search path that writes what it was told to `log`."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{name} $@" >> "{folder}/log"\n{body}\n')
    os.chmod(path, 0o755)


def tree(root: Path) -> dict[str, bytes]:
    """Everything but objects, locks and the mark of a build."""
    skipped = ("build-atonc", "build.lock")
    paths = [p for p in root.rglob("*") if p.is_file() and not any(part in skipped for part in p.parts)]
    return {str(p.relative_to(root)): p.read_bytes() for p in paths}
