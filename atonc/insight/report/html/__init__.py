"""The report as one HTML file: everything inside, nothing loaded from elsewhere."""

from atonc.insight.report.html.page import compare_page, html_page, sweep_page

__all__ = ["compare_page", "html_page", "sweep_page"]
