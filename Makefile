# Everything sets itself up in .venv on a machine that has Python >= 3.11, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
# The tests start some hundred processes: they share their bytecode.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal
# The tests that run kernels: in kernels/, gibbs/, em/ and posterior/, and short chains of all models.
KERNEL_TESTS := tests/kernels tests/gibbs tests/em/test_contraction.py tests/em/test_iteration.py \
	tests/run/test_new_rows.py tests/run/test_shards.py tests/classes/test_stability.py tests/classes/test_class_matching.py \
	tests/posterior/test_surprises.py tests/posterior/test_mixture_scores.py tests/test_golden_draws.py
SCRIPTS := $(wildcard src/allocore/report/page/client/*.js)

.PHONY: demo test test-slow test-long test-interpreted test-checked fuzz coverage lint docs bench bench-quick bench-long bench-billion bench-cluster format picture clean

demo: $(VENV)/.run  ## Fit New York's flights of 2013, print what was found, and write demo/flights.html and demo/classes.png
	@$(BIN)/allocore demo

test: $(VENV)/.dev  ## Every part of the product, in less than four minutes
	$(PYTEST) -m "not slow"

test-slow: test-long test-interpreted test-checked  ## All else: long runs, and the kernels interpreted and with bounds checks

test-long: $(VENV)/.dev  ## All of Geweke's tests, calibration, planted bugs, many kills
	$(PYTEST) -m slow --durations=25

test-interpreted: $(VENV)/.dev  ## The kernels with the JIT off; the quick tests take every branch, and slow ones take more draws
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m "not jit and not slow" $(KERNEL_TESTS)

test-checked: $(VENV)/.dev  ## What takes too long interpreted, where NumPy checks bounds: compiled with bounds checks, in a cache of its own
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba-checked $(PYTEST) -m "jit and not slow" $(KERNEL_TESTS)

fuzz: $(VENV)/.dev  ## Damaged files of every kind, and random calls of all public functions, five minutes each
	FUZZ_SECONDS=300 $(BIN)/python -m pytest -q -s -m slow tests/fuzz

coverage: $(VENV)/.dev  ## Lines that `make test` runs; numba hides compiled kernels, so their tests also run with the JIT off
	rm -f .coverage .coverage.*
	$(PYTEST) -m "not slow" --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m "not jit and not slow" --cov --cov-append --cov-report= $(KERNEL_TESTS)
	$(BIN)/python -m coverage report

lint: $(VENV)/.dev  ## Linters, formatters and the strict type checker, for Python and for the JavaScript of the explorer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/oxlint $(SCRIPTS)
	$(BIN)/oxfmt --check $(SCRIPTS)

docs: $(VENV)/.docs  ## The documentation site, in .cache/site: its notebooks run, warnings are errors, links and accessibility are checked
	rm -rf .cache/site .cache/doctrees docs/reference/api
	$(BIN)/python -m sphinx -q -W --keep-going -j 2 -d .cache/doctrees -b html docs .cache/site
	$(BIN)/python scripts/check_site.py .cache/site
	$(BIN)/python scripts/check_accessibility.py .cache/site

bench: $(VENV)/.bench  ## The machine, speed as ratios within one run, serial share, cost curves, memory, storing, reading, rivals
	$(BIN)/python benchmarks/speed.py --out .cache/bench $(TENSOR)

bench-quick: $(VENV)/.bench  ## The same with small sizes, in some minutes
	$(BIN)/python benchmarks/speed.py --out .cache/bench-quick --quick $(TENSOR)

bench-long: $(VENV)/.bench  ## Five thousand sweeps at Q = 400: time and memory at the start, in the middle and at the end
	$(BIN)/python benchmarks/long_run.py --out .cache/bench/long.json $(TENSOR)

bench-billion: $(VENV)/.bench  ## A billion non-zeros out of core: hours, 16 GB of disk; goes on with the step it was stopped in
	$(BIN)/python benchmarks/billion.py --out .cache/bench/billion.json $(BILLION)

bench-cluster: $(VENV)/.dev  ## Sweeps on worker processes beside threads, a model of the cost, delays and slow workers: half an hour
	$(BIN)/python benchmarks/cluster.py --out .cache/bench-cluster $(CLUSTER)

.PHONY: dist test-lowest test-newest

AS_USERS_SEE := -W default -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning
# What is tested with other versions: all that calls other packages for more than arithmetic. That is data, storage, runs on
# threads and on workers, posteriors, figures and the command line; not formulas, spellings of countries and faults of disks.
OTHER_VERSIONS := -q -n 2 --dist worksteal -m "not slow" tests/tensor tests/events tests/storage \
	tests/run/test_chains.py tests/run/test_executors.py tests/run/test_fold_in.py tests/run/test_held_out_runs.py \
	tests/run/test_likelihood_runs.py tests/run/test_resume.py tests/run/test_sharded_runs.py \
	tests/posterior tests/classes tests/forecast tests/report/figures tests/cli tests/test_results.py tests/test_estimators.py \
	--ignore tests/tensor/test_cameo.py --ignore tests/tensor/test_countries.py
# The newest Python from 3.13 on: on the path, or one of pyenv's.
NEWEST_PYTHON ?= $(firstword $(foreach python,python3.14 python3.13 $(wildcard $(HOME)/.pyenv/versions/3.1[34].*/bin/python), \
	$(shell $(python) -c 'import sys; print(sys.executable)' 2> /dev/null)))

