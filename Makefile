# The two commands for newcomers are `make demo` and `make test`; both set up everything they need.
SHELL := /bin/bash
PYTHON_IN_VENV := .venv/bin/python
SEEDS ?= 10000
EXAMPLES ?= 20
# Tests start many processes; without compiled files each of them would compile Headgate anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test places check format reference docs screens wheel explore sim search bench bench-full clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with all dependencies, and check for Java
	@scripts/setup

demo: setup ## see Headgate at work on a lake in a temporary directory
	@.venv/bin/headgate demo

test: check ## everything: format, lint, types, layers, and all tests
	@.venv/bin/pytest -n 2 --dist worksteal -m "slow and not places"

places: setup ## Spark in other places: HDFS and S3 connectors from Maven, a standalone cluster, interrupted drivers
	@.venv/bin/pytest -m places

check: setup ## the fast part: format, lint, types, layers, and the tests that take seconds
	@.venv/bin/ruff format --check --quiet . || { echo "run make format"; exit 1; }
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --config pyproject.toml > .import-linter.log 2>&1 || { cat .import-linter.log; exit 1; }
	@.venv/bin/pytest -n 2 --dist worksteal -m "not slow"

format: setup ## format the code
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .

reference: setup ## write the pages of docs/reference anew, from the code
	@$(PYTHON_IN_VENV) -m scripts.reference

docs: ## build the documentation site in ./site, and check its links
	@scripts/setup docs
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet && echo "site/index.html"

screens: setup ## take the pictures of the terminal in docs/screens anew
	@$(PYTHON_IN_VENV) -m scripts.screens

wheel: setup ## build the wheel, install it into a clean environment, and run the quickstart there
	@scripts/try-wheel

explore: setup ## every interleaving of the commit protocols, as a table
	@$(PYTHON_IN_VENV) -m headgate.testing.exploration_report

sim: setup ## simulate writers on a faulty storage: make sim SEEDS=100000
	@$(PYTHON_IN_VENV) -m headgate.testing.simulation --seeds $(SEEDS)

search: setup ## property tests with new random examples, many times as many: make search EXAMPLES=100
	@HEADGATE_EXAMPLES=$(EXAMPLES) .venv/bin/pytest -n 2 --dist worksteal -m hypothesis --timeout 0

bench: ## Headgate beside its peers with small sizes, and docs/benchmarks.md of it: minutes
	@scripts/setup bench
	@$(PYTHON_IN_VENV) -m benchmarks.run $(SECTIONS)

bench-full: ## the same with the sizes that docs/benchmarks.md promises: hours
	@scripts/setup bench
	@$(PYTHON_IN_VENV) -m benchmarks.run --full $(SECTIONS)

clean: ## remove what setup and the tests made
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import-linter.log .bench build dist site
