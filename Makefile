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
# Much of a test's time is spent waiting for servers and disks: five workers keep two cores busy. `WORKERS=0`: all in one process.
WORKERS ?= 5
# The generator of the site has no release for Python 3.10.
SITE := $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))'
# mypy refuses a folder without Python in it.
CHECKED := $(foreach d,hivesink ddl jobs tests bench,$(if $(wildcard $d/*.py),$d))

.PHONY: help venv demo cluster-up cluster-status cluster-down test suite test-long bench lint docs dist clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16
	@echo; echo 'Options: KAFKA=1 (demo), S3=1 (demo, cluster-up), SECURE=1 (demo CLUSTER=1, cluster-up), CLUSTER=1 (demo, bench), QUICK=1, WORKLOADS=narrow,wide, PEERS=spark-sink, ROWS=1000000, ROUNDS=3, EPOCHS=40 (bench), SPARK=3.5.9 or SPARK=4.3.0 (venv, test), WORKERS=5 (test), ARGS="..." (test, test-long, bench)'

venv: $(STAMP) ## Build the virtual environment from requirements.lock; nothing to do when up to date

$(STAMP): requirements.lock requirements-jvm.lock requirements-kerberos.lock setup.cfg .ci/venv
	@.ci/venv '$(VENV)' '$(SPARK)'
	@touch $@

ifeq ($(CLUSTER),compose)
demo:
	docker compose run --build --rm client
else
demo: venv ## Stream 336,776 real flights into a partitioned Hive table and query it; KAFKA=1: through a real broker; S3=1: on a real S3 server; CLUSTER=1: on the cluster of `make cluster-up`, which it starts if none runs, with SECURE=1 a secured one
	@KAFKA='$(KAFKA)' S3='$(S3)' CLUSTER='$(CLUSTER)' SECURE='$(SECURE)' $(PY) -m jobs.demo
endif

cluster-up: venv ## Start HDFS, Hive Metastore 4, HiveServer2, Kafka and Spark standalone on the loopback; S3=1: an S3 server too; SECURE=1: they ask for logins by Kerberos; they stay up
	@$(PY) -m jobs.cluster up $(if $(S3),--s3) $(if $(SECURE),--secure)

cluster-status: venv ## A line for each of those servers: name, address, process, up or down
	@$(PY) -m jobs.cluster status

cluster-down: venv ## Stop them; what they hold stays in .hivesink-cluster (or HIVESINK_CLUSTER)
	@$(PY) -m jobs.cluster down

ifeq ($(SPARK),)
test: venv ## The static checks and, beside them, the whole suite without `long`; SPARK=<version>: the main path on that Spark
	@$(MAKE) --no-print-directory -j2 lint suite

suite: venv
	$(PY) -m pytest -m 'not long' -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)
else
test: venv
	$(PY) -m pytest -m 'main_path and not long' $(ARGS)
endif

test-long: venv ## The longer runs: more kills, more states, more examples, Airflow 2 and 3 (in the cache, 1.4 GB)
	$(PY) -m pytest -m 'long or hypothesis' $(ARGS)

bench: venv ## hivesink beside Spark's and Flink's sinks, at most 3 hours: rows/s, CPU, memory, and the ratios; QUICK=1: 10 minutes; CLUSTER=1: on HDFS and Hive 4
	@CLUSTER='$(CLUSTER)' $(PY) -m bench $(ARGS)

lint: venv ## ruff, mypy --strict, import-linter, dead links in README and docs
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PY) -m mypy $(CHECKED)
	$(VENV)/bin/lint-imports
	@if $(SITE); then set -x; $(PY) -m zensical build --strict; else echo 'the docs as a site need Python 3.11: not built'; fi
	$(PY) -m pytest -q -p no:cacheprovider tests/docs/test_links.py

docs: venv ## Build the docs and the API reference as a site, in site/ (Python 3.11); to look at it: python -m http.server -d site
	@$(SITE) || { echo 'make docs: the generator needs Python 3.11 or newer; build .venv with PYTHON=python3.11' >&2; exit 1; }
	$(PY) -m zensical build --strict

dist: venv ## Build dist/: the package as a zip for --py-files, and the executors' Python environment for --archives
	@.ci/dist $(PY)

clean: ## Remove virtual environments, caches and the local data of demo and cluster (stops their servers first)
	@if [ -x .venv/bin/hivesink ] && [ -d .hivesink-local ]; then .venv/bin/hivesink metastore stop; fi
	@if [ -x .venv/bin/python ] && [ -d .hivesink-cluster ]; then .venv/bin/python -m jobs.cluster down --folder .hivesink-cluster; fi
	rm -rf .cache .venv .venv-* build dist site demo-data .hivesink-cluster .hivesink-local .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache *.egg-info
