"""Command lines at the end of each verb's help; what stands behind # says what they do. The tests parse every one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

TITLE = "examples:"
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": (
        "atonc generate model.tflite  # C files, images, reports into st_ai_output",
        "atonc -m model.onnx --target stm32n6 --st-neural-art  # no verb: analyze",
        "atonc VERB --help  # all options of a verb",
    ),
    "generate": (
        "atonc generate model.tflite -o build  # C files, memory images, reports",
        "atonc generate -m m.onnx --st-neural-art default@user_neuralart.json",
    ),
    "analyze": (
        "atonc analyze model.tflite  # where every operator runs, memory, latency",
        "atonc analyze model.onnx --max-latency 20 --no-spill --json  # a gate in CI",
    ),
    "quantize": (
        "atonc quantize float.onnx --data photos --std 255  # scaled to 0..1",
        "atonc quantize float.tflite --data samples.npz --objective speed --json",
    ),
    "explain": (
        "atonc explain model.tflite  # the costliest layers, what to do about each",
        "atonc explain st_ai_output --layer conv2d_3  # of a build of ours or ST's",
        "atonc explain int8.onnx --accuracy --float float.onnx --input samples.npz",
    ),
    "ops": (
        "atonc ops Conv  # one operator with all its rules",
        "atonc supported-ops --type onnx  # every ONNX operator that is read",
    ),
    "validate": (
        "atonc validate model.tflite -vi samples.npz  # your inputs",
        "atonc validate -m model.onnx --mode target -d serial:921600 -b 4",
    ),
    "evaluate": (
        "atonc evaluate model.tflite --data flowers  # a folder for each class",
        "atonc evaluate int8.onnx --data coco.json --images val --decoder st_yolox",
    ),
    "run": (
        "atonc run st_ai_output --input photo.png  # also a folder that ST's tool wrote",
        "atonc run st_ai_output --seed 3 --output a.npz --json",
    ),
    "compare": (
        "atonc compare build_a build_b  # epochs, cycles, memory, layer by layer",
        "atonc compare st_ai_output model.tflite --max-ratio 1.1  # as a gate",
    ),
    "sweep": (
        "atonc sweep sweep.toml  # every combination that the file names",
        "atonc sweep sweep.toml -o results --scheduler tcp://lab:8786  # with Dask",
    ),
    "view": (
        "atonc view st_ai_output  # serves the page on 127.0.0.1",
        "atonc view st_ai_output --save report.html",
    ),
    "serve": (
        "atonc serve  # the compiler in the browser, for this machine only",
        "atonc serve --host 0.0.0.0 --allow-host lab.local  # for others, by token",
    ),
    "disasm": (
        "atonc disasm st_ai_output/network_ecblobs.h --epochs",
        "atonc disasm network_ecblobs.h --check  # exit code 1: a rule is broken",
    ),
    "asm": (
        "atonc asm network.s -o network.bin",
        "atonc asm network.s -o network_ecblobs.h -n network  # as an array in C",
    ),
    "probe": (
        "atonc probe --list  # which questions there are",
        "atonc probe all -o probes  # firmware for all of them",
        "atonc probe all --board nucleo-n657x0-q -o probes  # for the other board",
        "atonc probe read uart.log -o evidence.json  # for --evidence",
    ),
    "app build": (
        "atonc app build app.toml -o build --max-load 60  # docs/several-networks.md",
        "atonc app build detector.tflite reid.onnx -o build --try 5  # the short form",
    ),
    "app update": (
        "atonc app update app.toml reid --built build -o new  # its next version",
        "atonc app update app.toml reid --try 5  # exchanged on the virtual board",
    ),
    "reloc": (
        "atonc reloc st_ai_output -o build --split",
        "atonc reloc --inspect build/network_rel.bin  # header, sections, checks",
    ),
    "load-and-run": (
        "atonc load-and-run build/network_rel.bin  # on the virtual board",
        "atonc load-and-run build/network_rel.bin --real --dry-run",
    ),
    "recordings check": (
        "atonc recordings check board.npz  # hashes, clocks, times: code 1 if untrue",
        "atonc recordings check board.npz --json",
    ),
    "recordings compare": (
        "atonc recordings compare board.npz st_ai_output  # beside the emulator",
        "atonc recordings compare board.npz other.npz  # two boards, or two clocks",
    ),
    "recordings power": (
        "atonc recordings power meter.csv --build out  # beside the estimate",
        "atonc recordings power meter.csv --volts 3.3 --recording board.npz",
    ),
    "recordings add": (
        "atonc recordings add board.npz  # into the folder recordings",
        "atonc recordings add board.npz --to shared  # for others to use",
    ),
    "deploy": (
        "atonc deploy deployment_config.yaml --dry-run  # patches, nothing changed",
        "atonc deploy deployment_config.yaml --until build",
    ),
    "board list": ("atonc board list", "atonc board list my_boards --json"),
    "board show": ("atonc board show stm32n6570-dk", "atonc board show stm32n6570-dk --toml > mine.toml"),
    "board mpool": ("atonc board mpool stm32n6570-dk -o my.mpool", "atonc board mpool noextmem@stm32n6570-dk"),
    "board linker": ("atonc board linker stm32n6570-dk -o memories.ld", "atonc board linker mine.toml"),
    "board check": (
        "atonc board check firmware.elf --network st_ai_output  # overlaps: code 1",
        "atonc board check firmware.elf --board mine.toml --mpool my.mpool",
    ),
    "board import": (
        "atonc board import my.mpool STM32N657xx.ld -o mine.toml",
        "atonc board import my.mpool --based-on stm32n6570-dk",
    ),
    "board run": (
        "atonc board run firmware.elf --flash network_data.bin@0x70380000",
        "atonc board run firmware.elf --serial pty  # its UART on a pseudo-terminal",
    ),
    "board build": (
        "atonc board build st_ai_output -o firmware.elf  # for the virtual board",
        "atonc board build st_ai_output --sources my_project",
    ),
    "stedgeai": (
        "atonc stedgeai --install ~/st  # then STEDGEAI_CORE_DIR=~/st",
        "atonc stedgeai --install ~/st --runtime my_app/Middlewares/AI_Runtime",
    ),
    "doctor": (
        "atonc doctor  # what this machine has and lacks for each step",
        "atonc doctor --for compile --json",
    ),
    "completion": (
        'eval "$(atonc completion bash)"  # in ~/.bashrc; zsh likewise in ~/.zshrc',
        "atonc completion fish > ~/.config/fish/completions/atonc.fish",
    ),
}


def add_examples(parser: argparse.ArgumentParser, verb: str = "") -> None:
    """Adds examples to the parser and to all verbs behind it."""
    if verb in EXAMPLES:
        parser.epilog = "\n".join([TITLE, *(f"  {line}" for line in EXAMPLES[verb])])
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                add_examples(inner, f"{verb} {name}".strip())
