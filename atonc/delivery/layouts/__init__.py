"""Ways out of `generate`: a compiled network as a folder that another project takes as it is (`--layout`).

`layout.py` says what a layout is; `openmv.py`, `rust.py`, `zephyr.py` and `cmsis.py` are one each; `every.py` lists
them and makes the files of one; `folder.py` writes them, all or none.
"""
