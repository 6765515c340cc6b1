"""`generate --selftest`: what it writes for networks of several kinds."""

from __future__ import annotations

import re
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest

from atonc import compile
from atonc.delivery.generate import selftest
from atonc.doors.cli import cli
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.emu.files.network_c import find_networks
from tests.errors_said import unwrapped
from tests.selftest.bench import MODEL, SELFTEST

PAGES = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    made = selftest.selftest_files(compile(MODEL, name="digits", verify=False).view)
    return {name: data.decode() for name, data in made.items()}


def test_four_files(files: dict[str, str]) -> None:
    assert sorted(files) == ["atonc_selftest.c", "atonc_selftest.h", "digits_selftest.c", "digits_selftest.h"]
    for name in ("atonc_selftest.c", "atonc_selftest.h"):
        assert files[name] == (SELFTEST / name).read_text()


def test_the_command_writes_them_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", str(MODEL), "-n", "digits", "--no-verify", "-o"]
    assert cli.main([*arguments, str(tmp_path / "with"), "--selftest"]) == 0
    assert cli.main([*arguments, str(tmp_path / "without")]) == 0
    names = [{path.name for path in (tmp_path / folder).iterdir()} for folder in ("with", "without")]
    assert names[0] - names[1] == {"atonc_selftest.c", "atonc_selftest.h", "digits_selftest.c", "digits_selftest.h"}


@pytest.mark.parametrize("api", [(), ("--c-api", "st-ai")])
@pytest.mark.parametrize("name", ["digits", "digits_selftest"])
def test_other_commands_read_such_a_folder(name: str, api: tuple[str, ...], tmp_path: Path) -> None:
    """Files about the network are told from networks by what they define, not by their names."""
    folder = str(tmp_path / "with")
    arguments = ["generate", str(MODEL), "-n", name, "--no-verify", "-o", folder, "--selftest", *api]
    assert cli.main(arguments) == 0
    assert [path.name for path in find_networks(Path(folder))] == [f"{name}.c"]
    for command in (["explain", folder], ["run", folder], ["compare", folder, folder]):
        assert cli.main(command) == 0, command
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed: the firmware is not built")
    assert cli.main(["board", "build", folder, "-o", str(tmp_path / "firmware")]) == 0


def test_checksums_are_those_of_the_image(files: dict[str, str], tmp_path: Path) -> None:
    compile(MODEL, name="digits", verify=False).save(tmp_path)
    image = (tmp_path / "digits_atonbuf.xSPI2.raw").read_bytes()
    text = files["digits_selftest.c"]
    crcs = re.search(r"crcs_0\[\d+\] = \{(.*?)\}", text, re.DOTALL)
    row = re.search(r"\{0x70380000UL, (\d+)U, (\d+)U, crcs_0, \{(.*?)\}", text)
    assert crcs is not None and row is not None
    size, piece = int(row[1]), int(row[2])
    assert size == len(image)
    wanted = [zlib.crc32(image[at : at + piece]) for at in range(0, size, piece)]
    assert [int(one, 16) for one in re.findall(r"0x\w{8}", crcs[1])] == wanted
    assert [int(one, 16) for one in re.findall(r"0x\w{8}", row[3])] == np.frombuffer(image[:16], "<u4").tolist()


def test_known_output_is_that_of_a_run_on_the_known_input(files: dict[str, str]) -> None:
    """The memory of the output, which other bytes of the input change."""
    made = compile(MODEL, name="digits", verify=False)
    network = selftest.c_network(made.view)
    given = selftest.known_bytes(0, 64).view(np.int8).reshape(1, 8, 8, 1)
    wanted = next(iter(made.run(given).values())) if isinstance(made.run(given), dict) else made.run(given)
    (found,) = selftest.known_outputs(made.view, network)
    assert np.frombuffer(found, np.int8).tolist() == np.asarray(wanted).reshape(-1).tolist()
    assert f"{{0x{zlib.crc32(found):08x}U}}" in files["digits_selftest.c"]


def test_a_network_with_states_begins_and_ends_with_first_ones() -> None:
    made = compile(MODEL.parents[1] / "streaming" / "stream.tflite", name="stream", verify=False)
    text = selftest.selftest_files(made.view)["stream_selftest.c"].decode()
    run = text[text.index("known_run(atonc_finding_t") :]
    places = [found.start() for found in re.finditer(r"stream_reset\(\);", run)]
    assert len(places) == 2 and places[0] < run.index("LL_ATON_RT_RunEpochBlock") < places[1]


def test_networks_without_fixed_addresses_are_refused() -> None:
    """The fix and the page say where the tests come from then: they are written for no such network."""
    view = compile(MODEL, name="digits", verify=False, inputs_allocation=False).view
    with pytest.raises(UnsupportedError, match="known at run time only") as refused:
        selftest.selftest_files(view)
    page = (PAGES / "selftest.md").read_text()
    for option in ("-r", "--no-inputs-allocation", "--no-outputs-allocation"):
        assert option in refused.value.remedy and f"`{option}`" in page
    assert "into another folder, take atonc_selftest.c and .h" in refused.value.remedy
    assert "into another folder, with `--selftest`" in page


def test_the_page_names_the_headers_that_the_networks_part_needs(files: dict[str, str]) -> None:
    needed = set(re.findall(r'^#include "(ll_aton\w*\.h)"', files["digits_selftest.c"], re.MULTILINE))
    row = next(
        line for line in (PAGES / "selftest.md").read_text().splitlines() if line.startswith("| `NAME_selftest.c")
    )
    assert needed and needed == set(re.findall(r"`(ll_aton\w*\.h)`", row))


def test_networks_for_the_cpu_alone_are_refused() -> None:
    view = compile(MODEL, name="digits", verify=False, no_npu=True).view
    with pytest.raises(UnsupportedError, match="no layer runs on the NPU"):
        selftest.selftest_files(view)


def test_networks_without_epoch_controller_have_no_programs_to_read() -> None:
    view = compile(MODEL, name="digits", verify=False, epoch_controller=False).view
    text = selftest.selftest_files(view)["digits_selftest.c"].decode()
    assert "LL_ATON_EpochBlockItems" not in text and "known_run" in text


def test_ranges_have_their_uses(files: dict[str, str]) -> None:
    text = files["digits_selftest.c"]
    assert re.search(r"\{0x34200000UL, \d+U, ATONC_SELFTEST_NPU_READS \| ATONC_SELFTEST_NPU_WRITES\}", text)
    assert re.search(r"\{0x70380000UL, \d+U, ATONC_SELFTEST_NPU_READS \| ATONC_SELFTEST_NPU_CACHED\}", text)
    assert f"#define ATONC_SELFTEST_WORK {selftest.WORK_BYTES}u" in files["atonc_selftest.h"]


@pytest.mark.parametrize("name", ["atonc", "atonc_selftest"])
def test_no_file_is_written_over_another(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(MODEL), "-n", name, "--selftest", "--no-verify", "-o", str(tmp_path / "build")]
    assert cli.main(words) != 0
    assert "both have a file atonc_selftest" in unwrapped(capsys.readouterr().err)
    assert not (tmp_path / "build").exists()


def test_the_first_hour_names_findings_that_exist() -> None:
    table = (PAGES / "first_hour.md").read_text().split("## 4. When it stops")[1].split("## ")[0]
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", table))
    known = set(re.findall(r"X\(\d+, (\w+),", (SELFTEST / "atonc_selftest.h").read_text()))
    assert named and named <= known, named - known
