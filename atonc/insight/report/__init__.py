"""Views over results: text and JSON, no decisions."""