# The Python with which a user tries the wheel.
DIST_PYTHON ?= $(BIN)/python

dist: $(VENV)/.release  ## Build the sdist and the wheel, check both, and run the demo from the wheel in a fresh environment
	rm -rf dist .cache/dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(DIST_PYTHON) -m venv .cache/dist
	.cache/dist/bin/python -m pip install --quiet dist/*.whl
	cd .cache && dist/bin/allocore demo

# Old releases call what their own dependencies have since deprecated. Python does not show that to users; nor is it an error here.
test-lowest: $(VENV)/bin/python  ## With the lowest versions of pyproject.toml
	rm -rf .cache/lowest && mkdir -p .cache
	$(BIN)/python -m venv .cache/lowest
	$(BIN)/python scripts/lowest_versions.py > .cache/lowest.txt
	.cache/lowest/bin/python -m pip install --quiet --no-compile --constraint .cache/lowest.txt -e '.[dev]'
	NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba-lowest .cache/lowest/bin/python -m pytest $(AS_USERS_SEE) $(OTHER_VERSIONS)

test-newest:  ## With the newest versions there are, on Python 3.14 or 3.13 if the machine has it
ifeq ($(NEWEST_PYTHON),)
	@echo "SKIPPED: there is no Python 3.13 or later here; set NEWEST_PYTHON=/path/to/python3.13 to test with the newest versions"
else
	rm -rf .cache/newest && mkdir -p .cache
	$(NEWEST_PYTHON) -m venv .cache/newest
	.cache/newest/bin/python -m pip install --quiet --no-compile -e '.[dev]'
	NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba-newest .cache/newest/bin/python -m pytest $(AS_USERS_SEE) $(OTHER_VERSIONS)
endif

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/oxfmt $(SCRIPTS)

picture: $(VENV)/.dev demo  ## Take the pictures of the demo's report: docs/report.png, docs/explorer.png (needs Chromium)
	$(BIN)/python scripts/make_report_pictures.py demo/flights.html docs

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

$(VENV)/.docs: $(VENV)/.run
	@echo "installing what the documentation needs into $(VENV)"
	@$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/.bench: $(VENV)/.run
	@echo "installing what the benchmarks need into $(VENV)"
	@$(PIP) -e '.[bench]'
	@touch $@

$(VENV)/.release: $(VENV)/.run
	@echo "installing what a release needs into $(VENV)"
	@$(PIP) -e '.[release]'
	@touch $@

clean:
	rm -rf $(VENV) .coverage .coverage.* .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
