# make test: lint, types and tests; make demo: run the bundled network. Both install what they need into .venv first.

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
	@echo 'make demo    run the bundled network on the emulator'
	@echo 'make test    ruff, mypy and pytest'
	@echo 'make lint    ruff and mypy only'
	@echo 'make venv    create $(VENV) with everything installed'

test: lint unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/pytest -n auto -q

demo: $(STAMP)
	$(BIN)/atonc run examples/first

venv: $(STAMP)

$(STAMP): pyproject.toml
	@PYTHON='$(PYTHON)' sh tools/make_venv.sh '$(VENV)'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
