# Everything sets itself up in .venv on a machine that has Python >= 3.11, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
PYTEST := $(BIN)/python -m pytest -q
SCRIPTS := $(wildcard src/allocore/explorer/page/*.js)

.PHONY: demo test test-fast test-interpreted test-checked lint bench bench-quick format picture clean

demo: $(VENV)/.run  ## Fit New York's flights of 2013 and print what was found
	@$(BIN)/allocore demo

test: test-fast test-interpreted test-checked  ## The whole suite: compiled, interpreted, and with bounds checks

test-fast: $(VENV)/.dev
	$(PYTEST) -n 2 --dist worksteal

test-interpreted: $(VENV)/.dev  ## The small cases with the JIT off
	NUMBA_DISABLE_JIT=1 $(PYTEST) -n 2 --dist worksteal -m "not jit and not disk" tests

test-checked: $(VENV)/.dev  ## All kernels with bounds checks on, in a cache of their own
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=.cache/numba-checked $(PYTEST) -n 2 --dist worksteal tests -m "not long and not disk"

lint: $(VENV)/.dev  ## Linters, formatters and the strict type checker, for Python and for the JavaScript of the explorer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/oxlint $(SCRIPTS)
	$(BIN)/oxfmt --check $(SCRIPTS)

bench: $(VENV)/.bench  ## Speed as ratios within one run, cost curves, memory, storing, reading, rivals: some twenty-five minutes
	$(BIN)/python benchmarks/speed.py --out .cache/bench $(TENSOR)

bench-quick: $(VENV)/.bench  ## The same with small sizes, in less than two minutes
	$(BIN)/python benchmarks/speed.py --out .cache/bench-quick --quick $(TENSOR)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/oxfmt $(SCRIPTS)

picture: $(VENV)/.dev  ## Make the pictures in the README: docs/demo.svg, docs/explorer.png (needs Chromium)
	$(BIN)/python scripts/make_demo_picture.py docs/demo.svg
	$(BIN)/python scripts/make_explorer_picture.py docs/explorer.png

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "allocore needs Python 3.11 or later; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing allocore into $(VENV)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "installing what the tests need into $(VENV)"
	@$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.run
	@echo "installing what the benchmarks need into $(VENV)"
	@$(PIP) -e '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
