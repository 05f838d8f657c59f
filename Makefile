# On a fresh machine with Python 3.11 or newer: `make demo`, `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The lowest versions have no wheels for the newest Python, so `make test-min` needs the oldest one.
PYTHON_MIN ?= python3.11
VENV_MIN ?= .venv-min
VENV_DIST ?= .venv-dist
VENV_TORCH ?= .venv-torch
VENV_CLUSTERS ?= .venv-clusters
VENV_STORES ?= .venv-stores

# Empty is the default of Python. Where it is set, as in many containers, each of the hundreds of processes that the
# tests start compiles all modules again, because the packages are installed without bytecode.
export PYTHONDONTWRITEBYTECODE :=
# Without bytecode, which Python writes for the modules that it imports. pip would compile all 20,000 of them.
INSTALL := -m pip install --quiet --no-compile

.PHONY: demo test check lint types unit branches test-min dist stress mutants fuzz bench scale bench-check coverage compare-coverage betting-coverage certify-coverage estimate-coverage estimate-downstream test-torch test-app gpu procedures study test-clusters test-stores pictures docs clean

demo: $(VENV)/.run
	$(BIN)/baserate demo

# The type checker runs beside the tests, some of which wait for processes or servers.
test: lint
	$(MAKE) --jobs=2 types unit

check: lint types

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

# One core per worker: the threads of BLAS and OpenMP in one worker would wait for those of the others.
ONE_CORE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# Each file on one worker, since fixtures are shared within files; in the order of tests/conftest.py.
BY_FILE := -n auto --dist loadfile --no-loadscope-reorder
unit: $(VENV)/.dev
	$(ONE_CORE) $(BIN)/python -m pytest -m "not stress" $(BY_FILE)

# The same with branch coverage, which makes the tests half as fast again.
branches: $(VENV)/.dev
	$(ONE_CORE) $(BIN)/python -m pytest -m "not stress" $(BY_FILE) --cov --cov-report=term

# The core on the lowest versions that pyproject.toml allows. The study is left out: it needs solvers and data sets.
MIN_TESTS := adjust commands dask displays engines estimators dataframes intervals kernels losses rates report result \
	newton tables theorems
# Not errors here, unlike in `make test`: an old package may use what a newer one of its own dependencies has
# deprecated, and SciPy's SLSQP, which some tests compare with, warns more often before SciPy 1.16.
MIN_WARNINGS := -W ignore::DeprecationWarning -W "ignore:Values in x were outside bounds:RuntimeWarning"
test-min: $(VENV_MIN)/.done
	$(ONE_CORE) $(VENV_MIN)/bin/python -m pytest -m "not stress" -n auto --dist loadfile $(MIN_WARNINGS) \
		--deselect tests/test_commands.py::test_bench_study_demo_version_help_and_completion $(MIN_TESTS:%=tests/test_%.py)

# Tensors without a GPU, in an environment of its own: torch for the CPU, and Triton's interpreter, which runs the same
# kernels. Without the settings of tests/conftest.py, which need the study.
TORCH_TESTS := tests/test_torch.py tests/test_torch_layer.py tests/test_triton.py tests/test_triton_newton.py
test-torch: $(VENV_TORCH)/.done
	$(ONE_CORE) TRITON_INTERPRET=1 $(VENV_TORCH)/bin/python -m pytest --noconftest -m "not stress" -n auto $(TORCH_TESTS)
	$(ONE_CORE) $(VENV_TORCH)/bin/python -m pytest src/baserate/torch docs/gpu.md

# The page in the browser, with axe-core from npm, which checks accessibility, and with the long tests.
AXE := .axe/node_modules/axe-core/axe.min.js
test-app: $(VENV)/.dev $(AXE)
	BASERATE_AXE=$(AXE) $(BIN)/python -m pytest tests/test_app.py tests/test_app_forms.py tests/test_app_security.py tests/test_app_downloads.py tests/test_app_states.py tests/test_app_large.py

$(AXE):
	npm install --no-fund --no-audit --prefix .axe axe-core@4

# On a machine with a GPU, with the torch, Triton and pytest that are there: 2500 random problems, then the benchmark.
gpu:
	PYTHONPATH=src $(PYTHON) -m pytest --noconftest $(TORCH_TESTS)
	PYTHONPATH=src $(PYTHON) benchmarks/gpu.py

