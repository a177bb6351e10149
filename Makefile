# Every target sets up its own virtual environment in .venv with the versions pinned in constraints.txt. It needs Python
# 3.11 or later, make and a package index.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# An environment variable also applies to the build environment of pip.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help install demo test check real counts fuzz bench scale sample clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

install: $(READY) ## Set up .venv with kifu and the development tools

demo: $(READY) ## Run the pipeline on the bundled sample: data sets, checks, a net, pictures
	$(BIN)/kifu demo --output demo

test: $(READY) ## Run the tests (20 minutes)
	$(BIN)/python -m pytest -m 'not slow'

check: $(READY) ## Run the linter, the strict type checker and the prose check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_prose.py

real: $(READY) ## Read all real games of ../shared, and the slow tests
	$(BIN)/python -m pytest -m slow --ignore tests/go/test_go_counts.py

counts: $(READY) ## Count positions and games exhaustively (long)
	$(BIN)/python -m pytest -m slow -s tests/go/test_go_counts.py

fuzz: $(READY) ## Feed arbitrary bytes to every reader, for FUZZ_SECONDS (600)
	$(BIN)/python tests/fuzz.py --seconds $(FUZZ_SECONDS)

bench: $(READY) ## Measure speed and memory, beside a floor
	$(BIN)/python benchmarks/run.py

scale: $(READY) ## Measure with five million games derived from real ones (hours; 12 GB in build/scale)
	$(BIN)/python benchmarks/scale.py --output build/scale

sample: $(READY) ## Regenerate the bundled sample with GNU Go (hours; needs gnugo)
	$(BIN)/python tools/make_sample.py --work build/sample --out build

clean: ## Remove everything that the other targets made
	rm -rf .venv build demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
