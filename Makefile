# Every target explains itself: `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The ends of the supported range: `make test SPARK=3.5.9`, `make test SPARK=4.3.0`.
SPARK ?=
VENV := .venv$(if $(SPARK),-$(SPARK))
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
# Extra pytest arguments: `make test ARGS='-k publish'`.
ARGS ?=
# mypy refuses a folder without Python in it.
CHECKED := $(foreach d,hivesink ddl jobs tests,$(if $(wildcard $d/*.py),$d))

.PHONY: help venv demo test test-long bench lint clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12
	@echo; echo 'Options: KAFKA=1 (demo), SPARK=3.5.9 or SPARK=4.3.0 (venv, test), ARGS="..." (test, test-long, bench)'

venv: $(STAMP) ## Build the virtual environment from requirements.lock; nothing to do when up to date

$(STAMP): requirements.lock requirements-jvm.lock setup.cfg .ci/venv
	@.ci/venv '$(VENV)' '$(SPARK)'
	@touch $@

demo: venv ## Stream 336,776 real flights into a partitioned Hive table and query it; KAFKA=1: through a real broker
	@KAFKA='$(KAFKA)' $(PY) -m jobs.demo

ifeq ($(SPARK),)
test: venv lint ## The static checks and the whole suite without `long`; SPARK=<version>: the main path on that Spark
	$(PY) -m pytest -m 'not long' $(ARGS)
else
test: venv
	$(PY) -m pytest -m 'main_path and not long' $(ARGS)
endif

test-long: venv ## The longer runs: more kills, more states, more rows
	$(PY) -m pytest -m long $(ARGS)

bench: venv ## hivesink against Spark's own sinks, from Kafka and from files: rows/s, CPU, memory, and the ratios
	$(PY) -m tests.bench $(ARGS)

lint: venv ## ruff, mypy --strict, import-linter
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PY) -m mypy $(CHECKED)
	$(VENV)/bin/lint-imports

clean: ## Remove virtual environments, caches and the local demo data (stops the embedded servers first)
	@if [ -x .venv/bin/hivesink ] && [ -d .hivesink-local ]; then .venv/bin/hivesink metastore stop; fi
	rm -rf .venv .venv-* build dist .hivesink-local .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache *.egg-info
