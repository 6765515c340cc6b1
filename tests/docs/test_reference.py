"""The reference is what the code says."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("gen_reference", ROOT / "tools" / "gen_reference.py")
assert _SPEC is not None and _SPEC.loader is not None
gen_reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(gen_reference)

PAGES = gen_reference.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_pages_are_fresh(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text() == PAGES[name], "run tools/gen_reference.py"


FIGURES = gen_reference.figures
WITH_FIGURES = FIGURES.documents()
_SEEN = re.compile(r"<!-- seen: .*?<!-- end -->", re.DOTALL)  # what commands print: tests/docs/test_guides.py
_RATIO = re.compile(r"(?<![\w.])[0-2]\.\d\d+(?! ?%)(?![\w.])|\d ms\b")  # 0.72, 0.503, 16.45 ms


@pytest.mark.parametrize("page", sorted(WITH_FIGURES), ids=lambda page: page.stem)
def test_figures_are_those_of_the_results(page: Path) -> None:
    assert page.read_text() == WITH_FIGURES[page], "run tools/gen_reference.py"


@pytest.mark.skipif(not FIGURES.RESULTS.is_dir(), reason="results of benchmarks are not part of this checkout")
@pytest.mark.parametrize("name", ["README.md", "docs/latency.md", "docs/schedule.md"])
def test_no_speed_is_typed(name: str) -> None:
    """Two pages contradicted each other once; so no ratio and no time stands outside a region."""
    text = (ROOT / name).read_text()
    assert FIGURES.REGION.search(text)
    assert _RATIO.findall(_SEEN.sub("", FIGURES.REGION.sub("", text))) == []


@pytest.mark.skipif(not FIGURES.RESULTS.is_dir(), reason="results of benchmarks are not part of this checkout")
def test_results_are_of_the_same_programs() -> None:
    """The table of the corpus, the comparison with ST and the pages say one thing."""
    ours = json.loads((FIGURES.RESULTS / "schedule.json").read_text())["default"]
    same = json.loads((FIGURES.RESULTS / "against_st.json").read_text())["same_file"]
    assert len(same["rows"]) >= 20
    for row in same["rows"]:
        assert row["ms"] == pytest.approx(ours[row["model"]]["ms"], abs=1e-3), "run python -m benchmarks against_st"
    for key, count in (("mean", "networks"), ("on_chip_mean", "on_chip")):
        said = f"{same['summary'][key]:.3f} on {same['summary'][count]}"
        assert said in (FIGURES.RESULTS / "schedule.md").read_text(), "run python -m benchmarks schedule --write"


def test_a_stale_figure_is_seen() -> None:
    text = "<!-- figures: speed -->half the time<!-- end --> and <!-- figures: inside-the-band -->all<!-- end -->"
    if FIGURES.RESULTS.is_dir():
        filled = FIGURES.filled(text)
        assert "half the time" not in filled and filled == FIGURES.filled(filled)
    with pytest.raises(KeyError):
        FIGURES.filled("<!-- figures: no-such-figure --><!-- end -->")
