# A bare `make` prints the targets.
.DEFAULT_GOAL := help
.PHONY: help run test check fmt build-local agree bench redrive dead-letters drill sim sim-teeth plan load bench-compare

help: ## Print the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build-local: ## Build the functions and the local cloud for this machine
	@echo "Building (the first time takes some minutes: it compiles the AWS SDK)..."
	@cargo build --workspace --bins

run: build-local ## Run the whole system on this machine (PORT=3000, DATA_DIR=.local, ARGS="--fresh --logs seckill")
	@target/debug/seckill-local $(ARGS)

test: build-local ## Run all tests
	@cargo nextest run --workspace

check: ## Format, lints and documentation, as CI checks them
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --quiet -- -D warnings
	@RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

fmt: ## Format the code
	@cargo fmt --all

dead-letters: build-local ## Show what could not be handled, and why (BASE_URL=http://127.0.0.1:3000)
	@target/debug/seckill-ops dead-letters

redrive: build-local ## Show the dead letters and send them again
	@target/debug/seckill-ops redrive

agree: ## Run the SQS and Scheduler cases against ministack too, and compare
	@infra/local/agree.sh

# Measured with the deployed code's optimisation, which compiles everything once more; PROFILE=dev measures what the tests run.
PROFILE ?= bench-local
bench: ## Measure engines, invocations, costs and a crowd (PROFILE=dev, ARGS="--only crowd")
	@echo "Building with profile $(PROFILE) (the first time takes some minutes)..."
	@cargo build --workspace --bins --profile $(PROFILE)
	@target/$(patsubst dev,debug,$(PROFILE))/seckill-bench $(ARGS)

bench-compare: ## Show two runs of the bench side by side (BEFORE=target/bench.before.json AFTER=target/bench.json)
	@cargo build --workspace --bins --quiet
	@target/debug/seckill-bench --compare $(or $(BEFORE),target/bench.before.json) $(or $(AFTER),target/bench.json)

load: build-local ## Play buyers at a running system, then audit the sale (BASE_URL=http://127.0.0.1:3000, UNITS=1000 BUYERS=5000 SECONDS=20, ARGS="--pays 80")
	@target/debug/seckill-load $(if $(UNITS),--units $(UNITS)) $(if $(BUYERS),--buyers $(BUYERS)) $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

plan: build-local ## Say what a sale will need and cost (UNITS=10000 BUYERS=1000000 SECONDS=60, ARGS="--shape even")
	@target/debug/seckill-plan $(if $(UNITS),--units $(UNITS)) $(if $(BUYERS),--buyers $(BUYERS)) $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

drill: build-local ## Kill functions and the local cloud while they sell, then audit everything (ARGS="--seed 17 --purchases 5000")
	@target/debug/seckill-drill $(ARGS)

# A long run pays for compiling everything once more with OPTIMISED=1.
sim: ## Simulate whole lives of a sale, with faults at every call (SEED=17 replays one, SEEDS=100000 runs so many, OPTIMISED=1)
	@cargo nextest run --workspace $(if $(OPTIMISED),--cargo-profile bench-local) --no-capture \
		-E 'package(seckill-sim)$(if $(SEED)$(SEEDS), and test(no_seed_violates_anything))'

sim-teeth: ## Plant bugs into a copy of the tree, and show which seed catches each (ONLY=hold-twice, SEEDS=200)
	@cargo build --workspace --bins --quiet
	@target/debug/sim-teeth
