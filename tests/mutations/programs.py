"""Programs of the epoch controller: blobs, headers with blobs, assembly texts; disassembled, decoded, checked."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import numpy as np

from atonc.insight.report import run_text
from atonc.insight.runs import programs, safety
from atonc.machine.hw.ec import container_of, disassemble
from tests.hw.ec_programs import sample_program
from tests.hw.test_ec_mutations import sources, use_blob
from tests.mutations.damage import damaged_bytes
from tests.test_hostile_networks import MUTATIONS

ROOT = Path(__file__).resolve().parent.parent.parent


@lru_cache
def bases() -> tuple[tuple[str, bytes], ...]:
    """(file name, contents)."""
    first = ROOT / "examples" / "first"
    blobs = sources()
    words = np.frombuffer(blobs["container 0x20"], dtype="<u8").tolist()
    header = "static const uint64_t _ec_blob_1[] = {" + ",".join(f"{n:#x}UL" for n in words) + "};\n"
    text = disassemble(container_of(sample_program()))
    real = programs.read_programs(first / "network_ecblobs.h")
    return (
        *(("x.bin", data) for data in blobs.values()),
        *(("x.bin", programs.to_binary(program.container)) for program in real),
        *(("x.s", program.text().encode()) for program in real),
        ("x.h", header.encode()),
        ("x.h", (first / "network_ecblobs.h").read_bytes()),
        ("x.s", text.encode()),
        ("x.s", (first / "network.s").read_bytes()),
    )


def try_program(rng: random.Random, number: int, work: Path) -> None:
    name, data = rng.choice(bases())
    if name != "x.bin" and rng.random() < 0.5:
        data = bytes(rng.choice(MUTATIONS)(bytearray(data), rng))
    else:
        data = damaged_bytes(data, rng)
    path = work / name
    path.write_bytes(data)
    if name == "x.bin":
        use_blob(data)
    for program in (found := programs.read_programs(path)):
        program.text()
        for epoch in program.epochs():
            run_text.epoch_lines(epoch)
            run_text.epoch_data(epoch)
    safety.check_programs(found)
