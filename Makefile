# The front door: `make demo` to see it, `make test` to check it, `make help` for the rest. What a target needs is set up on the way.
# The settings of virtflow (VIRTFLOW_…) pass through from the environment.

ARGS ?=
SEEDS ?= 200
BIN = .venv/bin

export PY
unexport MAKEFLAGS MFLAGS  # programs started from here are not part of this make

.DEFAULT_GOAL = help
.PHONY: help setup setup-dev demo demo-cluster node-up api-up check test static bench bench-cluster bench-peers simulate planted chaos format lock clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup:  ## install virtflow into .venv from the pinned requirement files (PY= names a Python)
	@tools/setup.sh run

setup-dev:  ## the same with everything to work on virtflow: tests, linters, types
	@tools/setup.sh run dev

demo: setup  ## see it work: a simulated fleet on this machine (ARGS= passes options)
	@$(BIN)/virtflow demo $(ARGS)

demo-cluster: setup-dev  ## the real thing: PostgreSQL, RabbitMQ, NATS, six processes; a leader dies (ARGS= passes options)
	@tools/services.sh
	@$(BIN)/python -m virtflow.testing.demo_cluster $(ARGS)

node-up: setup  ## start a node API with simulated hosts on port 5000
	@$(BIN)/virtflow node-api $(ARGS)

api-up: export VIRTFLOW_INVENTORY_URL ?= http://127.0.0.1:5000/nodes
api-up: setup  ## start virtflow on port 8080, with hosts from VIRTFLOW_INVENTORY_URL
	@$(BIN)/virtflow serve $(ARGS)

check: setup-dev static  ## format, lint, types, import rules, docs and fast tests
	@$(BIN)/pytest -m "not slow" -n 2 --dist worksteal -q $(ARGS)

test: setup-dev static  ## everything: the static part of check, then all tests, with real services
	@tools/services.sh
	@$(BIN)/pytest -n 2 --dist loadgroup $(ARGS)

static:
	@$(BIN)/ruff format --check --quiet . || { echo "Type: make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: setup-dev  ## measure (ARGS= chooses what)
	@tools/setup.sh run dev fast bench
	@$(BIN)/python -m bench $(ARGS)

chaos: setup-dev  ## kill, pause and cut off real processes under load, and judge every history (ARGS=, CHAOS_HOURS=)
	@tools/services.sh
	@$(BIN)/python -m chaos $(ARGS)

bench-cluster: setup-dev  ## measure several processes on PostgreSQL, with and without RabbitMQ
	@tools/setup.sh run dev fast bench
	@$(BIN)/python -m bench.cluster $(ARGS)

bench-peers: setup-dev  ## measure other schedulers beside ours
	@bench/peers/run $(ARGS)

simulate: setup-dev  ## a data centre in one thread: SEEDS=1000 of them, or SEEDS=17..20, or SEED=17 with its trace
	@$(BIN)/python -m virtflow.testing.simulation $(if $(SEED),--seed $(SEED),$(SEEDS)) $(ARGS)

planted: setup-dev  ## plant bugs on purpose, each guard taken away, and see who notices (ARGS= names some)
	@$(BIN)/python -m virtflow.testing.planted $(ARGS)

format: setup-dev  ## put the code in order
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

lock: setup  ## pin the requirement files anew (ARGS=--upgrade takes the newest versions)
	@tools/lock.sh $(ARGS)

clean:  ## remove everything that make made
	@rm -rf .venv .venv-peers .tools dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
