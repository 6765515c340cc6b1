# make test: lint, types and tests; make demo: compile and run the bundled network. Both install what they need into .venv first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# the machine's BLAS threads would compete with the test workers
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help test demo lint types unit venv clean

help:
	@echo 'make demo    compile the digits network, run it on the emulator, compare'
	@echo 'make test    ruff, mypy and pytest'
	@echo 'make lint    ruff and mypy only'
	@echo 'make venv    create $(VENV) with everything installed'

test: lint unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: $(STAMP)
	@sh tools/cross_compiler.sh
	@sh tools/browser.sh
	$(BIN)/pytest -n auto -q

demo: $(STAMP)
	$(BIN)/atonc generate examples/digits/digits.tflite -n digits -o build/digits
	$(BIN)/atonc validate examples/digits/digits.tflite --input examples/digits/test.npz --per-layer

venv: $(STAMP)

$(STAMP): pyproject.toml
	@PYTHON='$(PYTHON)' sh tools/make_venv.sh '$(VENV)'
	@touch $@

clean:
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
