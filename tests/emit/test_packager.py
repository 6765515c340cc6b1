"""What ST's packager (N6_reloc) reads in our files, by the rules that its public release 1.3 has: lines and words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from atonc.compiler.emit.c.network import NEWEST_RUNTIME
from atonc.delivery.generate import generating
from atonc.delivery.reloc.format import DEFAULT, release_named
from atonc.doors.cli.cli import main
from tests.emit.generated import DIGITS, digits
from tests.reloc.images import view

LABEL = re.compile(r"extern unsigned char (.*?)\[\];\s+/\*\s+\[(.*?)\]")


def files(runtime: str = "", **options: object) -> dict[str, str]:
    made = generating.files_of(view(**options), runtime=runtime)  # type: ignore[arg-type]
    return {name: data.decode() for name, data in made.items() if name.endswith((".c", ".json"))}


def before_pools(text: str) -> list[str]:
    return text.partition("/* global pool ")[0].splitlines()


@pytest.mark.parametrize(("asked", "release"), [("", NEWEST_RUNTIME), ("2.2", "1.1.1-14"), ("1.1.3-8", "1.1.3-8")])
def test_one_line_before_the_pools_has_the_release(asked: str, release: str) -> None:
    """It takes every second word of any line with the first number's name."""
    text = files(release_named(asked) if asked else "")["network.c"]
    (line,) = [line for line in before_pools(text) if "LL_ATON_VERSION_MAJOR" in line]
    assert ".".join(line.split()[1::2]) == release.replace("-", ".")
    assert DEFAULT.evidence == NEWEST_RUNTIME


@pytest.mark.parametrize("controller", (True, False))
def test_it_knows_whether_there_are_programs(controller: bool) -> None:
    text = files(epoch_controller=controller)["network.c"]
    (line,) = [line for line in before_pools(text) if "enable-epoch-controller" in line]
    assert line.split()[-1] == str(controller).lower()


@pytest.mark.parametrize("memories", ("flash", "ram", "inside"))
def test_every_relative_pool_has_a_label_with_its_size(memories: str) -> None:
    text = files(memories=memories)["network.c"]
    pools = re.findall(r"postfix=(\S+) name=\S+ offset=\S+\s+relative_mode", text)
    labels = LABEL.findall(text)
    assert [label for label, _ in labels] == [f"_mem_pool_{pool}_Default" for pool in pools]
    assert all(int(size) > 0 for _, size in labels), "each is used here"


def test_tables_have_the_form_that_it_reads() -> None:
    text = files()["network.c"]
    tables = re.findall(r"static const LL_Buffer_InfoTypeDef buff_info\[\] = \{\n(.*?)\n  \};\n", text, re.DOTALL)
    assert len(tables) == 3
    rows = re.findall(r"\{ (.*?) \},", " ".join(tables[0].split()))
    assert rows and not any("NULL" in row for row in rows), "the end of a table is no buffer"
    assert all(re.search(r"\.addr_base = \{\(unsigned char \*\)\((0x|\(uintptr_t\))", row) for row in rows)
    scales = re.findall(r"static const float \w+_scale\[\] = \{(.*?)\}", text)
    assert scales and all(float(word) > 0 for part in scales for word in part.split(","))


@pytest.mark.parametrize(("release", "nested"), [("2.1", False), ("2.2", False), ("3.0", True), ("4.0", True)])
def test_epochs_stand_where_its_release_looks_for_them(release: str, nested: bool) -> None:
    """Up to 2.2 side by side, each of the controller; later inside nodes of programs."""
    data = json.loads(files(release_named(release))["network_c_info.json"])
    rows = {row["id"]: row for row in data["graphs"][0]["nodes"]}
    assert ({power["node_id"] for power in data["power_estimates"]} <= rows.keys()) == (not nested)
    mappings = {row["mapping"] for row in rows.values() if row["name"].startswith("epoch_")}
    assert ("NODE_EC" in mappings) == (not nested)
    ends = {edge[side]["node_id"] for edge in data["graphs"][0]["edges"] for side in ("start", "end")}
    known, left = set(), list(rows.values())
    while left:
        row = left.pop()
        known.add(row["id"])
        left += row["subgraph_nodes"]
    assert ends <= known


def test_the_option_says_the_release(tmp_path: Path) -> None:
    command = ["generate", str(DIGITS), "-o", str(tmp_path), "-q", "--no-verify", "--runtime"]
    assert main([*command, "2.2"]) == 0
    assert "LL_ATON_VERSION_MICRO 1 LL_ATON_VERSION_DEV 14" in (tmp_path / "network.c").read_text()
    assert main([*command, "9.9"]) != 0


def test_other_networks_declare_no_label() -> None:
    assert not LABEL.findall(generating.files_of(digits())["network.c"].decode())
