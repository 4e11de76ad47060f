# Three commands matter: `make demo`, `make up` and `make test`. Each target sets up what it needs in .venv, quickly the second time.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests start many interpreters: without compiled modules each of them compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo up test lint protos bench soak clean requirements

setup: $(READY)

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "headwater needs Python 3.11 or newer: install it, or name it with 'make PYTHON=/path/to/python3.11'." >&2; exit 2; }
	@echo "Setting up $(VENV): an environment …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
	@echo "Setting up $(VENV): $$(grep -c '==' requirements.txt) packages, a minute when they are downloaded …"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.txt
	@echo "Setting up $(VENV): compiling them …"
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)
	@$(BIN)/headwater demo

up: $(READY)
	@$(BIN)/headwater up

test: $(READY)
	@$(BIN)/pytest --numprocesses 2 --no-loadscope-reorder

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python proto/generate.py --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache > $(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

protos: $(READY)
	@$(BIN)/python proto/generate.py

bench: $(READY)
	@$(BIN)/python -m bench

soak: $(READY)
	@HEADWATER_SOAK=1 $(BIN)/pytest --timeout 3600

requirements: $(READY)
	@$(BIN)/uv pip compile pyproject.toml --all-extras --generate-hashes --no-emit-index-url --no-header --quiet \
	  --python-version 3.11 -o requirements.txt

clean:
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
