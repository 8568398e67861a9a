# Every target sets up .venv by itself; after that it only runs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TYPES := $(BIN)/mypy
IMPORTS := $(BIN)/lint-imports
READY := $(VENV)/.ready
# Compiled kernels stay with the environment; their cache goes by the sources (src/loopwise/compiled/cache.py).
export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)/numba
# Errors of the compiler are written in colours, at some cost, thousands of times a kernel, to be caught.
export NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING := 1
# What Python compiles is kept, whatever the surroundings say: two processes and many short ones import the same files.
export PYTHONDONTWRITEBYTECODE :=

# How long the campaigns of tests/fuzz go on; SEED repeats one.
MINUTES ?= 10
KILLS ?= 100
CAMPAIGN := OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m
SEEDED := $(if $(SEED),--seed $(SEED))

.PHONY: help demo reproduce test lint style types imports docs package fuzz torture oracle clean

help:
	@echo "make demo       a table and a page: training for the loss against likelihood"
	@echo "make reproduce  a published study again: STUDY=erma, OPTIONS='--full --minutes 60'"
	@echo "make test       style, types, import rules, tests, examples in the documentation"
	@echo "make lint       the first three of these: make style, make types, make imports"
	@echo "make docs       the documentation as a web site, in site/"
	@echo "make package    source archive and wheel, in dist/, tried in an empty environment"
	@echo "make fuzz       spoilt files for every reader and loader: MINUTES=10, SEED=..."
	@echo "make torture    trainings that are killed and go on, compared bit for bit: KILLS=100, SEED=..."
	@echo "make oracle     random models against enumeration: MINUTES=10, SEED=..."
	@echo "make clean      removes everything that make made"

# torch comes first and alone: its pin finds a CPU build where the installer is offered one, and nothing that
# is installed later replaces it. Python compiles what is imported, by itself: not all of it, half a minute of one core.
$(READY): pyproject.toml constraints.txt
	@echo "== setting up $(VENV)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev,docs]'
	@touch $(READY)

demo: $(READY)
	@echo "== demo"
	$(BIN)/loopwise demo

# STUDY: erma, domke, samplerank, cost-aware, parser, decoder, tables or entities.
reproduce: $(READY)
	$(BIN)/python -m studies $(or $(STUDY),--help) $(OPTIONS)

lint: style types imports

style: $(READY)
	@echo "== ruff: style"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	@echo "== mypy: types"
	$(TYPES)

imports: $(READY)
	@echo "== import-linter: data flows one way"
	$(IMPORTS)

# Two processes, a core for each: torch's threads would only wait for one another. Which file goes to which of them, and
# when, is said in tests/conftest.py; by itself xdist begins with files of many tests, and ends with single long ones.
# Types and import rules take one core for as long as tests take to begin: they are checked meanwhile, and told last.
test: style
	@echo "== pytest: tests, and the examples in README, docs and docstrings; meanwhile types and import rules"
	@{ $(TYPES) && $(IMPORTS); } > $(VENV)/lint.log 2>&1 & \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder; tests=$$?; \
	wait $$!; lint=$$?; cat $(VENV)/lint.log; test $$tests -eq 0 && test $$lint -eq 0

docs: $(READY)
	@echo "== mkdocs"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "see site/index.html"

package: $(READY)
	$(BIN)/python .ci/package.py

# What failed is in out/fuzz/, each with the command that repeats it (docs/reliability.md).
fuzz: $(READY)
	$(CAMPAIGN) fuzz.mutate --minutes $(MINUTES) $(SEEDED)

torture: $(READY)
	$(CAMPAIGN) fuzz.kill --count $(KILLS) $(SEEDED)

oracle: $(READY)
	$(CAMPAIGN) fuzz.oracle --minutes $(MINUTES) $(SEEDED)

clean:
	rm -rf $(VENV) site out build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src studies tests -name __pycache__ -type d -prune -exec rm -rf {} +
