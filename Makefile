SHELL := /bin/bash
PYTEST_WORKERS ?= 2
TESTFLAGS ?= -n $(PYTEST_WORKERS)
BIN := .venv/bin

# Modules and tests are compiled once, and not in every process that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-fast soak lint format schemas docs lock bench clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with all extras, and see to Java
	@scripts/setup.sh

demo: setup ## Run the demonstration
	@$(BIN)/reclaim demo

test: lint ## Lint, then run the tests that show that all works (TESTFLAGS, PYTEST_WORKERS)
	$(BIN)/python -m pytest $(TESTFLAGS) -m "not exhaustive"

test-all: test ## The same, then every planted bug, schedule, death and case on servers
	$(BIN)/python -m pytest $(TESTFLAGS) -m exhaustive

test-fast: setup ## Run the pure modules and a contract of each store, without servers and Spark
	$(BIN)/python -m pytest $(TESTFLAGS) -m "fast and not servers and not exhaustive"

soak: setup ## Run the state machines, schedules, crashes and random histories for hours
	RECLAIM_SOAK=1 $(BIN)/python -m pytest $(TESTFLAGS) -o faulthandler_timeout=0 \
		tests/policy tests/history tests/catalog tests/collect tests/terminus tests/icechunk \
		tests/schedules tests/lifecycle tests/run/test_uncommitted_scope.py tests/planted \
		tests/spark/test_random.py tests/spark/test_uncommitted.py tests/spark/test_lifecycle.py

lint: setup ## ruff, mypy, known vulnerabilities (AUDIT=strict, AUDIT=off)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@AUDIT=$(AUDIT) $(BIN)/python scripts/audit.py

format: setup ## Format, and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schemas: setup ## Write docs/schemas and docs/reference/commands.md from the program
	$(BIN)/python scripts/schemas.py
	$(BIN)/python scripts/commands.py

docs: setup ## Build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lock: ## Write constraints.txt anew from all Pythons found
	"$$(scripts/setup.sh --print-python)" scripts/lock.py

bench: setup ## Run the benchmarks
	$(BIN)/python -m bench

clean: ## Remove .venv and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
