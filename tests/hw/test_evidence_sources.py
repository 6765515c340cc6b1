"""Files that people edited never become evidence, although they carry the header of ST's compiler."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.safety import SafetyContext
from tests.hw import safety_epochs as legal
from tests.hw.safety_parts import NPU_RAM3, change, writer
from tests.hw.safety_plants import swap

ROOT = Path(__file__).parents[2]
UNROUNDED = {"rounded": 0, "saturated": 0, "round_mode": 0}


@pytest.fixture(name="generator")
def _generator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return importlib.import_module("gen_evidence")


def program(generator: ModuleType, epoch: Epoch, name: str = "Someone+project/network.c"):
    return generator.Program(name, "CPU", "atonn-v1.1.1", (epoch,), SafetyContext())


EDITED = {
    "sums without rounding and saturation": lambda: change(legal.convolution(), "CONVACC0", **UNROUNDED),
    "a limit below the last byte": lambda: change(legal.convolution(), "STRENG6", address_limit=NPU_RAM3 + 100),
    "frames = 0": lambda: change(legal.convolution(), "STRENG0", frames=0),
    "a writer of another size": lambda: swap(legal.convolution(), STRENG6=writer(NPU_RAM3, 1024, 2)),
}


@pytest.mark.parametrize("what", EDITED)
def test_what_breaks_a_rule_is_kept_out(generator: ModuleType, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    good, edited = program(generator, legal.convolution()), program(generator, EDITED[what]())
    assert generator.why_not(good) == "" and generator.why_not(edited).startswith("epoch 7")
    assert generator.gather([good, edited]) == generator.gather([good])
    assert f"kept out: {edited.name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path",
    [
        "Projectwork2_Code/Networks_c/network_64.c",
        "Projectwork2_Code@082d43e2/a/b/ATON_MatMul/source/networkDummy_int8.c",
    ],
)
def test_what_is_named_is_kept_out(generator: ModuleType, path: str) -> None:
    """Two of the edited files break no rule."""
    planted = program(generator, legal.convolution(), f"xXAlgoorXx+{path}")
    assert "hand" in generator.why_not(planted) and generator.gather([planted])["programs"] == []
    beside = replace(planted, name="xXAlgoorXx+Projectwork2_Code/Model/network.c")
    assert generator.why_not(beside) == ""


def test_every_pattern_says_why(generator: ModuleType) -> None:
    assert generator.excluded() and all(len(reason) > 40 for _, reason in generator.excluded())


def test_none_of_them_is_in_the_data(generator: ModuleType) -> None:
    from atonc.machine.hw.safety.evidence.table import programs

    for known in programs():
        assert generator.why_not(program(generator, legal.convolution(), known.name)) == ""


def test_owners_and_shipped_programs_are_counted(generator: ModuleType) -> None:
    names = ("STMicroelectronics+a/n.c", "STMicroelectronics+b/n.c", "Someone+c/n.c")
    data = generator.gather([program(generator, legal.convolution(), name) for name in names])
    assert data["features"]["chain"][""]["[f=IN k=IN]>CONVACC>ARITH>ARITH>OUT"] == (3, 3, 2, 2)
    assert data["features"]["chains in an epoch"][""] == [3, 3, 2, 2, [1]]


class TestAdding:
    """Programs counted on top of what a file has: for who does not have all of them."""

    NAMES = ("STMicroelectronics+a/n.c", "Someone+c/n.c", "Someone+c@1234abcd/n.c", "Other+d/n.c")

    def programs(self, generator: ModuleType) -> list:
        """Four compilations, two of them with a form of their own."""
        forms = (legal.convolution(), legal.addition(), legal.convolution(), legal.copy())
        planted = zip(forms, self.NAMES, strict=True)
        return [
            replace(program(generator, epoch, name), compiler=f"atonn-v1.1.{number}", digest=f"{number:016x}")
            for number, (epoch, name) in enumerate(planted)
        ]

    @staticmethod
    def known(generator: ModuleType, tmp_path: Path, data: dict, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(generator, "OUT", tmp_path / "evidence.json")
        generator.write(data)
        return generator.written()

    def test_gives_the_bytes_of_counting_all_at_once(
        self, generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Owners as well, where nobody published in both parts."""
        first, second, third, fourth = self.programs(generator)
        known = self.known(generator, tmp_path, generator.gather([first]), monkeypatch)
        generator.write(generator.gather([second, third, fourth], known))
        added = generator.OUT.read_bytes()
        generator.write(generator.gather([first, second, third, fourth]))
        assert added == generator.OUT.read_bytes()

    def test_an_owner_is_not_counted_twice(
        self, generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second, third, _ = self.programs(generator)
        known = self.known(generator, tmp_path, generator.gather([first, second]), monkeypatch)
        data = generator.gather([third], known)
        assert data["features"]["chain"][""]["[f=IN k=IN]>CONVACC>ARITH>ARITH>OUT"] == (2, 2, 1, 1)

    @pytest.mark.parametrize(
        "again",
        [
            pytest.param({}, id="the same"),
            pytest.param({"digest": "f" * 16}, id="other content, same name"),
            pytest.param({"name": "Fork+c/n.c"}, id="same content elsewhere"),
            pytest.param({"name": "Fork+c/n.c", "digest": "f" * 16}, id="a copy that adds nothing"),
        ],
    )
    def test_nothing_is_counted_twice(
        self, generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: dict
    ) -> None:
        first, *_ = self.programs(generator)
        known = self.known(generator, tmp_path, generator.gather([first]), monkeypatch)
        before = generator.OUT.read_bytes()
        generator.write(generator.gather([replace(first, **again)], known))
        assert generator.OUT.read_bytes() == before

    def test_another_compilation_counts(
        self, generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, *_ = self.programs(generator)
        known = self.known(generator, tmp_path, generator.gather([first]), monkeypatch)
        newer = replace(first, name="Someone+c/n.c", compiler="atonn-v1.1.3", digest="f" * 16)
        assert len(generator.gather([newer], known)["programs"]) == 2
