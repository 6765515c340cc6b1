"""Placeholder."""
from atonc.delivery.layouts.layout import Layout
LAYOUT = Layout(name="cmsis", title="", page="", files=lambda g: {}, refuses=lambda g: iter(()))
