# The two commands for newcomers are `make demo` and `make test`; both set up everything they need.
SHELL := /bin/bash
PYTHON_IN_VENV := .venv/bin/python
SEEDS ?= 10000
EXAMPLES ?= 20
NIGHT ?= $(shell date +%Y%m%d)
# Tests start many processes; without compiled files each of them would compile Headgate again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test nightly places check lint format reference docs screens wheel explore sim search bench bench-full clean

help: ## list the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv with all dependencies, and check for Java
	@scripts/setup

demo: setup ## run a demonstration on a lake in a temporary directory
	@.venv/bin/headgate demo

test: lint ## run everything: format, lint, types, layers and all tests; lists the 30 slowest tests
	@.venv/bin/pytest -n 2 --dist loadgroup --durations 30 -m "not places and not nightly"

nightly: setup ## larger versions of the tests: large explorations, long histories, new seeds each night
	@echo "make nightly NIGHT=$(NIGHT) tries the same again"
	@HEADGATE_NIGHT=$(NIGHT) .venv/bin/pytest -n 2 --dist loadgroup -m nightly --timeout 3600 --hypothesis-seed $(NIGHT)

places: setup ## Spark in other environments: HDFS and S3 connectors from Maven, a standalone cluster, interrupted drivers
	@.venv/bin/pytest -m places

check: lint ## run the fast part: format, lint, types, layers, and the tests that take seconds
	@.venv/bin/pytest -n 2 --dist loadgroup --durations 30 -m "not slow and not places and not nightly"

lint: setup ## check only format, lint, types and layers
	@.venv/bin/ruff format --check --quiet . || { echo "run make format"; exit 1; }
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --config pyproject.toml > .import-linter.log 2>&1 || { cat .import-linter.log; exit 1; }

format: setup ## format the code
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .

reference: setup ## regenerate docs/reference and the diagram of the packages from the code
	@$(PYTHON_IN_VENV) -m scripts.reference
	@$(PYTHON_IN_VENV) -m scripts.packages

docs: ## build the documentation site in ./site, and check its links
	@scripts/setup docs
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet && echo "site/index.html"

screens: setup ## regenerate the terminal pictures in docs/screens
	@$(PYTHON_IN_VENV) -m scripts.screens

wheel: setup ## build the wheel, install it into a clean environment, and run the quickstart there
	@scripts/try-wheel

explore: setup ## run every interleaving of the commit protocols, and print a table
	@$(PYTHON_IN_VENV) -m tests.exploration.report

sim: setup ## simulate writers on a faulty storage: make sim SEEDS=100000
	@$(PYTHON_IN_VENV) -m headgate.testing.simulation --seeds $(SEEDS)

search: setup ## run the property tests with many more random examples: make search EXAMPLES=100
	@HEADGATE_EXAMPLES=$(EXAMPLES) .venv/bin/pytest -n 2 --dist worksteal -m hypothesis --timeout 0

bench: ## compare Headgate with other systems at small sizes, and write docs/benchmarks.md: takes minutes
	@scripts/setup bench
	@$(PYTHON_IN_VENV) -m benchmarks.run $(SECTIONS)

bench-full: ## the same at the full sizes of docs/benchmarks.md: takes hours
	@scripts/setup bench
	@$(PYTHON_IN_VENV) -m benchmarks.run --full $(SECTIONS)

clean: ## remove the files that setup and the tests created
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import-linter.log .bench build dist site
