"""Boards: one `.toml` each, found by listing this folder; and what follows from them: pool files, linker fragments,
the check of a firmware against them. `_template.toml` explains every key."""
