# Every target makes its own virtual environment in .venv and says what it does.
# Nothing here needs git.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help demo test check bench gallery clean

help:
	@echo "make demo   run the demonstration; writes tconv-demo.png"
	@echo "make test   run all tests, live engines included"
	@echo "make check  ruff and mypy"
	@echo "make bench  measure speed"
	@echo "make gallery  draw the pictures of docs/gallery.md"
	@echo "make clean  remove the virtual environment and caches"

$(BIN)/python:
	@echo "== making a virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tconv needs Python 3.10 or newer")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "== installing tconv"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "== installing tconv, the test tools and the engines to compare with (some minutes)"
	@$(PIP) --editable '.[check]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	@$(BIN)/tconv demo

test: $(VENV)/.test
	@echo "== running the tests"
	@$(BIN)/python -m pytest --numprocesses=auto --dist=loadgroup $(TESTS)

check: $(VENV)/.test
	@echo "== ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy"
	@$(BIN)/mypy

bench: $(VENV)/.demo
	@$(BIN)/tconv bench

gallery: $(VENV)/.demo
	@$(BIN)/python -m tconv.explain.gallery docs

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
