# Two commands for a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
EXPERIMENT ?= examples/handbook/experiment.yaml

# Nothing that runs here reports home.
export DAGSTER_DISABLE_TELEMETRY := yes
export LITELLM_LOCAL_MODEL_COST_MAP := True
export DEEPEVAL_TELEMETRY_OPT_OUT := YES

.PHONY: demo ui test lint format bench bench-backfill clean

demo: .venv/installed  ## run the example grid as Dagster assets, offline and without a key
	$(BIN)/contextgrid-dagster materialize $(EXPERIMENT)
	@echo
	@echo "All of this is in Dagster now. Open the UI: make ui"

ui: .venv/installed  ## open the Dagster UI, with the example grid built: http://127.0.0.1:3000
	@$(BIN)/contextgrid-dagster materialize $(EXPERIMENT) || [ $$? -eq 1 ]
	@$(BIN)/contextgrid-dagster ui $(EXPERIMENT)

test: .venv/installed-dev  ## all tests
	$(BIN)/python -m pytest -n auto

lint: .venv/installed-dev  ## lint, format check, strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed-dev  ## the figures that the README quotes
	$(BIN)/python -m benchmarks.grid
	$(BIN)/python -m benchmarks.judging
	$(BIN)/python -m benchmarks.ledger
	$(BIN)/python -m benchmarks.overhead process job

bench-backfill: .venv/installed-dev  ## the figures of docs/backfills.md; takes about ten minutes
	$(BIN)/python -m benchmarks.overhead process job backfill

clean:
	rm -rf .venv .contextgrid examples/handbook/.contextgrid examples/handbook/results

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
