"""ST's published encryption scripts on our folders, with a fake board at the end of the serial line.

DIR holds `SeongMin1000+N6_cusotm_validation`, which has ST's N6_encrypt package (`end_to_end_encrypt.py` with what it
imports). `--python` is an interpreter with pyserial, protobuf and tqdm (default: this one).
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.wire import messages as protobuf
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import instructions
from atonc.machine.hw.footprint import touched
from atonc.machine.hw.units.stream_engine import StrengConfig
from benchmarks.shared.corpus import model as path_of
from benchmarks.shared.declare import MODEL_FILES, ONE_FETCHED, PYTHON, WRITE, Report

GROUP = "board"
BOARDS = ("stm32n6570-dk", "nucleo-n657x0-q")
MODELS = (
    "examples/digits/digits.tflite",
    "kws_ref_model.tflite",
    "fomo_face_detection.tflite",
    "yunetn_320_qdq_int8.onnx",
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
)
ARGUMENTS = (ONE_FETCHED, PYTHON, WRITE, MODEL_FILES.but(default=MODELS))
SCRIPTS = "SeongMin1000+N6_cusotm_validation/scripts/N6_encrypt/python"
TOOLS = {  # of STM32CubeIDE, which the script looks for and, told to skip loading its firmware, never starts
    "com.st.gdb-server.1": "ST-LINK_gdbserver",
    "com.st.gnu-tools-for-stm32.1": "arm-none-eabi-gdb",
    "com.st.cubeprogrammer.1": "STM32_Programmer_CLI",
}
ALIGNED = 16  # constants begin at multiples of it: gaps between them are shorter
TIMEOUT_S = 300
TRIES = 4
_CHUNK_S = 0.025  # that 4,096 bytes take at 1,843,200 baud, and a little more
_PARAMETERS, _DATA, _ACK = 4, 5, 7  # fields of the message

INTRODUCTION = """# ST's encryption scripts on our folders

`atonc generate --encrypt-weights`, then `end_to_end_encrypt.py C_INFO RAW --skip_debug --postprocess` of ST's package,
unchanged, over a pseudo-terminal. At its other end is no board: a stand-in takes keys and chunks as the firmware does,
and gives every byte back complemented. **That is no cipher**: it shows which bytes the script found, and where it put
what came back. Keys are drawn anew for every run.

- *region*: address and size that the script sent, in chunks of 4,096 bytes with their final addresses, each a multiple
  of 8. *deciphered*: bytes that reading engines with the cipher on touch, by the registers of the written programs.
- *same region*: both agree (engines leave out what pads constants to 16 bytes), no engine without the cipher touches
  it, and what was sent are the bytes of the image.
- *image after*: of the same size, complemented in the region and nowhere else; the plain one is kept as `.unencrypted`.
- *keys in our files*: of the folder, before and after. The script itself prints its keys, and writes them to
  `encryption.log` beside itself.

- *tries*: the script sends and receives in two threads without a lock. On a busy machine it may end before the last
  chunk (the image is then shorter) or wait for one too many (it ends with an IndexError): begin again from the plain
  image, which it keeps as `.unencrypted`.

