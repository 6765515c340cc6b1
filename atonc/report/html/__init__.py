"""The report as one HTML file: everything inside, nothing loaded from elsewhere."""

from atonc.report.html.page import html_page

__all__ = ["html_page"]
