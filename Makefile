# Every target does its own set-up: a virtual environment in .venv, with the versions that constraints.txt pins.
# On a machine with Python 3.11 or later, make and a package index: `make demo`, `make test`.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# An environment variable, so that it also holds for the tools that pip builds the package with.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help install demo test check real counts fuzz bench scale sample clean

help: ## Show this
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

install: $(READY) ## Set up .venv with kifu and its tools

demo: $(READY) ## Go the whole way on the bundled sample: data sets, checks, pictures
	$(BIN)/kifu demo --output demo

test: $(READY) ## Run the tests (a quarter of an hour)
	$(BIN)/python -m pytest -m 'not slow'

check: $(READY) ## Run the linter, the strict type checker and the prose check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

real: $(READY) ## Read all real games of ../shared, and the slow tests
	$(BIN)/python -m pytest -m slow --ignore tests/test_go_counts.py

counts: $(READY) ## Count positions and games exhaustively (long)
	$(BIN)/python -m pytest -m slow -s tests/test_go_counts.py

fuzz: $(READY) ## Feed arbitrary bytes to every reader, for FUZZ_SECONDS (600)
	$(BIN)/python tests/fuzz.py --seconds $(FUZZ_SECONDS)

bench: $(READY) ## Measure speed and memory, beside a floor
	$(BIN)/python benchmarks/run.py

scale: $(READY) ## Measure with five million games made of real ones (hours; 12 GB in build/scale)
	$(BIN)/python benchmarks/scale.py --output build/scale

sample: $(READY) ## Have GNU Go play the bundled sample again (hours; needs gnugo)
	$(BIN)/python tools/make_sample.py --work build/sample --out build

clean: ## Remove what the targets above made
	rm -rf .venv build demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
