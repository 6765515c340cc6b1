"""Ways out of `generate`: a compiled network as a folder that another project takes as it is (`--layout`).

`layout.py` says what a layout is; `openmv.py`, `rust.py`, `zephyr.py`, `cmsis.py` and `tflite.py` are one each;
`every.py` lists them, makes the files of one and writes them, all or none.
"""
