# The commands of CONTRIBUTING.md. Each does its own set-up; as root they use the real lab.
SHELL := /bin/sh
PYTHON := /usr/bin/python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := gridbridge tests bench lab docs
SHELL_FILES = $(wildcard sge-methods/*) $(wildcard bench/*.sh) $(wildcard gridbridge/batch/*.sh) $(wildcard gridbridge/batch/oar/*.sh) tools/debian-packages lab/apart
CHANCE := --reruns 1 --rerun-except RanTwice
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: check docs test test-as-root demo lab bench clean format
.DELETE_ON_ERROR:

$(VENV)/ready: setup.cfg
	@tools/debian-packages python3-venv make
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test,check,docs]'
	touch $@

check: $(VENV)/ready ## format, lint, types, import contracts, unit tests
	$(BIN)/ruff format --check $(wildcard $(SOURCES))
	$(BIN)/ruff check $(wildcard $(SOURCES))
	$(BIN)/shellcheck $(SHELL_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -n auto -m 'not killing and not apart and not lab and not lab_lifecycle and not root'

lab: $(VENV)/ready ## the lab, with gridbridge installed, set up and running
	lab/lab up
	tools/install "$$(lab/lab path opt)"
	tools/lab-site

demo: ## alice floods alpha, the overflow crosses, both accountings agree
	@if [ "$$(id -u)" -eq 0 ]; then \
	$(MAKE) --no-print-directory lab && $(BIN)/python lab/demo.py; else \
	$(MAKE) -s --no-print-directory $(VENV)/ready && lab/apart $(BIN)/python lab/demo.py --embedded; fi

docs: $(VENV)/ready ## the pages in build/html and the man pages in build/man, warnings as errors
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs build/html
	$(BIN)/sphinx-build -E -W --keep-going -q -b man docs build/man

test: check docs ## all of it; without root all that needs none
	$(BIN)/pytest -q -n auto -m 'killing or apart'
	@if [ "$$(id -u)" -eq 0 ]; then $(MAKE) --no-print-directory test-as-root; else \
	echo "left out, for they need root: the tests marked root, lab and lab_lifecycle"; fi

test-as-root:
	$(BIN)/pytest -q -m 'root and not lab and not lab_lifecycle'
	$(BIN)/pytest -q -m lab_lifecycle
	$(MAKE) lab
	GRIDLAB=2 $(MAKE) lab
	$(BIN)/pytest -q -m lab $(CHANCE) -raR -n 3 --dist loadgroup tests/contract
	$(BIN)/pytest -q -m lab $(CHANCE) -raR --durations=15 -n 2 --dist loadfile --ignore tests/contract

bench: lab ## what a transfer costs, in the lab; fails when a target of docs/figures.md is missed
	@mkdir -p .build
	@$(BIN)/python -m bench.qstat_parse; parse=$$?; \
	$(BIN)/python -m bench.accounting --json .build/accounting.json; accounting=$$?; \
	$(BIN)/python -m bench.transfer --json .build/figures.json && [ $$parse$$accounting = 00 ]

format: $(VENV)/ready
	$(BIN)/ruff format $(wildcard $(SOURCES))
	$(BIN)/ruff check --fix $(wildcard $(SOURCES))

clean:
	rm -rf $(VENV) .build build dist docs/_build *.egg-info
	find gridbridge tests bench lab -name __pycache__ -prune -exec rm -rf {} +
