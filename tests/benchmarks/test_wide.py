"""The benchmark of 16 bits."""

from __future__ import annotations

from benchmarks import wide


def test_the_public_network_alone_has_a_page_too() -> None:
    row = {"narrow": 11.8, "wide": 24.7, "layers": 3, "worst": 5.0, "cpu": "-"}
    page = wide._page({f"{wide.YOLOX}, 0123": row})
    assert "none of the made networks" in page and "2.09" in page
