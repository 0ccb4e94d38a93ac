# Everything from a fresh machine that has only Python (3.11 or later) and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test quick check web install clean

help:      ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*##/make \1\t/'

demo: install      ## discover the digits 5-9 knowing only 0-4: the main job
	$(BIN)/newkinds demo

test: install      ## every test
	$(BIN)/python -m pytest -n auto --dist worksteal

quick: install     ## the tests for daily work
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

check: install     ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

web:       ## build the front end of the pages (needs Node 20 or later)
	cd web && npm ci --no-audit --no-fund && npm run build

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:     ## remove what was made
	rm -rf .venv dist build newkinds-demo web/node_modules
