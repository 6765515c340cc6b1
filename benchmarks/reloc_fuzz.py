"""Damaged images through our loader, compiled for this machine with AddressSanitizer and UBSan.

Images: the example network with constants in flash, in external RAM and in the chip's own RAM, with parameters inside
and apart, for three releases; with --fetched also the public image of ne301. --libfuzzer needs clang.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from atonc.delivery.reloc.build import RelocOptions
from atonc.delivery.trials import relocating
from benchmarks.shared.declare import COUNT, JOBS, ONE_FETCHED, WRITE, Report, argument
from tests.reloc import fuzzing, images

GROUP = "board"
ARGUMENTS = (
    COUNT.but(default=100_000),
    argument("--libfuzzer", type=int, default=0, metavar="SECONDS"),
    ONE_FETCHED.but(required=False),
    JOBS.but(default=2),
    WRITE,
)

PACKAGE = "harryhua-ai+ne301/bin/ne301_Model_pkg.bin"
SLOW_SHARE = 500  # the public image has 3 MB of parameters to check
INTRODUCTION = """# Damaged images through the loader

Mutated images (words of the header, context, tables, lists and anywhere; single
bits; cut off; seven of eight with their checksums made right again) through get_info, the check and the installation,
on the host with AddressSanitizer and UBSan. Memory that the loader may not touch is poisoned; after a refusal nothing
may have been written.
"""
Seed = tuple[str, Path, Path | None]


def run(arguments: argparse.Namespace) -> Report:
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        seeds = _seeds(work, arguments.fetched)
        lines = _mutations(work, seeds, arguments.count, arguments.jobs)
        if arguments.libfuzzer:
            lines += _libfuzzer(work, seeds, arguments.libfuzzer)
    return Report("\n".join([INTRODUCTION, *lines, ""]))




def _seeds(work: Path, fetched: Path | None) -> list[Seed]:
    found: list[Seed] = []
    for memories in images.MEMORIES:
        for split in (False, True):
            for runtime in ("1.1.1", "1.1.3-262"):
                options = RelocOptions(runtime=runtime, split=split, blobs_in_params=runtime == "1.1.1")
                built = images.image(images.folder(memories), replace(options))
                name = f"{memories}, {'split' if split else 'whole'}, {runtime}"
                path = work / f"{len(found)}.bin"
                path.write_bytes(built.image.data)
                params = work / f"{len(found)}_params.bin" if split else None
                if params is not None:
                    params.write_bytes(built.params)
                found.append((name, path, params))
    if fetched is not None:
        image, _ = relocating.read_image_file(fetched / PACKAGE)
        (work / "ne301.bin").write_bytes(image.data)
        found.append(("ne301 (ST)", work / "ne301.bin", None))
    return found


def _mutations(work: Path, seeds: list[Seed], count: int, jobs: int) -> list[str]:
    program = fuzzing.build(work, fuzzing.compiler() or "cc")
    quick = [seed for seed in seeds if seed[0] != "ne301 (ST)"]
    share = -(-count // len(quick))

    def one(job: tuple[int, Seed]) -> tuple[str, int, int, float]:
        number, (name, path, params) = job
        turns = share if name != "ne301 (ST)" else SLOW_SHARE
        started = time.perf_counter()
        accepted, refused = fuzzing.run(program, turns, 1000 + number, path, params)
        print(f"{name}: {accepted} accepted, {refused} refused", flush=True)
        return name, accepted, refused, time.perf_counter() - started

    with ThreadPoolExecutor(jobs) as pool:
        rows = list(pool.map(one, enumerate(seeds)))
    total = sum(row[1] + row[2] for row in rows)
    return [
        f"{total:,} images, 0 reports of a sanitizer, 0 writes after a refusal.",
        "",
        "| image | accepted | refused | seconds |\n|---|---:|---:|---:|",
        *(f"| {name} | {accepted:,} | {refused:,} | {seconds:.0f} |" for name, accepted, refused, seconds in rows),
    ]


def _libfuzzer(work: Path, seeds: list[Seed], seconds: int) -> list[str]:
    clang = shutil.which("clang")
    if clang is None:
        raise SystemExit("--libfuzzer needs clang and its runtime: apt install clang libclang-rt-14-dev")
    folder, corpus = work / "libfuzzer", work / "corpus"
    folder.mkdir()
    corpus.mkdir()
    program = fuzzing.build(folder, clang, f"fuzzer,{fuzzing.SANITIZERS}", extra=())
    for k, (_, path, params) in enumerate(seeds):
        if params is None and path.stat().st_size < 1 << 16:
            for choice in (0, 1, 3, 0x25):
                (corpus / f"{k}_{choice}").write_bytes(bytes([choice]) + path.read_bytes())
    words = [str(program), f"-max_total_time={seconds}", "-max_len=65536", "-print_final_stats=1", str(corpus)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        kept = [path.name for path in folder.glob("crash-*")]
        raise SystemExit(f"libFuzzer: exit {done.returncode}, {kept}: {done.stderr[-3000:]}")
    runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    cover = re.findall(r"cov: (\d+) ft: (\d+)", done.stderr)
    number = int(runs[1]) if runs else 0
    edges = cover[-1][0] if cover else "?"
    print(f"libFuzzer: {number:,} runs in {seconds} s, clean", flush=True)
    return ["", f"libFuzzer (clang, both sanitizers): {seconds} s, {number:,} runs, {edges} edges, no finding."]
