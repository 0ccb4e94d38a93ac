# Everything from a fresh machine that has only Python (3.11 or later) and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check install clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: install          ## discover the digits 5-9 knowing only 0-4
	$(BIN)/newkinds demo

test: install          ## the whole test suite
	$(BIN)/python -m pytest

check: install         ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf .venv dist build newkinds-demo
