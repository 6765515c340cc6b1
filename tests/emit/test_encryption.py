"""Encrypted weights: the region is what engines stream and nothing else, whoever reads it deciphers, and nobody here
pretends to know the cipher."""

from __future__ import annotations

import dataclasses
import json
import re
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit import check_encryption
from atonc.compiler.emit.encryption import IN_PLAIN, encrypt
from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.place.constants import place_constants
from atonc.compiler.place.lifetimes import lifetimes
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, EpochPlan, Planned
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.deploy import steps
from atonc.delivery.generate.generating import files_of
from atonc.doors.cli.cli import main
from atonc.insight.report import compile_text
from atonc.insight.report.document import lines
from atonc.machine.base.errors import InputError, NotModelledError, UnsupportedError
from atonc.machine.emu.files.initialisers import load_initialisers
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program, instructions
from atonc.machine.hw.fields import changed
from atonc.machine.hw.footprint import touched
from atonc.machine.hw.units.stream_engine import CIPHER, StrengConfig
from tests.emit.generated import DIGITS, default_board, digits
from tests.errors_said import unwrapped

FLASH = 0x7038_0000
CONV_ON_CPU = "CONV_2D_1"


@cache
def view_with(**options: object) -> tuple[CompileView, dict[str, bytes]]:
    view = digits(**options)
    return view, dict(files_of(view))


def encrypted(**options: object) -> CompileView:
    return view_with(encrypt_weights=True, **options)[0]


def plain() -> CompileView:
    return view_with()[0]


def files(view: CompileView) -> dict[str, bytes]:
    """Made once for every view."""
    options = view.options
    asked = {"encrypt_weights": True} if options.encrypt_weights else {}
    asked |= {"on_cpu": options.on_cpu} if options.on_cpu else {}
    asked |= {} if options.epoch_controller else {"epoch_controller": False}
    return view_with(**asked)[1]


def written(view: CompileView, folder: Path) -> Path:
    for name, data in files(view).items():
        (folder / name).write_bytes(data)
    return folder


def engines_in(folder: Path) -> list[StrengConfig]:
    """As the registers of the written programs have them."""
    blobs = read_network(folder).blobs
    epochs = [epoch for blob in blobs.values() for epoch in decode_epochs(instructions.decode(blob.blob.program))]
    return [unit for epoch in epochs for unit in epoch.units.values() if isinstance(unit, StrengConfig)]


def region_of(view: CompileView) -> tuple[int, int, int]:
    """Address, offset and size, as ST's scripts read them off c_info.json."""
    pools = json.loads(files(view)["network_c_info.json"])["memory_pools"]
    found = [pool for pool in pools if "encryption" in pool["attributes"]]
    assert len(found) == 1
    pool, part = found[0], found[0]["attributes"]["encryption"]
    assert pool["used_size_bytes"] == len(files(view)["network_atonbuf.xSPI2.raw"])
    return int(pool["address"]) + part["offset"], part["offset"], part["size"]


# ------------------------------------------------------------------------------------------------------------- regions


@pytest.mark.parametrize("on_cpu", [(), (CONV_ON_CPU,)])
def test_the_region_is_what_engines_stream(on_cpu: tuple[str, ...], tmp_path: Path) -> None:
    """Recomputed from registers and the image, with nothing of the compiler."""
    view = encrypted(on_cpu=on_cpu) if on_cpu else encrypted()
    start, offset, size = region_of(view)
    image = files(view)["network_atonbuf.xSPI2.raw"]
    assert start % 8 == size % 8 == 0 and offset + size <= len(image)
    read = np.zeros(size, np.bool_)
    for engine in engines_in(written(view, tmp_path)):
        low, high = engine.span()
        assert engine.ciphers == (low >= FLASH and not engine.to_memory)
        if engine.ciphers:
            assert start <= low < high <= start + size
            read |= touched(engine, start, start + size)
    gaps = np.flatnonzero(~read)
    longest = max(map(len, np.split(gaps, np.flatnonzero(np.diff(gaps) > 1) + 1))) if gaps.size else 0
    assert read.any() and longest < 16
    assert not any(np.frombuffer(image, np.uint8)[offset : offset + size][gaps])


def test_constants_of_the_processor_are_not_in_the_image() -> None:
    view = encrypted(on_cpu=(CONV_ON_CPU,))
    text = files(view)["network.c"].decode()
    functions = text[text.index("static const int8_t table_") : text.index("LL_ATON_EpochBlockItems_Default(void)\n{")]
    assert "0x7038" not in functions
    said = "\n".join(lines(compile_text.report(view)))
    assert "in plain: 2,368 bytes of weights, of layers on the CPU, in network.c" in said  # 16 3x3x16 kernels, biases
    assert "in plain: 0 bytes" in "\n".join(lines(compile_text.report(encrypted())))


