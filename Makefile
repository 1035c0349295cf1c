# `make check` is all that must pass; it makes .venv if there is none. Another Python: make check PYTHON=python3.12,
# then with everything of `pip install '.[test]'` installed already.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(if $(filter $(VENV)/bin/python,$(PYTHON)),$(VENV)/.ready)

.PHONY: check lint types test long format docs bench clean
.DEFAULT_GOAL := check

# The types are checked while the tests begin.
check:
	$(MAKE) --no-print-directory -j 2 lint types test

lint: $(READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -c 'import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())'

types: $(READY)
	$(PYTHON) -m mypy

# A test that hangs fails. A worker that crashes ends the run, as xdist would wait for ever for the tests that it had.
test: $(READY)
	$(PYTHON) -m pytest -q -n 2 --dist loadgroup --timeout 300 --max-worker-restart 0 -m "not long"

long: $(READY)
	$(PYTHON) -m pytest -q -n 2 --dist loadgroup -m long

format: $(READY)
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

docs: $(READY)
	$(PYTHON) -m pip install -q 'pdoc>=16'
	$(PYTHON) -m pdoc -d markdown -o docs/api bridge bridge.query bridge.errors nfa

bench: $(READY)
	$(PYTHON) -m benchmarks

clean:
	rm -rf build dist docs/api *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find bridge windows nfa tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	python3 -m venv $(VENV)

# Editable, so that what is tested is what is being edited.
$(VENV)/.ready: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install -q -e '.[test]'
	touch $@
