"""`atonc reloc` and `atonc generate -r`: what the user sees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.delivery.reloc.pools import pool_table, pool_uses
from atonc.delivery.trials.relocating import runtime_of
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError
from atonc.machine.emu.network import read_contents
from tests.board.programs import needs_compiler
from tests.emit.generated import DIGITS
from tests.errors_said import unwrapped
from tests.reloc import images
from tests.reloc.images import FLASH, INSIDE, pool_file

pytestmark = needs_compiler


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    seen = capsys.readouterr()
    return code, seen.out, unwrapped(seen.err)


def test_reloc_and_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.txt"
    words = ("--split", "--gen-c-file", "-n", "door", "--runtime", "1.1.1", "--log", log)
    code, out, _ = run(capsys, "reloc", images.folder(), "-o", tmp_path / "build", *words)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("XIP size      = ") and lines[0].endswith(" data+got+bss sections")
    assert lines[1].startswith("COPY size     = ") and lines[2] == "PARAMS offset = 0         (0x0)"
    assert "│ flags                          │ foff │ dst      │ size │" in out
    assert "01010500 RELOC.PARAM.0.RCACHED │ 0    │ 00000000 │ 7377" in out
    assert log.read_text() == out
    assert "\nchecks     " in out and f"next       atonc load-and-run {tmp_path / 'build' / 'door_rel.bin'}" in out
    names = sorted(path.name for path in (tmp_path / "build").iterdir())
    assert names == ["door_rel.bin", "door_rel.c", "door_rel.h", "door_rel_manifest.json", "door_rel_params.bin"]
    code, out, _ = run(capsys, "reloc", "--inspect", tmp_path / "build" / "door_rel.bin")
    assert code == 0 and 'c_name="door"' in out and "rt_version=1.1.1-14" in out and "WRONG" not in out
    code, out, _ = run(capsys, "reloc", "--inspect", tmp_path / "build" / "door_rel.bin", "--json")
    found = json.loads(out)
    assert found["split"] and found["pools"][0]["label"] == "RELOC.PARAM.0.RCACHED" and not found["params_offset"]
    assert all(check["good"] for check in found["checks"])


def test_inspection_of_a_damaged_image_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(images.image(images.folder()).image.data)
    data[-3] ^= 1
    path = tmp_path / "broken.bin"
    path.write_bytes(data)
    code, out, _ = run(capsys, "reloc", "--inspect", path)
    assert code == 1 and "WRONG     checksum of the parameters" in out
    assert "checks     WRONG: checksum of the parameters" in out.splitlines()[-2]


def test_generate_makes_the_image_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "generate", DIGITS, "-o", tmp_path, "-r", "split,no-secure", "--no-verify", "--json")
    assert code == 0
    written = [Path(name).name for name in json.loads(out)["files"]]
    assert written[-3:] == ["network_rel.bin", "network_rel_params.bin", "network_manifest.json"]
    code, out, _ = run(capsys, "reloc", "--inspect", tmp_path / "network_rel.bin")
    assert code == 0 and "F.sec=False" in out and "24200000" in out and "34200000" not in out


def test_parse_only(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "reloc", "-i", images.folder("ram"), "--parse-only")
    assert code == 0 and "LL_ATON 1.1.3-262 (Core 4.0)" in out
    assert "xSPI1            RELOC.MIXED.1.WCACHED      size=7,377 found at run time" in out
    assert out.splitlines()[-1].startswith("next       atonc reloc ")


def test_bare_verbosity(capsys: pytest.CaptureFixture[str]) -> None:
    """As scripts for npu_driver.py write it: the usual level, wherever it stands."""
    for words in (("--verbosity", "--parse-only"), ("--parse-only", "--verbosity")):
        code, out, _ = run(capsys, "reloc", "-i", images.folder("ram"), *words)
        assert code == 0 and "LL_ATON" in out
    code, out, _ = run(capsys, "reloc", "-i", images.folder("ram"), "--parse-only", "--verbosity", "0")
    assert code == 0 and not out


@pytest.mark.parametrize(("level", "shown"), [("1", False), ("2", True)])
def test_the_highest_verbosity_shows_the_header(
    level: str, shown: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "reloc", images.folder(), "-o", tmp_path, "--verbosity", level)
    assert code == 0 and ("header of " in out) == shown


def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, *pools: dict[str, object], more: str = "") -> str:
    mpool = pool_file(list(pools), "wrong")
    words = ("generate", DIGITS, "-o", tmp_path, "--mpool", mpool, "-r", *([more] if more else []), "--no-verify")
    code, _, error = run(capsys, *words)
    assert code == 2 and len(error.strip().splitlines()) == 1
    assert not any(tmp_path.iterdir()), "nothing is written"
    return error


def test_pools_that_do_not_fit_an_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absolute = {key: value for key, value in FLASH.items() if key != "mode"}
    error = refused(capsys, tmp_path, INSIDE, absolute)
    assert "xSPI2 (outside the chip) is absolute" in error
    assert 'in the .mpool file: give xSPI2 "mode": "USEMODE_RELATIVE"; then generate' in error
    error = refused(capsys, tmp_path, INSIDE | {"mode": "USEMODE_RELATIVE"}, FLASH)
    assert "AXISRAM3 (inside the chip) is relative" in error and "take" in error
    error = refused(capsys, tmp_path, INSIDE, FLASH, more="no-secure")
    assert "AXISRAM3 has the secure address 0x34200000" in error and '"offset" 0x24200000' in error


def test_the_folder_of_a_plain_generate_names_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "generate", DIGITS, "-o", tmp_path, "--no-verify")[0] == 0
    for words, option in ((), "-r"), (("--no-secure",), "-r no-secure"):
        code, _, error = run(capsys, "reloc", tmp_path, "--parse-only", *words)
        assert code == 2 and f"atonc generate MODEL {option} writes a folder for images" in error


def test_two_pools_of_a_kind() -> None:
    """An image has room for one external RAM."""
    uses = pool_uses(*read_contents(images.folder("ram"), None, None))
    external = next(use for use in uses if use.mode.external)
    twin = replace(external, pool=replace(external.pool, postfix="xSPI3", base=0x8000_0000))
    with pytest.raises(InputError, match="xSPI1 and xSPI3 are both writable pools outside the chip"):
        pool_table([*uses, twin], "here")


@pytest.mark.parametrize(
    "words, said",
    [
        (("--llvm",), "GCC only"),
        (("--runtime", "7"), "no runtime '7' is known"),
        (("--cross-compile", "no-such-"), "no no-such-gcc"),
        (("-n", "a b"), "cannot be a name"),
        (("--pack-dir", "/nowhere"), "ll_aton_version.h"),
    ],
)
def test_wrong_options(words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "reloc", images.folder(), "-o", tmp_path / "out", *words)
    assert code == 2 and said in error and not (tmp_path / "out").exists()


def test_the_release_of_an_installation(tmp_path: Path) -> None:
    folder = tmp_path / "Middlewares/ST/AI/Npu/ll_aton"
    folder.mkdir(parents=True)
    names = (("MAJOR", 1), ("MINOR", 1), ("MICRO", 1), ("DEV", 14))
    (folder / "ll_aton_version.h").write_text("".join(f"#define LL_ATON_VERSION_{n} ({v})\n" for n, v in names))
    assert runtime_of(tmp_path) == "1.1.1-14"
