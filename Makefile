# transcriber: `make run` sets everything up and starts the service, `make test` sets everything up
# and runs every check. Both need Python 3.11+, make and a network to the package registries.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests wait more than they compute; a file's tests stay together and share its services.
PARALLEL := -n 4 --dist loadfile

.PHONY: help setup run test lint types unit acceptance chaos bench fuzz lock clean
.DEFAULT_GOAL := help

help: ## say what the targets do
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/run.stamp ## set up and start nothing

run: ## set up and start the service (TELEGRAM_ENABLED must be given)
	@# The one setting without a default is asked for before a minute of setting up, not after.
	@test -e $(VENV)/run.stamp || test -n "$$TELEGRAM_ENABLED" || grep -qsE '^(export )?[[:space:]]*TELEGRAM_ENABLED=' .env || { \
		echo "TELEGRAM_ENABLED: must be set to true or false: whether recordings are taken from Telegram, too."; \
		echo "Once and for all: echo TELEGRAM_ENABLED=false >> .env"; exit 78; }
	@$(MAKE) --no-print-directory setup
	@exec $(BIN)/transcriber up

test: lint types unit acceptance ## set up and run every check

lint: $(VENV)/dev.stamp ## ruff over the Python, oxlint over the hooks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint --config .oxlintrc.json --deny-warnings pb pb_migrations

types: $(VENV)/dev.stamp ## mypy, strict, over worker/
	$(BIN)/mypy

unit: $(VENV)/dev.stamp ## the fast tests
	$(BIN)/pytest $(PARALLEL) tests/unit

acceptance: $(VENV)/dev.stamp ## the tests with a real PocketBase and real workers
	$(BIN)/pytest $(PARALLEL) tests/acceptance

chaos: $(VENV)/dev.stamp ## make trouble for MINUTES (2) by the dice of SEED, and have it checked; KEEP=1 keeps the folder
	$(BIN)/python -m chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(KEEP),--keep)

bench: $(VENV)/dev.stamp ## measure, and print the table of docs/performance.md
	$(BIN)/python -m benchmarks $(BENCH)

fuzz: $(VENV)/dev.stamp ## mutated media, requests, settings, updates and answers, some minutes
	$(BIN)/python -m fuzz $(FUZZ)

# --no-build-isolation: the build backend comes from the lock file too, pinned and hashed.
$(VENV)/run.stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

lock: $(VENV)/dev.stamp ## pin every dependency again, with hashes
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--extra build pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--constraint requirements.lock --extra build --extra dev pyproject.toml -o requirements-dev.lock

clean: ## remove the virtual environment (the data folder stays)
	rm -rf $(VENV)