def test_constants_that_the_processor_reads_come_behind_the_region() -> None:
    """No operator has such constants today; placement must not rely on it."""
    view = plain()
    step = next(s for s in view.compiled.program.steps if s.epoch is not None)
    assert isinstance(step.plan, EpochPlan)
    constant = Buffer("a table", 40, BufferKind.CONSTANT, data=bytes(range(40)))
    by_cpu = CpuPlan(("cpu",), "cpu", "cpu", (constant.name,), ("image",))
    buffers = {name: home.buffer for name, home in view.compiled.program.placed.items()} | {constant.name: constant}
    planned = Planned([by_cpu, step.plan], buffers, {}, ("image",), ())
    lives = [life for life in lifetimes(planned) if life.buffer.kind == BufferKind.CONSTANT]
    first = place_constants(lives, default_board()).addresses
    apart = place_constants(lives, default_board(), encrypted=True).addresses
    assert first[constant.name] == min(first.values()) and apart[constant.name] == max(apart.values())
    assert set(first) == set(apart) and len(first) == 2


def test_images_end_with_a_whole_word() -> None:
    program, pools = plain().compiled.program, default_board().pools
    last = max(program.placed.values(), key=lambda home: home.address)
    short = dataclasses.replace(last.buffer, size_bytes=last.size_bytes - 3, data=last.buffer.data[:-3])
    placed = {**program.placed, short.name: dataclasses.replace(last, buffer=short)}
    region = encrypt(dataclasses.replace(program, placed=placed), pools).encrypted
    end = last.end - 3
    assert region is not None and region.end == -(-end // 8) * 8 and end % 8


# --------------------------------------------------------------------------------------------------------- the program


def test_nothing_but_the_cipher_is_different() -> None:
    one, other = plain().compiled, encrypted().compiled
    assert one.program == other.program and other.program.encrypted is None
    for before, after in zip(one.program.epochs, other.written.epochs, strict=True):
        for name, unit in before.units.items():
            assert after.units[name] in (unit, changed(unit, unmodelled=(CIPHER,)))
    given, filled = (files(made)["network_atonbuf.xSPI2.raw"] for made in (plain(), encrypted()))
    assert filled[: len(given)] == given and len(filled) % 8 == 0 and not any(filled[len(given) :])  # whole words


def test_without_the_option_nothing_is_said() -> None:
    made = files(plain())
    text = made["network.c"].decode()
    assert "ATONC_Set_Keys" not in text and ".enable = 1" not in text
    assert "encryption" not in made["network_c_info.json"].decode() and plain().compiled.written.encrypted is None


def test_the_driver_is_told_the_same() -> None:
    text = files(encrypted(epoch_controller=False))["network.c"].decode()
    readers = sum(unit.ciphers for e in encrypted().compiled.written.epochs for unit in e.readers().values())
    assert text.count(".cipher_en = 1,") == readers == 4 and "ATONC_Set_Keys_Default();" in text


def test_hooks_of_the_runtime() -> None:
    made = files(encrypted())
    text = made["network.c"].decode()
    weights = text.split("LL_ATON_WeightEncryption_Info_Default(void)\n{")[1].split("}")[0]
    assert [".enable = 1" in weights, ".rounds = 0" in weights, ".key_sel = 0" in weights] == [True] * 3
    assert ".enable = 0" in text.split("LL_ATON_BlobEncryption_Info_Default(void)\n{")[1].split("}")[0]
    assert "__attribute__((weak)) void ATONC_Set_Keys_Default(void)" in text
    assert "  ATONC_Set_Keys_Default();\n" in made["network_ecblobs.h"].decode()
    rows = [line for line in text.splitlines() if ".base = 0x70380000UL" in line]
    assert rows and all("0x00000000U : 0U" in row for row in rows)  # no checksum of bytes that are not known yet
    blobs = json.loads(made["network_c_info.json"])["ec_blobs_info"]
    assert blobs and not any(blob["encrypted"] for blob in blobs)


# ------------------------------------------------------------------------------------------------------ planted faults


def _with_units(program: Program, change: Callable[[StrengConfig], StrengConfig]) -> Program:
    """The same with one engine changed: the first that the change does something to."""
    steps: list[ProgramStep] = []
    done = False
    for step in program.steps:
        if step.epoch is not None and not done:
            units = dict(step.epoch.units)
            for name, unit in units.items():
                if isinstance(unit, StrengConfig) and not done and change(unit) != unit:
                    units[name], done = change(unit), True
            step = dataclasses.replace(step, epoch=dataclasses.replace(step.epoch, units=units))
        steps.append(step)
    assert done
    return dataclasses.replace(program, steps=tuple(steps))


def _region(program: Program, **values: int) -> Program:
    assert program.encrypted is not None
    return dataclasses.replace(program, encrypted=dataclasses.replace(program.encrypted, **values))


def _read_by_the_processor(program: Program) -> Program:
    name = next(name for name, home in program.placed.items() if home.kind == BufferKind.CONSTANT)
    last = program.steps[-1]
    assert isinstance(last.plan, CpuPlan)
    plan = dataclasses.replace(last.plan, inputs=(*last.plan.inputs, name))
    return dataclasses.replace(program, steps=(*program.steps[:-1], dataclasses.replace(last, plan=plan)))


def _copied_by_the_processor(program: Program) -> Program:
    name, home = next(item for item in program.placed.items() if item[1].kind == BufferKind.CONSTANT)
    copy = dataclasses.replace(home, address=0x3430_0000, copy_of=name)
    return dataclasses.replace(program, placed={**program.placed, "copy": copy})


def _unread(program: Program) -> Program:
    assert program.encrypted is not None
    nobody = Buffer("nobody's", 8, BufferKind.CONSTANT, data=bytes(8))
    some = next(home for home in program.placed.values() if home.kind == BufferKind.CONSTANT)
    home = dataclasses.replace(some, buffer=nobody, address=program.encrypted.end)
    return _region(dataclasses.replace(program, placed={**program.placed, nobody.name: home}), end=home.end)


def _off(unit: StrengConfig) -> StrengConfig:
    return changed(unit, unmodelled=())


def _on(unit: StrengConfig) -> StrengConfig:
    return unit if unit.to_memory else changed(unit, unmodelled=(CIPHER,))


def _on_writer(unit: StrengConfig) -> StrengConfig:
    return changed(unit, unmodelled=(CIPHER,)) if unit.to_memory else unit


PLANTED: dict[str, tuple[Callable[[Program], Program], str]] = {
    "without the bit": (lambda p: _with_units(p, _off), "reads encrypted bytes without deciphering"),
    "activations deciphered": (lambda p: _with_units(p, _on), "deciphers bytes outside the region"),
    "a writer": (lambda p: _with_units(p, _on_writer), "enciphers what it writes"),
    "a writer in the region": (
        lambda p: _with_units(p, lambda u: changed(u, address=FLASH) if u.to_memory else u),
        "writes encrypted bytes",
    ),
    "a constant of the processor": (_read_by_the_processor, "the CPU uses"),
    "a copy by the processor": (_copied_by_the_processor, "the CPU copies"),
    "region too short": (lambda p: _region(p, end=FLASH + 64), "deciphers bytes outside the region"),
    "region without its last word": (lambda p: _region(p, end=FLASH + 7368), "deciphers bytes outside the region"),
    "region not aligned": (lambda p: _region(p, end=FLASH + 7373), "not one of whole words"),
    "region before its pool": (lambda p: _region(p, base=FLASH + 8), "not one of whole words"),
    "region with more": (_unread, "no engine deciphers it"),
    "no region": (lambda p: dataclasses.replace(p, encrypted=None), "nothing is encrypted"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_found(name: str) -> None:
    plant, sentence = PLANTED[name]
    program = encrypted().compiled.written
    assert check_encryption.check(program) == []
    assert any(sentence in found for found in check_encryption.check(plant(program)))


# ----------------------------------------------------------------------------------------------------------- refusals


def test_nobody_emulates_ciphertext(tmp_path: Path) -> None:
    compiled = encrypted().compiled
    inputs = make_inputs(compiled.graph, 0)
    Emulation(compiled.program, compiled.graph).run(inputs)
    with pytest.raises(NotModelledError, match="the cipher is not public"):
        Emulation(compiled.written, compiled.graph).run(inputs)
    network = read_network(written(encrypted(), tmp_path))
    with pytest.raises(UnsupportedError, match=r"the cipher is not public(?s:.*)without --encrypt-weights"):
        load_initialisers(network)


def test_what_needs_no_weights_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Times and programs of an encrypted folder are read off its registers; a firmware of it is refused."""
    folder = str(written(encrypted(), tmp_path))
    assert main(["explain", folder, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("weights are encrypted" in one for one in told["notes"]) and told["latency_ms"] > 0
    assert main(["board", "build", folder, "-o", str(tmp_path / "firmware")]) == 2
    assert "compile without --encrypt-weights" in unwrapped(capsys.readouterr().err)


def test_an_evaluation_says_that_it_is_of_plain_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(DIGITS.parent / "test.npz")
    words = ["evaluate", str(DIGITS), "--data", data, "--limit", "2", "-o", str(tmp_path / "out"), "--processes", "1"]
    for more, said in ((["--encrypt-weights"], True), ([], False)):
        assert main([*words, *more, "--json"]) == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert any("on plain weights" in one for one in notes) == said


@pytest.mark.parametrize("other", [{"resident": "all"}, {"relocatable": True}, {"no_npu": True}])
def test_options_that_do_not_go_with_it(other: dict[str, object]) -> None:
    with pytest.raises(InputError, match="--encrypt-weights does not go with"):
        Options(encrypt_weights=True, **other)  # type: ignore[arg-type]


def test_images_with_plain_weights_are_not_written() -> None:
    with pytest.raises(InputError, match=r"Intel HEX(?s:.*)from the encrypted image"):
        files_of(encrypted(), with_hex=True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda pool: dataclasses.replace(pool, absolute=False), "depends on its address"),
        (lambda pool: dataclasses.replace(pool, name="other"), "one part of one memory image"),
    ],
)
def test_where_weights_may_lie(change: Callable[..., object], sentence: str) -> None:
    pools = [change(pool) if pool.base == FLASH else pool for pool in default_board().pools]
    with pytest.raises(InputError, match=sentence):
        encrypt(plain().compiled.program, pools)  # type: ignore[arg-type]


def test_only_where_scripts_can_encrypt() -> None:
    program = plain().compiled.program
    moved = {
        name: dataclasses.replace(home, address=home.address + 0x2000_0000) if home.address >= FLASH else home
        for name, home in program.placed.items()
    }
    with pytest.raises(InputError, match=r"between 0x70000000 and 0x78000000"):
        encrypt(dataclasses.replace(program, placed=moved), default_board().pools)
    nothing = {name: home for name, home in program.placed.items() if home.kind != BufferKind.CONSTANT}
    with pytest.raises(InputError, match="no constant that only engines read"):
        encrypt(dataclasses.replace(program, placed=nothing), default_board().pools)
    with pytest.raises(InputError, match="would copy ciphertext"):
        encrypt(_copied_by_the_processor(program), default_board().pools)


def test_deploy_says_why_not(tmp_path: Path) -> None:
    profile = tmp_path / "neural_art.json"
    profile.write_text('{"Profiles": {"default": {"options": "--enable-epoch-controller --encrypt-weights"}}}')
    deployment = types.SimpleNamespace(layout=types.SimpleNamespace(profile=str(profile)))
    with pytest.raises(InputError, match="deploy flashes what it makes"):
        steps._options(deployment)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------- what is told


def test_a_profile_of_st_asks_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--enable-epoch-controller --encrypt-weights --no-encrypt-acc-confs"
    (tmp_path / "neural_art.json").write_text(f'{{"Profiles": {{"safe": {{"options": "{words}"}}}}}}')
    arguments = ["generate", str(DIGITS), "-o", str(tmp_path / "out"), "--st-neural-art"]
    assert main([*arguments, f"safe@{tmp_path / 'neural_art.json'}", "--json", "--no-verify"]) == 0
    document = json.loads(capsys.readouterr().out)
    told = document["encryption"]
    assert told["evidence"] == IN_PLAIN == "emulated in plain; ciphertext not yet run on a board"
    assert (told["address"], told["offset"], told["size_bytes"]) == region_of(encrypted())
    assert told["encrypted_bytes"] == 7377 and told["plain_bytes"] == 0 and told["engines"] == 4
    notes = "\n".join(document["notes"])
    assert IN_PLAIN in notes and "constants of units" not in notes
    assert any("constants of units" in note for note in compile_text.memory_notes(encrypted()))
    assert main(["run", str(tmp_path / "out")]) != 0
    assert "the cipher is not public" in unwrapped(capsys.readouterr().err)


def test_no_key_is_in_any_file() -> None:
    for name, data in files(encrypted()).items():
        text = data.decode("latin-1")
        assert not re.search(r"SetKeys\s*\(\s*\d|KEY[01]?_(LSB|MSB|31)|AABBCCDD", text, re.IGNORECASE), name
    bus_interfaces = {2, 3}
    program = ec_program.program(encrypted().compiled.written.epochs)
    assert not any(getattr(one, "unit", None) in bus_interfaces for one in program)
