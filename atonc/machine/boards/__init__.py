"""Boards: one `.toml` each, found by listing this folder. `_template.toml` explains every key."""
