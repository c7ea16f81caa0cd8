# The commands of CONTRIBUTING.md. Each does its own set-up; as root they use the real lab.
SHELL := /bin/sh
PYTHON := /usr/bin/python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := gridbridge tests bench lab docs
SHELL_FILES = $(shell grep -L '^\#!.*python' $(wildcard sge-methods/* oar-hooks/* conf/bootstrap/* conf/stores/* debian/p* bench/*.sh gridbridge/batch/*.sh gridbridge/batch/oar/*.sh tools/* lab/apart))
LABS := $(shell n=$$(nproc); echo $$((n < 8 ? n + 1 : 9)))
# A second chance, which the end of a run tells of. A test out of time has none: nothing would end it then.
AGAIN := -raR --reruns 1 --rerun-except RanTwice --rerun-except 'Timeout .>'
IN_LABS := -n $(LABS) --dist loadgroup --no-loadscope-reorder --max-worker-restart 0 $(AGAIN)
OF_LABS := tests/contract tests/lab # each worker collects these alone
WAITING := $(shell echo $$(($(LABS) + 1)))  # workers of tests that mostly wait
JUNIT := .build/junit
PYTEST := $(BIN)/pytest -q
BUDGET_MIN := 30
LONG_BUDGET_MIN := 120
export PIP_DISABLE_PIP_VERSION_CHECK := 1

SIDE_BY_SIDE = $(MAKE) --no-print-directory -j 3
stage = $(PYTEST) --junitxml=$(JUNIT)/$(1).xml
define reported # run a target, and tell where its minutes went
	@rm -rf $(JUNIT) && mkdir -p $(JUNIT) && touch $(JUNIT)/began
	@$(MAKE) --no-print-directory $(1); status=$$?; \
	$(BIN)/python -m tests.minutes --budget $(2) && exit $$status
endef

.PHONY: check static units units-elsewhere docs browser wheel deb test test-stages test-embedded test-as-root test-apart labs test-long test-long-stages test-long-as-root test-lab demo picture lab bench clean format
.DELETE_ON_ERROR:

$(VENV)/ready: setup.cfg
	@tools/debian-packages python3-venv make
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test,check,docs]'
	touch $@

OF := # a folder of the package: `make check OF=campaigns` runs its unit tests alone
ifneq (,$(OF))
ifeq (,$(wildcard tests/$(OF)/))
$(error OF='$(OF)': no folder of tests; expected one of $(notdir $(patsubst %/__init__.py,%,$(wildcard gridbridge/*/__init__.py))))
endif
endif

check: $(VENV)/ready ## format, lint, types, import contracts, unit tests
	@$(SIDE_BY_SIDE) static units

