# make test: lint, types and tests; make demo: compile and run the bundled network. Both install what they need into .venv first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# the machine's BLAS threads would compete with the test workers
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# tests start hundreds of processes: without byte code each would compile the package again, for more than a second
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help test quick demo lint unit recording docs screenshots release venv clean

# what somebody who adds an operator, a board or a column wants to know at once
QUICK := tests/ops/test_functions_table.py tests/kernels/test_kernels_numbers.py tests/passes/test_passes_formats.py \
         tests/lower/test_function.py tests/lower/test_tables.py tests/frontends/test_onnx_attributes.py \
         tests/insight/test_operators.py tests/boards tests/docs/test_reference.py tests/test_import_direction.py \
         tests/compiler/test_golden_figures.py tests/report/test_columns.py tests/report/test_page_data.py

help:
	@echo 'make demo    compile the digits network, run it on the emulator, compare'
	@echo 'make test    ruff, mypy and pytest'
	@echo 'make quick   ruff, and the tests of operators, boards and figures: under a minute'
	@echo 'make lint    ruff and mypy only'
	@echo 'make recording FILE=board.npz  into the folder recordings, and the pages made from it'
	@echo 'make docs    the documentation as a site, in build/site'
	@echo 'make screenshots  pictures of all pages, in build/screenshots: look at them'
	@echo 'make release wheel and sdist, built twice and tried, in build/release; publishes nothing'
	@echo 'make venv    create $(VENV) with everything installed'

test: lint unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

# worksteal: tests of one file, which share what is expensive, stay with one worker
unit: $(STAMP)
	@sh tools/cross_compiler.sh
	@sh tools/browser.sh
	$(BIN)/pytest -n auto --dist worksteal -q

quick: $(STAMP)
	$(BIN)/ruff check .
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/pytest -q $(QUICK)

demo: $(STAMP)
	$(BIN)/atonc generate examples/digits/digits.tflite -n digits -o build/digits
	$(BIN)/atonc validate examples/digits/digits.tflite --input examples/digits/test.npz --per-layer

recording: $(STAMP)
	$(BIN)/python -m atonc recordings add $(FILE) --to recordings
	$(BIN)/python tools/gen_reference.py

docs: $(STAMP)
	$(BIN)/python tools/site.py build/site

screenshots: $(STAMP)
	@sh tools/browser.sh
	$(BIN)/python tools/screenshots.py build/screenshots

release: $(STAMP)
	$(BIN)/python tools/release.py build/release

venv: $(STAMP)

$(STAMP): pyproject.toml
	@PYTHON='$(PYTHON)' sh tools/make_venv.sh '$(VENV)'
	@touch $@

clean:
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
