"""The UART log is hostile input: noise is passed over, damage is counted, contradictions are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.delivery.probes.log import MAX_BYTES, checksum, parse_log, read_log, signed
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError
from tests.errors_said import unwrapped
from tests.probes.board_logs import ASKED, begin, line, log_lines, log_text

NAME = "conv-3x3-pad-2"


def test_the_checksum_is_the_known_one() -> None:
    assert checksum("123456789") == "29B1"  # the check value of CRC-16/CCITT-FALSE


def test_every_key_is_read() -> None:
    said = line(NAME, "wrong cycles=12 runs=3 first=0 got=0A want=ff why=two words")
    log = parse_log("\n".join([begin(2), said, line("end answered=1")]))
    reply = log.replies[NAME]
    words = {"verdict": "wrong", "got": "0A", "want": "ff", "why": "two words"}
    assert reply.as_dict() == {"probe": NAME, "cycles": 12, "runs": 3, "first": 0, **words}
    assert reply.line == 2 and log.complete and not log.damaged and not log.lost
    assert (log.head.board, log.head.probes, log.head.npu_hz) == ("stm32n6570-dk", 2, 1_000_000_000)


def test_noise_of_terminals() -> None:
    clean = parse_log(log_text())
    noisy = ["\x1b[2J\x1b[0mpicocom v3.1", "\ufffd\ufffd"]
    for one in log_lines():
        noisy += [f"[12:00:01.123] \x1b[32m{one}\x1b[0m", one, "~ heartbeat 7 *FFFF"]
    found = parse_log("\r\n".join(noisy))
    assert {n: r.as_dict() for n, r in found.replies.items()} == {n: r.as_dict() for n, r in clean.replies.items()}
    assert found.complete and not found.damaged


def test_a_lost_line_end_joins_two_lines() -> None:
    found = parse_log("".join(log_lines()))
    assert len(found.replies) == len(ASKED) and found.complete


@pytest.mark.parametrize(("old", "new"), [("wrong", "pass"), ("wrong", "hang"), ("12", "13"), ("first=1", "first=2")])
def test_a_corrupted_line_is_counted_and_not_believed(old: str, new: str) -> None:
    good = line(NAME, "wrong first=1 got=12 want=13")
    bad = good.replace(old, new, 1)
    lines = [bad if one == good else one for one in log_lines({NAME: "wrong first=1 got=12 want=13"})]
    found = parse_log("\n".join(lines))
    assert NAME not in found.replies and found.damaged == 1 and found.lost == 1
    assert found.damaged_lines == (lines.index(bad) + 1,)


NONSENSE = ("maybe", "", "pass loose", "pass speed=1", "wrong got=xyz", "pass cycles=-1", "pass cycles=1e9")


@pytest.mark.parametrize("words", [*NONSENSE, "pass cycles=99999999999999999"])
def test_a_line_with_a_good_checksum_must_still_make_sense(words: str) -> None:
    found = parse_log("\n".join([begin(1), line(*filter(None, (NAME, words)))]))
    assert found.damaged == 1 and not found.replies


def test_a_log_that_is_cut_off_says_so() -> None:
    found = parse_log("\n".join(log_lines()[:7]))
    assert not found.complete and len(found.replies) == 6


def test_answers_that_contradict_each_other_are_refused() -> None:
    lines = [*log_lines(), line(NAME, "wrong first=3 got=12 want=13")]
    with pytest.raises(InputError, match=rf"{NAME}: pass in line \d+, wrong in line {len(lines)}"):
        parse_log("\n".join(lines))


def test_of_two_runs_the_faster_one_counts() -> None:
    found = parse_log("\n".join([*log_lines(), *log_lines({NAME: "pass cycles=4000 runs=5"})]))
    assert found.replies[NAME].cycles == 4000 and found.complete


def test_what_was_skipped_once_may_be_answered_later() -> None:
    found = parse_log("\n".join([*log_lines({NAME: "skipped why=no_hyperram"}), *log_lines()]))
    assert found.replies[NAME].verdict == "pass"


def test_two_boards_are_two_files() -> None:
    with pytest.raises(InputError, match="begins anew in line 2 with another board"):
        parse_log("\n".join([begin(1), begin(1, "nucleo-n657x0-q")]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no line of the probe firmware"),
        ("hello\n" * 5, "no line of the probe firmware"),
        ("\n".join(log_lines()[1:]), "the first line of the firmware is missing"),
        (line("begin", "board=x").replace(" 1 ", " 2 "), "the first line"),
        (begin(1, cpu_hz=-1), "the first line"),
        (begin(1, "a/b"), "the first line"),
    ],
)
def test_what_is_no_log_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_log(text)


def test_another_format_is_named() -> None:
    text = f"ATONC-PROBE 2 {NAME} pass"
    with pytest.raises(InputError, match="a log of format 2"):
        parse_log(f"{text} *{checksum(text)}")


def test_sizes_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "uart.log"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="at most"):
        read_log(path)
    long = line(NAME, "pass why=" + "y" * 500)
    assert parse_log(f"{begin(1)}\n{long}\n").damaged == 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_damage_becomes_an_answer_or_a_traceback(data: st.DataObject) -> None:
    text = bytearray(log_text({NAME: "hang"}), "ascii")
    for _ in range(data.draw(st.integers(1, 8))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse_log(bytes(text).decode("ascii", "replace"))
    except InputError:
        return
    assert all(reply.verdict == ("hang" if name == NAME else "pass") for name, reply in found.replies.items())


def test_the_verb_refuses_in_one_paragraph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "read", str(tmp_path / "none.log")]) == 2
    assert "there is no such file" in unwrapped(capsys.readouterr().err)
    assert main(["probe", "read"]) == 2
    assert "atonc probe read LOG" in unwrapped(capsys.readouterr().err)


def test_the_example_of_the_documentation_is_one() -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "probes.md").read_text()
    lines = [one for one in text.splitlines() if one.startswith("ATONC-PROBE") and "<" not in one]
    assert lines and all(one == signed(one.rpartition(" *")[0]) for one in lines)


@pytest.mark.parametrize("where", ["", "on=moon"])
def test_who_answered_must_be_known(where: str) -> None:
    """Answers of nobody knows whom would count as those of a chip."""
    words = begin(len(ASKED)).rpartition(" *")[0].removesuffix("on=chip") + where
    with pytest.raises(InputError, match="first line of the firmware"):
        parse_log("\n".join([signed(words.strip()), *log_lines()[1:]]))


def test_the_log_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "board.log"
    log.write_text(log_text())
    assert main(["probe", "read", str(log), "-o", f"{tmp_path}/./board.log"]) != 0
    assert "the log itself" in unwrapped(capsys.readouterr().err) and log.read_text() == log_text()


@pytest.mark.parametrize("lines", [("findings=1", "6 RAM_SHUTDOWN detail=4 | shut down | power it"), ("findings=3",)])
def test_findings_of_the_self_test_are_told(
    lines: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [signed(f"ATONC-SELFTEST 1 {one}") for one in lines]
    (tmp_path / "board.log").write_text("\n".join([log_lines()[0], *told, *log_lines()[1:]]))
    assert main(["probe", "read", str(tmp_path / "board.log"), "-o", str(tmp_path / "evidence.json")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"self-test: {lines[-1]}" in said and "the set-up is not sound" in said


def test_a_sound_self_test_is_no_finding() -> None:
    sound = signed("ATONC-SELFTEST 1 findings=0")
    assert parse_log("\n".join([log_lines()[0], sound, *log_lines()[1:]])).findings == ()