# Builds both distributions in dist/, and tries the wheel in an environment that has nothing else: first without
# extras, which finds dependencies that are not declared, then with files. -I keeps the source tree off the path.
dist: $(VENV)/.dist
	rm -rf dist $(VENV_DIST)
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tools/check_wheel.py dist/*.whl
	$(PYTHON) -m venv $(VENV_DIST)
	$(VENV_DIST)/bin/python $(INSTALL) dist/*.whl
	cd $(VENV_DIST) && bin/python -I $(CURDIR)/tools/smoke_test.py
	$(VENV_DIST)/bin/python $(INSTALL) "$$(echo dist/*.whl)[files]"
	cd $(VENV_DIST) && bin/python -I $(CURDIR)/tools/smoke_test.py

# BASERATE_CASES multiplies the random cases of the tests. `make test` runs a quarter of them.
THEOREMS := $(patsubst %,tests/test_%.py,theorems feasibility sets_of_rates)
RANDOM := $(filter-out $(THEOREMS),$(shell grep -lE "number_of_cases|@cases" tests/test_*.py))
stress: $(VENV)/.dev
	BASERATE_CASES=1 $(BIN)/python -m pytest -m stress tests
	BASERATE_CASES=1 $(BIN)/python -m pytest -m "not stress" $(RANDOM)
	BASERATE_KERNELS=always BASERATE_CASES=30 $(BIN)/python -m pytest $(THEOREMS)
	BASERATE_KERNELS=off BASERATE_CASES=1 $(BIN)/python -m pytest $(THEOREMS)

# Makes many small changes to the solver, and counts how many the tests notice; about an hour on two cores.
mutants: $(VENV)/.mutants
	BASERATE_CASES=1 $(BIN)/python tools/mutants.py

# Random and adversarial problems, whose answers are checked by formulas of our own; about two minutes on two cores.
CASES ?= 6000
SEED ?= 1
SECONDS ?= 600
fuzz: $(VENV)/.dev
	$(BIN)/python tools/fuzz.py --cases $(CASES) --seed $(SEED) --seconds $(SECONDS)

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py --docs
	$(BIN)/python benchmarks/dataframes.py --docs
	$(BIN)/python benchmarks/files.py --docs
	$(BIN)/python benchmarks/many_classes.py --docs
	$(BIN)/python benchmarks/groups.py --docs
	$(BIN)/python benchmarks/group_files.py --docs
	$(BIN)/python benchmarks/estimation.py --docs
	$(BIN)/python benchmarks/app.py --docs

# The tables of docs/scale.md, in the environment of Spark and Dask; about 10 minutes on two cores.
scale: $(VENV_CLUSTERS)/.done
	$(VENV_CLUSTERS)/bin/python $(INSTALL) -e ".[fast]"
	$(VENV_CLUSTERS)/bin/python benchmarks/scale.py files links classes driver spark-1 spark-2 dask-1 dask-2 dask-4 --docs

# A few ratios, compared with those in benchmarks/ratios.json; fails if one is more than 25 % worse.
bench-check: $(VENV)/.dev
	$(BIN)/python benchmarks/check.py

coverage: $(VENV)/.dev
	$(BIN)/python benchmarks/interval_coverage.py --docs

# How often the intervals of br.compare contain the effect; about 12 minutes on one core.
compare-coverage: $(VENV)/.dev
	$(BIN)/python tools/compare_coverage.py

# How often sets of rates from labelled rows contain the rates; about 20 minutes on one core.
betting-coverage: $(VENV)/.dev
	$(BIN)/python tools/betting_coverage.py

# How often the bound of certify(...).for_population() is correct; about 3 minutes on one core.
certify-coverage: $(VENV)/.dev
	$(BIN)/python tools/certify_coverage.py

# How often the sets of br.estimate contain the rates, on real predictions in BASERATE_DATA.
estimate-coverage: $(VENV)/.dev
	$(BIN)/python tools/estimate_coverage.py

# What estimated rates do to the loss, with label shift true and violated; about 5 minutes on one core.
estimate-downstream: $(VENV)/.dev
	$(BIN)/python tools/estimate_downstream.py

procedures: $(VENV)/.run
	$(BIN)/python benchmarks/procedures.py --docs

# Trains the models of the corpus, adjusts their predictions, and writes docs/study; what is done is not done again.
study: $(VENV)/.study
	$(BIN)/baserate study --out .study --pages docs/study

# Spark (which needs Java) and Ray on this machine, in an environment of its own, since both constrain other packages.
# Without the settings of tests/conftest.py, which need the study. Every loss, every kind of rates, groups, weights and
# the death of an executor, on both at the same time; with STRESS=1 all tests of clusters, one after the other.
TEST_CLUSTERS := $(ONE_CORE) $(VENV_CLUSTERS)/bin/python -m pytest --noconftest tests/test_clusters.py
test-clusters: $(VENV_CLUSTERS)/.done
ifdef STRESS
	$(TEST_CLUSTERS) -k "not plain"
else
	$(TEST_CLUSTERS) -m short -k ray & ray=$$!; $(TEST_CLUSTERS) -m short -k spark; spark=$$?; wait $$ray && exit $$spark
endif

# Google Cloud Storage and Azure Blob Storage: servers on this machine that answer like them, from PyPI and from npm.
AZURITE := .azurite/node_modules/.bin/azurite-blob
test-stores: $(VENV_STORES)/.done $(AZURITE)
	$(ONE_CORE) BASERATE_AZURITE=$(AZURITE) $(VENV_STORES)/bin/python -m pytest --noconftest tests/test_cloud_stores.py

$(AZURITE):
	npm install --no-fund --no-audit --prefix .azurite azurite@3

pictures: $(VENV)/.dev
	$(BIN)/python examples/uncertain_rates.py --out docs/uncertain-rates.svg
	$(BIN)/python examples/landing.py --out docs/pictures/landing.svg
	$(BIN)/python examples/curves.py --out docs/pictures
	$(BIN)/python examples/displays.py --out docs/pictures
	$(BIN)/python examples/report.py --out docs/pictures
	$(BIN)/python examples/app.py --out docs/pictures
	$(BIN)/python examples/flights.py --out docs/pictures
	$(BIN)/python examples/readme_demo.py

# The site, in docs/_build/html. From nothing, so that no page is left of what is gone; a warning is an error. First
# spelling and language, then the site with the gallery (a few minutes), then links, weights and widths of all pages.
docs: $(VENV)/.docs
	$(BIN)/codespell
	$(BIN)/python tools/prose.py
	rm -rf docs/_build docs/api docs/auto_gallery
	$(BIN)/python -m sphinx -q -n -W --keep-going -b html docs docs/_build/html
	$(BIN)/python tools/check_site.py docs/_build/html

# An environment with a new pip. Each file below stands for a list of extras that is installed in it.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade pip

# The demo needs only what a user installs.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(BIN)/python $(INSTALL) -e ".[report]"
	touch $@

EXTRAS := $(addprefix $(VENV)/.,study dev mutants dist docs)
$(EXTRAS): $(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python $(INSTALL) -e ".[$*]"
	touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/python $(INSTALL) -e ".[dev,peers]"
	touch $@

# pandas, polars and skops are what these tests use; joblib and tqdm are what conftest.py imports with the study.
$(VENV_MIN)/.done: pyproject.toml tools/lowest_versions.py
	$(PYTHON_MIN) -m venv --clear $(VENV_MIN)
	$(VENV_MIN)/bin/python tools/lowest_versions.py fast files dask report test > $(VENV_MIN)/constraints.txt
	$(VENV_MIN)/bin/python $(INSTALL) --upgrade pip
	$(VENV_MIN)/bin/python $(INSTALL) --constraint $(VENV_MIN)/constraints.txt \
		-e ".[fast,files,dask,report]" pandas polars skops joblib tqdm pytest pytest-xdist hypothesis
	touch $@

# A pinned build for the CPU, so that the tests do not depend on the newest release, and need no CUDA libraries. The
# packages for ONNX run the exported layer, and JAX shares arrays.
$(VENV_TORCH)/.done: pyproject.toml
	$(PYTHON) -m venv $(VENV_TORCH)
	$(VENV_TORCH)/bin/python $(INSTALL) --upgrade pip
	$(VENV_TORCH)/bin/python $(INSTALL) -e ".[fast]" torch==2.13.0 triton onnx onnxscript onnxruntime jax \
		pytest pytest-xdist hypothesis
	touch $@

# hypothesis is what tests/support.py imports; cloudpickle, which the tests use, comes with Dask. Spark is published as
# source, of which pip builds a wheel. To compress its 400 MB, and to expand them at once, takes longer than all the rest.
$(VENV_CLUSTERS)/.done: pyproject.toml
	$(PYTHON) -m venv $(VENV_CLUSTERS)
	$(VENV_CLUSTERS)/bin/python $(INSTALL) --upgrade pip
	printf '[bdist_wheel]\ncompression = stored\n' > $(VENV_CLUSTERS)/build.cfg
	DIST_EXTRA_CONFIG=$(abspath $(VENV_CLUSTERS))/build.cfg \
		$(VENV_CLUSTERS)/bin/python $(INSTALL) -e ".[spark,ray,dask]" pytest hypothesis
	touch $@

$(VENV_STORES)/.done: pyproject.toml
	$(PYTHON) -m venv $(VENV_STORES)
	$(VENV_STORES)/bin/python $(INSTALL) --upgrade pip
	$(VENV_STORES)/bin/python $(INSTALL) -e ".[cloud,onnx,report]" gcp-storage-emulator pytest hypothesis
	touch $@

clean:
	rm -rf docs/_build docs/api docs/auto_gallery dist $(VENV) $(VENV_MIN) $(VENV_DIST) $(VENV_TORCH) $(VENV_CLUSTERS) $(VENV_STORES) .axe .azurite .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
