# On a fresh machine with Python 3.11 or newer: `make demo`, `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test check unit stress bench coverage procedures study clusters pictures docs clean

demo: $(VENV)/.run
	$(BIN)/baserate demo

test: check unit

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not stress" -n auto --dist loadfile --cov --cov-report=term

stress: $(VENV)/.dev
	$(BIN)/python -m pytest -m stress tests
	BASERATE_KERNELS=always BASERATE_CASES=30 $(BIN)/python -m pytest tests/test_theorems.py tests/test_feasibility.py tests/test_sets_of_rates.py
	BASERATE_KERNELS=off $(BIN)/python -m pytest tests/test_theorems.py tests/test_feasibility.py tests/test_sets_of_rates.py

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py --docs
	$(BIN)/python benchmarks/dataframes.py --docs
	$(BIN)/python benchmarks/files.py --docs

coverage: $(VENV)/.dev
	$(BIN)/python benchmarks/interval_coverage.py --docs

procedures: $(VENV)/.run
	$(BIN)/python benchmarks/procedures.py --docs

# Trains the models of the corpus, adjusts their predictions, and writes docs/study; what is done is not done again.
study: $(VENV)/.study
	$(BIN)/baserate study --out .study --pages docs/study

# Runs the page about clusters on Spark (which needs Java) and on Ray.
clusters: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e ".[clusters]"
	$(BIN)/python -m pytest tests/test_cluster_docs.py

pictures: $(VENV)/.dev
	$(BIN)/python examples/uncertain_rates.py --out docs/uncertain-rates.svg
	$(BIN)/python examples/displays.py --out docs/pictures
	$(BIN)/python examples/report.py --out docs/pictures
	$(BIN)/python examples/readme_demo.py

# The site, in docs/_build/html. From nothing, so that no page is left of what is gone; a warning is an error.
docs: $(VENV)/.docs
	rm -rf docs/_build docs/api
	$(BIN)/python -m sphinx -q -n -W --keep-going -b html docs docs/_build/html

# The demo needs only what a user installs; the checks need the development tools as well.
$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[report]"
	touch $@

$(VENV)/.study: $(VENV)/.run
	$(BIN)/python -m pip install --quiet -e ".[study]"
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $@

$(VENV)/.docs: $(VENV)/.run
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	touch $@

$(VENV)/.bench: $(VENV)/.run
	$(BIN)/python -m pip install --quiet -e ".[dev,peers]"
	touch $@

clean:
	rm -rf docs/_build docs/api $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