static: $(VENV)/ready
	$(BIN)/ruff format --check $(wildcard $(SOURCES))
	$(BIN)/ruff check $(wildcard $(SOURCES))
	$(BIN)/shellcheck $(SHELL_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports

UNITS = -n auto -m 'not killing and not apart and not browser and not lab and not lab_lifecycle and not root and not long'
units: $(VENV)/ready
	$(call stage,check) $(UNITS) $(if $(OF),$(wildcard tests/$(OF) tests/decisions/$(OF) tests/model/$(OF)))

units-elsewhere: $(VENV)/ready # as on a machine with other accounts, locale, umask, time zone, hostname and folder
	tools/elsewhere $(BIN)/python -m pytest -q --junitxml=$(JUNIT)/check.xml $(AGAIN) $(UNITS)

wheel: $(VENV)/ready ## a wheel with all that a site needs, in .build/wheel
	@tools/wheel .build/wheel
	@ls $(CURDIR)/.build/wheel/*

deb: $(VENV)/ready ## the Debian package, in .build/deb
	@tools/debian-packages lintian
	@rm -rf .build/deb
	@package=$$(tools/deb .build/deb) && lintian --allow-root --fail-on error "$$package" && echo "$(CURDIR)/$$package"

lab: $(VENV)/ready ## the lab, with gridbridge installed, set up and running
	lab/lab up
	tools/install "$$(lab/lab path opt)"
	tools/lab-site $(WITHOUT_RUNNER)

PARTS := transfer campaign elastic rebalance
PART :=
ifneq (,$(filter-out $(PARTS),$(PART))$(word 2,$(PART)))
$(error PART='$(PART)': not a part of the demo; expected one of $(PARTS))
endif
IS_ROOT := $(filter 0,$(shell id -u))
demo: $(if $(IS_ROOT),lab,$(VENV)/ready) ## alice floods alpha, the overflow crosses; a campaign fills three clusters; alpha grows and shrinks; tasks and data are moved; PART=transfer, campaign, elastic or rebalance plays one
	@$(if $(IS_ROOT),,lab/apart )$(BIN)/python lab/demo.py$(if $(IS_ROOT),, --embedded)$(PART:%= --part %)

picture: $(if $(IS_ROOT),lab,$(VENV)/ready) ## docs/static/demo.svg, the README's picture, of a run of make demo PART=transfer
	@$(if $(IS_ROOT),,lab/apart )$(BIN)/python lab/demo.py$(if $(IS_ROOT),, --embedded) --part transfer | \
	$(BIN)/python lab/picture.py docs/static/demo.svg 'make demo PART=transfer'

docs: $(VENV)/ready ## the pages in build/html and the man pages in build/man, warnings as errors
	@tools/debian-packages graphviz
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs build/html
	$(BIN)/sphinx-build -E -W --keep-going -q -b man docs build/man

test: ## all of it but what is long; without root all that needs none
	$(call reported,test-stages,$(BUDGET_MIN))

test-long: ## what takes long and seldom finds more: kills, races to 20 wins, full disks, lost nodes
	$(call reported,test-long-stages,$(LONG_BUDGET_MIN))

test-lab: $(VENV)/ready ## the lab's own tests
	$(PYTEST) -m lab_lifecycle tests/lab/gridlab

test-stages: $(VENV)/ready
	@if [ "$$(id -u)" -eq 0 ]; then $(MAKE) --no-print-directory test-as-root; else \
	$(SIDE_BY_SIDE) static units-elsewhere docs && \
	$(MAKE) --no-print-directory test-embedded && \
	echo "left out, for they need root: the tests marked root, lab and lab_lifecycle"; fi

test-embedded: browser
	$(call stage,embedded) -n $(WAITING) $(AGAIN) -m '(killing or apart or browser) and not root and not long'

test-as-root: # what mostly waits, and the labs, are made beside the units
	$(call stage,smoke) -m 'lab_lifecycle and smoke' tests/lab/gridlab
	@$(SIDE_BY_SIDE) test-apart units-elsewhere static docs labs
	$(call stage,lab) -m 'lab and not long' $(IN_LABS) $(OF_LABS)

browser: # opens the page of gridbridge page
	@tools/debian-packages chromium

test-apart: browser # these, on embedded clusters, mostly wait
	$(call stage,root) -n $(WAITING) $(AGAIN) -m '(killing or apart or browser or root) and not twin and not lab and not lab_lifecycle and not long'

labs:
	tools/labs $(LABS)

test-long-stages: $(VENV)/ready
	$(call stage,long) -n $$((2 * $(WAITING))) -m '(long or twin) and not lab'
	$(call stage,search) -n auto -m 'hypothesis and not lab and not root' --hypothesis-profile search
	@if [ "$$(id -u)" -eq 0 ]; then $(MAKE) --no-print-directory test-long-as-root; else \
	echo "left out, for they need root: the tests marked lab"; fi

test-long-as-root: labs
	$(call stage,lab-long) -m 'lab and long' $(IN_LABS) $(OF_LABS)

bench: WITHOUT_RUNNER := --without-runner
BRIEF :=
export BRIEF
FIGURES = .build$(if $(filter 1,$(BRIEF)),/brief)
bench: lab ## what a transfer and a campaign cost, in the lab; fails when a target of docs/reference/figures.md is missed; BRIEF=1 measures small sizes, in eleven minutes
	@mkdir -p $(FIGURES)
	@$(BIN)/python -m bench.simulation --json $(FIGURES)/simulation.json; simulation=$$?; \
	$(BIN)/python -m bench.elastic_replay --json $(FIGURES)/elastic_replay.json; replay=$$?; \
	$(BIN)/python -m bench.elastic --json $(FIGURES)/elastic.json; elastic=$$?; \
	$(BIN)/python -m bench.join --json $(FIGURES)/join.json; join=$$?; \
	$(BIN)/python -m bench.rebalance --json $(FIGURES)/rebalance.json; rebalance=$$?; \
	$(BIN)/python -m bench.looks --json $(FIGURES)/looks.json; looks=$$?; \
	$(BIN)/python -m bench.qstat_parse; parse=$$?; \
	$(BIN)/python -m bench.accounting --json $(FIGURES)/accounting.json; accounting=$$?; \
	$(BIN)/python -m bench.campaign --json $(FIGURES)/campaign.json brought cycle kept_tasks locks ledger reading sending injected questions harvest short_tasks executor; campaign=$$?; \
	$(BIN)/python -m bench.transfer --json $(FIGURES)/figures.json && [ $$simulation$$replay$$elastic$$join$$rebalance$$looks$$parse$$accounting$$campaign = 000000000 ]

format: $(VENV)/ready
	$(BIN)/ruff format $(wildcard $(SOURCES))
	$(BIN)/ruff check --fix $(wildcard $(SOURCES))

clean:
	rm -rf $(VENV) .build build dist docs/_build *.egg-info
	find gridbridge tests bench lab -name __pycache__ -prune -exec rm -rf {} +
