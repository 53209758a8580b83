# Every door of the project. `make` alone lists them.
#
# What a door needs is installed into .venv by the rule below, once, and again when pyproject.toml changes.

VENV := .venv
PYTHON := $(VENV)/bin/python
PYTHONS ?= python3 python3.13 python3.12 python3.11
# How many processes run the tests. Each takes whole files, in their order: the fixtures of a file are made once, some
# files have a last test that asks what the others did, and many short files come last, so that all end together.
WORKERS ?= 2

EXTRAS_demo := fast
EXTRAS_test := postgres,fast,serve,test
EXTRAS_check := postgres,fast,serve,test,check
EXTRAS_bench := postgres,fast,test,bench
EXTRAS_soak := postgres,fast,test

.DEFAULT_GOAL := help
.PHONY: help demo test heavy proof check fix bench soak docs clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.has-demo ## see the whole path work, on a throw-away database, with nothing to set up
	@$(VENV)/bin/duly demo

test: $(VENV)/.has-test ## run the tests but those of heavy and proof, on SQLite and PostgreSQL; core and flows need full branch coverage
	@$(PYTHON) -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder --cov --cov-report=
	@echo "Coverage of every room, for your information:"
	@$(PYTHON) -m coverage report --skip-covered
	@echo "Coverage of core and flows, which must be whole:"
	@$(PYTHON) -m coverage report --include='src/duly/core/*,src/duly/flows/*' --skip-covered --show-missing --fail-under=100

heavy: $(VENV)/.has-test ## run the tests that take longer than ten seconds each
	@$(PYTHON) -m pytest -m heavy

proof: $(VENV)/.has-test ## go through every zone and every change of its clocks, which takes minutes
	@$(PYTHON) -m pytest -m proof

check: $(VENV)/.has-check ## ruff, mypy, import rules and the tests that keep the house tidy
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@$(VENV)/bin/lint-imports --no-logo
	@$(PYTHON) -m pytest --quiet tests/tidy tests/test_imports.py

fix: $(VENV)/.has-check ## let ruff mend and format what it can
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

bench: $(VENV)/.has-bench ## measure; make bench ARGS="--help" lists what can be chosen
	@$(PYTHON) -m bench $(ARGS)

soak: $(VENV)/.has-soak ## kill it for a while and see whether anything is lost or sent twice; make soak ARGS="--help"
	@$(PYTHON) -m soak $(ARGS)

docs: $(VENV)/.has-demo ## write the generated pages again
	@for page in tools/*_page.py; do $(PYTHON) "$$page" || exit 1; done

clean: ## remove caches and build results; the virtual environment stays
	@rm -rf .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	@find . -name .git -prune -o -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/.has-%: pyproject.toml $(VENV)/.made
	@echo "Installing duly[$(EXTRAS_$*)] into $(VENV)"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS_$*)]'
	@touch $@

$(VENV)/.made:
	@tools/make_venv.sh $(VENV) $(PYTHONS)
	@touch $@