| model | board | image | region | chunks | deciphered | same region | image after | keys in our files | tries |
|---|---|---:|---|---:|---:|---|---|---:|---:|"""


@dataclass
class StandIn:
    """What is at the other end of the line."""

    line: int
    keys: list[int] = field(default_factory=list)
    chunks: list[tuple[int, bytes]] = field(default_factory=list)

    def serve(self) -> None:
        try:
            while True:
                size = int.from_bytes(self._read(4), "little")
                self._answer(dict(protobuf.fields(self._read(size))))
        except OSError:
            return  # the script has closed the line

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += os.read(self.line, count - len(data))
        return data

    def _answer(self, message: dict[int, Any]) -> None:
        if _PARAMETERS in message:
            self.keys = [int(v) for v in _packed(dict(protobuf.fields(message[_PARAMETERS]))[1])]
            self._send(protobuf.text(_ACK, b""))
        elif _DATA in message:
            part = dict(protobuf.fields(message[_DATA]))
            address, data, number = int(part[4]), bytes(part[3]), int(part.get(2, 0))
            self.chunks.append((address, data))
            self._send(protobuf.text(_ACK, b""))
            time.sleep(_CHUNK_S)
            body = protobuf.number(2, number) + protobuf.text(3, _complement(data)) + protobuf.number(4, address)
            self._send(protobuf.text(_DATA, body))

    def _send(self, body: bytes) -> None:
        data = len(body).to_bytes(4, "little") + body
        while data:
            data = data[os.write(self.line, data) :]


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = protobuf.read_varint(data, at)
        yield value & 0xFFFF_FFFF


def _complement(data: bytes) -> bytes:
    return bytes(255 - byte for byte in data)


def run(arguments: argparse.Namespace) -> Report:
    scripts = (arguments.fetched / SCRIPTS).absolute()
    if not (scripts / "end_to_end_encrypt.py").is_file():
        raise SystemExit(f"{SCRIPTS} is not in {arguments.fetched}: nothing was run")
    python = arguments.python or Path(sys.executable)
    lines, bad = [INTRODUCTION], 0
    for name in arguments.models:
        for board in BOARDS:
            row, right = _row(path_of(name), board, scripts, python)
            print(row, flush=True)
            lines.append(row)
            bad += not right
    return Report("\n".join(lines) + "\n", failed=bool(bad))


def _row(model: Path, board: str, scripts: Path, python: Path) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "out"
        view = generating.analyze(model, Options(board=board, encrypt_weights=True, verify=False))
        generating.generate(view, folder)
        info = folder / "network_c_info.json"
        image = next(folder.glob("*.raw"))
        before = image.read_bytes()
        stand_in, keys, tries = _encrypted_at_last(info, image, scripts, python, Path(temporary))
        found = _judged(folder, info, before, stand_in)
        after = image.read_bytes()
        kept = image.with_suffix(".unencrypted").read_bytes() == before
        start, size, offset = found["start"], found["size"], found["offset"]
        expected = before[:offset] + _complement(before[offset : offset + size]) + before[offset + size :]
        leaks = sum(_holds(path, keys) for path in sorted(folder.rglob("*")) if path.is_file())
    right = found["same"] and kept and after == expected and not leaks and stand_in.keys == _words(keys)
    cells = [
        model.name, board, f"{len(before):,}", f"{start:#010x}, {size:,}", len(stand_in.chunks),
        f"{found['deciphered']:,}", _yes(found["same"]), _yes(kept and after == expected), leaks, tries,
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |", bool(right)


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO"


def _encrypted_at_last(
    info: Path, image: Path, scripts: Path, python: Path, work: Path
) -> tuple[StandIn, tuple[int, int], int]:
    """The script has two threads and no lock: it may leave before the last chunk, or wait for one too many."""
    for folder, tool in TOOLS.items():
        (work / "plugins" / folder).mkdir(parents=True)
        (work / "plugins" / folder / tool).touch(mode=0o755)
    before, said = image.read_bytes(), ""
    for tries in range(1, TRIES + 1):
        stand_in, keys, said = _encrypted(info, image, scripts, python, work)
        if not said and len(image.read_bytes()) == len(before):
            return stand_in, keys, tries
        image.write_bytes(before)
    raise SystemExit(f"the script failed {TRIES} times: {said[-600:] or 'an image of another size'}")


def _encrypted(
    info: Path, image: Path, scripts: Path, python: Path, work: Path
) -> tuple[StandIn, tuple[int, int], str]:
    keys = secrets.randbits(64), secrets.randbits(64)
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    stand_in = StandIn(ours)
    threading.Thread(target=stand_in.serve, daemon=True).start()
    words = [info, image, "--cubeide", work, "--skip_debug", "--postprocess", "-p", os.ttyname(theirs)]
    given = ["-k", *(f"{key:#018x}" for key in keys)]
    done = subprocess.run(
        [str(python), str(scripts / "end_to_end_encrypt.py"), *map(str, words), *given],
        cwd=work, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    (scripts / "encryption.log").unlink(missing_ok=True)  # the script keeps its keys there
    os.close(theirs)
    return stand_in, keys, (done.stderr or f"exit code {done.returncode}") if done.returncode else ""


def _judged(folder: Path, info: Path, image: bytes, stand_in: StandIn) -> dict[str, Any]:
    """What the script sent against what the registers say."""
    start = stand_in.chunks[0][0]
    sent = b"".join(data for _, data in stand_in.chunks)
    in_row = all(
        address == start + 4096 * k and address % 8 == 0 for k, (address, _) in enumerate(stand_in.chunks)
    )
    pool = next(p for p in json.loads(info.read_text())["memory_pools"] if "encryption" in p["attributes"])
    base, read = int(pool["address"]), np.zeros(len(sent), np.bool_)
    apart = True
    for engine in _engines(folder):
        low, high = engine.span()
        if engine.ciphers:
            apart &= start <= low and high <= start + len(sent) and not engine.to_memory
            read |= touched(engine, start, start + len(sent))
        else:
            apart &= high <= start or low >= start + len(sent)
    gaps = np.flatnonzero(~read)
    longest = max(map(len, np.split(gaps, np.flatnonzero(np.diff(gaps) > 1) + 1))) if gaps.size else 0
    offset = start - base
    same = in_row and apart and longest < ALIGNED and image[offset : offset + len(sent)] == sent
    return {"start": start, "size": len(sent), "offset": offset, "deciphered": int(read.sum()), "same": bool(same)}


def _engines(folder: Path) -> Iterator[StrengConfig]:
    for blob in read_network(folder).blobs.values():
        for epoch in decode_epochs(instructions.decode(blob.blob.program)):
            yield from (unit for unit in epoch.units.values() if isinstance(unit, StrengConfig))


def _words(keys: tuple[int, int]) -> list[int]:
    """As they go over the line: the low half first."""
    high, low = keys
    return [half >> shift & 0xFFFF_FFFF for half in (low, high) for shift in (0, 32)]


def _holds(path: Path, keys: tuple[int, int]) -> bool:
    data = path.read_bytes()
    text = data.lower()
    return any(
        key.to_bytes(8, order) in data or f"{key:x}".encode() in text or str(key).encode() in text
        for key in keys
        for order in ("little", "big")
    )
