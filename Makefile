# A bare `make` prints the targets.
.DEFAULT_GOAL := help
.PHONY: help run test check fmt build-local agree bench redrive dead-letters drill sim sim-teeth demo browser fuzz-api publish-web

help: ## Print the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build-local: ## Build the functions and the local cloud for this machine
	@echo "Building (the first time takes some minutes: it compiles the AWS SDK)..."
	@cargo build --workspace --bins

run: build-local ## Run the whole system on this machine (PORT=3000, DATA_DIR=.local, ARGS="--fresh --logs seckill")
	@target/debug/seckill-local $(ARGS)

demo: build-local ## Start everything, open a sale in ten seconds and play 2,000 buyers; watch it in the console (PORT=3000, ARGS="--buyers 500")
	@target/debug/seckill-demo $(ARGS)

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

drill: build-local ## Kill functions and the local cloud while they sell, then audit everything (ARGS="--seed 17 --purchases 5000")
	@target/debug/seckill-drill $(ARGS)

# A long run pays for compiling everything once more with OPTIMISED=1.
sim: ## Simulate whole lives of a sale, with faults at every call (SEED=17 replays one, SEEDS=100000 runs so many, OPTIMISED=1)
	@cargo nextest run --workspace $(if $(OPTIMISED),--cargo-profile bench-local) --no-capture \
		-E 'package(seckill-sim)$(if $(SEED)$(SEEDS), and test(no_seed_violates_anything))'

sim-teeth: ## Plant bugs into a copy of the tree, and show which seed catches each (ONLY=hold-twice, SEEDS=200)
	@cargo build --workspace --bins --quiet
	@target/debug/sim-teeth

browser: build-local ## Test the pages in a real browser; pictures are left in tests/output/browser
	@tests/browser/run.sh

EXAMPLES ?= 20
fuzz-api: build-local ## Fuzz the running API with schemathesis against web/openapi.yaml (EXAMPLES=20)
	@EXAMPLES=$(EXAMPLES) python3 tests/fuzz_api.py

publish-web: ## Put the pages into a stage's bucket (STACK=seckill CLIENT_ID=…; needs the AWS CLI)
	@infra/publish-web.sh
