"""The commands of the guides, as written, in a fresh folder; what they print; and the links between the pages."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("guides", ROOT / "tools" / "guides.py")
assert _SPEC is not None and _SPEC.loader is not None
guides = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(guides)

_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
QUICK_STARTS = sorted((ROOT / "docs").glob("quickstart-*.md"))


def _name(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


@pytest.mark.parametrize(
    "guide", [page for page in guides.GUIDES if any(step.lines for step in guides.steps(page.read_text()))], ids=_name
)
def test_commands_work_and_print_what_is_written(guide: Path) -> None:
    assert guide.read_text() == guides.filled(guide), "run tools/guides.py"


@pytest.mark.parametrize("page", [*QUICK_STARTS, ROOT / "README.md"], ids=_name)
def test_every_command_of_a_quick_start_says_what_one_should_see(page: Path) -> None:
    *with_words, rest = guides.steps(page.read_text())
    assert with_words and not rest.lines


def test_a_line_that_is_no_longer_printed_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for words, line in (("first; second", "first line"), ("third", "")):
        page.write_text(f"```sh\necho first line\necho a second\n```\n<!-- seen: {words} -->\nold\n<!-- end -->\n")
        if line:
            assert "```text\nfirst line\na second\n```\n<!-- end -->" in guides.filled(page)
        else:
            with pytest.raises(LookupError, match="third"):
                guides.filled(page)


def test_a_command_that_fails_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\natonc generate nothing.tflite\n```\n")
    with pytest.raises(RuntimeError, match="exit code 2"):
        guides.filled(page)


def test_nobody_is_sent_to_an_index_where_nothing_of_ours_is() -> None:
    """Somebody else may publish under this name."""
    explained = ROOT / "docs" / "install.md"
    pages = [page for page in guides.GUIDES if page != explained]
    assert [page.name for page in pages if re.search(r"pip install '?atonc(?!-)", page.read_text())] == []


@pytest.mark.parametrize("page", [*guides.GUIDES, ROOT / "CONTRIBUTING.md"], ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
