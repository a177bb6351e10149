# Each target installs what it uses into the virtual environment .venv, with the versions pinned in constraints.txt.
# They need Python 3.11 to 3.14, make and a package index.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && echo $$python && break; \
	done)
BIN := .venv/bin
READY := .venv/ready
# An environment variable also applies to the build environment of pip.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
FUZZ_MINUTES ?= 30
TEST_JOBS ?= 2
# Files begin in the order of tests/conftest.py. Compiled tests are kept: rewriting assertions takes most of collection.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install prepare demo test test-all test-thorough coverage check size docs dist counts fuzz bench scale sample client clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{sub(/:.*/, "", $$1); printf "  make %-13s %s\n", $$1, $$2}'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.14 is required, but is not on PATH"; exit 1; }
	$(PYTHON) -m venv .venv

# .venv/ready-EXTRA: kifu is installed, editable, with this extra, or several with commas between.
$(READY)-%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing kifu[$*] into .venv"
	@$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@
.PRECIOUS: $(READY)-%

# Kernels are compiled once, on all cores, while pip installs the rest and kifu anew; later changes are compiled when they
# are first used.
$(READY)-kernels: | $(READY)-charts
	@PYTHONPATH=src $(BIN)/python tools/compile_kernels.py
	@touch $@

$(READY)-test: | $(READY)-charts

prepare: # for the tests
	@$(MAKE) --no-print-directory -j2 $(READY)-test $(READY)-kernels

install: $(READY)-test $(READY)-lint ## Set up .venv with kifu, all extras and the development tools

$(READY)-demo: | $(READY)-charts
	@PYTHONPATH=src $(BIN)/python tools/compile_kernels.py demo 2>/dev/null
	@touch $@

# The demo compiles what it needs first while torch is installed and the kernels of its last commands are compiled.
demo: $(READY)-charts ## Run the pipeline on the bundled sample: data sets, checks, a net, pictures
	@$(BIN)/python tools/demo.py $(MAKE) --no-print-directory -j2 $(READY)-web,learn $(READY)-demo

# Machines differ: a test that takes one second of processor time on most may take two on some.
test: prepare ## Run the tests (4 minutes) in TEST_JOBS processes (2)
	KIFU_TEST_SECONDS=2 $(PYTEST)

# In three processes, since many slow tests wait for others; on two cores, each is slower then.
test-all: prepare $(READY)-lint ## Run the slow tests and those that start processes, too (40 minutes)
	KIFU_TEST_SECONDS=3 $(PYTEST) -n 3 -m 'not exhaustive and not thorough' --durations 30

test-thorough: $(READY)-test $(READY)-lint ## Run all tests with more examples (hours)
	$(PYTEST) -n 3 -m 'not exhaustive' --hypothesis-profile thorough --durations 30

coverage: $(READY)-test ## Run the fast tests and measure which lines they cover
	KIFU_TEST_SECONDS=inf $(PYTEST) --cov --cov-report term

check: $(READY)-lint ## Run the linter, the strict type checker, the prose check and the size check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 src
	$(BIN)/python tools/check_prose.py
	$(BIN)/python tools/size.py --check

size: $(BIN)/python ## Report modules, lines, classes and words by package
	$(BIN)/python tools/size.py

docs: $(READY)-docs ## Build the documentation in build/site; NOTEBOOKS=skip leaves the tutorials unexecuted
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(READY)-dist ## Build the sdist, the wheel, and one with compiled kernels for each Python, tried in an empty environment
	rm -rf dist build/lib build/bdist.*
	find src -name __pycache__ -type d -prune -exec rm -rf {} +
	$(BIN)/python -m build --quiet --outdir dist >/dev/null
	$(BIN)/python tools/check_dist.py dist

counts: $(READY)-test ## Count positions and games exhaustively (long)
	$(BIN)/python -m pytest -m exhaustive -s --timeout 0

fuzz: $(READY)-test ## Feed damaged files to every reader, with bounds checks, for FUZZ_MINUTES each (30; hours in all)
	PYTHONPATH=tests:tests/support:tests/twins $(BIN)/python tests/fuzz/fuzz.py --minutes $(FUZZ_MINUTES) --jobs $(TEST_JOBS)

bench: $(READY)-learn $(READY)-7z ## Measure speed and memory, beside a floor
	$(BIN)/python benchmarks/run.py

scale: $(READY)-learn ## Measure with five million games derived from real ones (hours; 12 GB in build/scale)
	$(BIN)/python benchmarks/scale.py --output build/scale

sample: $(READY)-lint ## Regenerate the bundled sample with GNU Go (hours; needs gnugo)
	$(BIN)/python tools/make_sample.py --work build/sample --out build

client: ## Bundle the client of kifu serve into src/kifu/assets/web (needs node and npm)
	cd client && npm ci && npm run build

clean: ## Remove everything that the other targets made
	rm -rf .venv build dist demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
