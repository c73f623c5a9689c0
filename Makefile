# `make up` and `make test` are all a newcomer needs. Code lives in .venv, data of `up` in ~/.local/share/warpmeter.
PYTHON ?= python3
MINUTES ?= 10
PACKAGE_PYTHON ?= /usr/bin/python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Workers under a name that is not Python's: below a shell they would be jobs, and the tests' jobs part of them.
WORKER := popen//python=$(BIN)/pytest-worker
FILES := --dist loadfile --no-loadscope-reorder
# What one worker has compiled the others only load, and the next run, whatever is usual here.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up demo test test-rest fuzz check crash bench proto docs site sbom clean
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "warpmeter needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	@echo "Setting up $(VENV) (once, a minute or two)…"
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing; on Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@ln -sf python $(BIN)/pytest-worker
	@touch $@

up: $(STAMP)  ## measure this host: broker, agent, consumer, engine
	@exec $(BIN)/warpmeter up

demo: $(STAMP)  ## the same with a simulated fleet
	@exec $(BIN)/warpmeter up --demo

test: $(STAMP)  ## the tests that need nothing but this machine and a few minutes
	@$(BIN)/pytest -q $(FILES) --tx '3*$(WORKER)' -m "not kafka and not browser and not torch and not long and not fuzz"

test-rest: $(STAMP)  ## the others: Apache Kafka (Java 17, Maven), a browser, PyTorch, or simply long
	@$(BIN)/pytest -q $(FILES) --tx '4*$(WORKER)' -m "(kafka or browser or torch or long) and not fuzz"

fuzz: $(STAMP)  ## a hundred thousand broken messages and twenty thousand broken traces: ten minutes of CPU
	@$(BIN)/pytest -q $(FILES) --tx '2*$(WORKER)' -m fuzz

check: $(STAMP)  ## lint, format, types, import contract, generated code
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > /dev/null || $(BIN)/lint-imports
	@$(BIN)/python schemas/generate.py --check
	@echo "check: clean"

crash: $(STAMP)  ## random faults on three Kafka brokers: MINUTES=60 SEED=7
	@$(BIN)/python -m tests.crash --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

bench: $(STAMP)  ## every benchmark, one table each
	@for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

proto: $(STAMP)  ## make the generated code from the .proto files
	@$(BIN)/python schemas/generate.py

docs: $(STAMP)  ## make the pages of the documentation that come from the code
	@$(BIN)/python -m warpmeter.schemas.document
	@$(BIN)/python -m warpmeter.dictionary
	@$(BIN)/python -m warpmeter.analysis.schema
	@$(BIN)/python -m warpmeter.cookbook.document
	@$(BIN)/python -m warpmeter.cli.documents
	@$(BIN)/python -m deploy.grafana.source

site: $(STAMP)  ## the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

sbom: $(STAMP)  ## what each extra installs, with licences and known holes, in build/sbom
	@$(BIN)/python -m tests.supply

packages: $(STAMP)  ## deb and rpm of the agent into dist/, for the Python of PACKAGE_PYTHON
	@$(BIN)/python deploy/packages/build.py --python $(PACKAGE_PYTHON)

clean:  ## remove the environment
	rm -rf $(VENV)
