# A bare `make` prints the targets.
.DEFAULT_GOAL := help
.PHONY: help run test check fmt build-local agree bench redrive dead-letters drill sim planted-bugs \
	audit reconcile build deploy destroy bootstraps lint-template rie rehearse engines cold-start instructions plan load bench-compare \
	demo browser fuzz-api publish-web

help: ## Print the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# cargo nextest, which installs itself where it is missing.
NEXTEST := infra/tools/scripts/nextest.sh

build-local: ## Build the functions and the local cloud for this machine
	@echo "Building (the first time takes some minutes: it compiles the AWS SDK)..."
	@cargo build --workspace --bins

run: build-local ## Run the whole system on this machine (PORT=3000, DATA_DIR=.local, ARGS="--fresh --logs seckill")
	@target/debug/seckill-local $(ARGS)

demo: build-local ## Start everything, open a sale in ten seconds and play 2,000 buyers; watch it in the console (PORT=3000, ARGS="--buyers 500")
	@target/debug/seckill-demo $(ARGS)

# What functions did under their policies is kept by the tests that run them, and held against the template afterwards.
SEEN := target/permissions
test: build-local ## Run all tests, and check that every permission that the template grants is needed
	@rm -rf $(SEEN)
	@PERMISSIONS_SEEN=$(SEEN) $(NEXTEST) run --workspace
	@PERMISSIONS_SEEN=$(SEEN) target/debug/check-permissions

check: ## Format, lints and documentation, as CI checks them
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --quiet -- -D warnings
	@RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

fmt: ## Format the code
	@cargo fmt --all

# An operator's commands are about the local cloud at BASE_URL (default http://127.0.0.1:3000), or about the stage in STAGE.
OUTPUTS = target/outputs-$(STAGE).json
AT = $(if $(STAGE),--outputs $(OUTPUTS))
ops = $(if $(STAGE),infra/stage.sh outputs >$(OUTPUTS) &&) target/debug/seckill-ops

dead-letters: build-local ## Show what could not be handled, and why (STAGE=prod)
	@$(ops) dead-letters $(AT)

redrive: build-local ## Show the dead letters and send them again (STAGE=prod)
	@$(ops) redrive $(AT)

audit: build-local ## Prove that a sale's units add up (SALE=..., STAGE=prod with ADMIN_TOKEN)
	@$(if $(SALE),,echo "Which sale? Say SALE=..." >&2; exit 1)
	@$(ops) audit $(SALE) $(AT)

reconcile: $(if $(STAGE),,build-local) ## Have reconcile walk now, and print what it did (STAGE=prod)
	@$(if $(STAGE),infra/stage.sh reconcile,target/debug/seckill-ops reconcile)

build: ## Build the functions for Lambda (ARCH=arm64 or x86_64)
	@infra/stage.sh build

deploy: ## Build, then deploy a stage; the first time SAM asks for its parameters (STAGE=dev)
	@infra/stage.sh deploy

destroy: ## Delete a stage with everything in it (STAGE=dev)
	@infra/stage.sh destroy

lint-template: ## Check template.yaml with SAM, cfn-lint and a security linter
	@infra/tools/scripts/lint-template.sh

# What Lambda would start, for this machine, all in one build: the functions, and the minimal one that they are measured beside.
FUNCTIONS := $(notdir $(wildcard functions/*))
BOOTSTRAPS := target/release
bootstraps:
	@echo "Building the bootstraps (the first time takes many minutes: each is linked as a whole)..."
	@cargo build --release $(foreach name,$(FUNCTIONS) minimal,--bin $(name))

rie: build-local bootstraps ## Run every bootstrap under AWS's Runtime Interface Emulator, on the events of tests/events
	@venv=$$(infra/tools/scripts/venv.sh sam) && $$venv/bin/python infra/tools/scripts/rie.py $(BOOTSTRAPS) target/debug/seckill-local

rehearse: build-local bootstraps ## Deploy template.yaml on an emulator of AWS, and live a sale there
	@venv=$$(infra/tools/scripts/venv.sh sam) && ministack=$$(infra/tools/scripts/venv.sh ministack) && \
		$$venv/bin/python infra/tools/scripts/rehearse.py $(BOOTSTRAPS) target/debug/seckill-local $$ministack/bin/ministack

engines: ## Run the flows' tests with every DynamoDB call on two other engines as well, and compare the answers
	@infra/tools/scripts/engines.sh

cold-start: build-local bootstraps ## Measure each bootstrap's size, start and first answer beside a minimal function
	@python3 infra/tools/scripts/cold_start.py $(BOOTSTRAPS) target/debug/seckill-local

instructions: ## Count where a press spends its instructions, under valgrind
	@cargo build --workspace --bins --profile bench-local
	@python3 infra/tools/scripts/instructions.py target/bench-local

agree: ## Run the SQS and Scheduler cases against ministack too, and compare
	@infra/local-cloud/agree.sh

# The crowd meets the bootstraps as they are deployed, and everything else is optimised, too; PROFILE=dev measures what the tests run.
PROFILE ?= bench-local
bench: $(if $(filter dev,$(PROFILE)),,bootstraps) ## Measure engines, invocations, costs and a crowd (PROFILE=dev, ARGS="--only crowd")
	@echo "Building with profile $(PROFILE) (the first time takes some minutes)..."
	@cargo build --workspace --bins --profile $(PROFILE)
	@target/$(patsubst dev,debug,$(PROFILE))/seckill-bench $(if $(filter dev,$(PROFILE)),,--binaries $(BOOTSTRAPS)) $(ARGS)

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
	@PAIRS=all $(NEXTEST) run --workspace $(if $(OPTIMISED),--release) --no-capture \
		$(if $(SEED)$(SEEDS),--test seeds -E 'test(no_seed_violates_anything)',--test seeds --test scenarios --test model)

planted-bugs: ## Plant bugs into a copy of the tree, and show which seed catches each (ONLY=hold-twice, SEEDS=200)
	@cargo build --workspace --bins --quiet
	@target/debug/planted-bugs

browser: build-local ## Test the pages in a real browser; pictures are left in tests/output/browser
	@tests/browser/run.sh

EXAMPLES ?= 20
fuzz-api: build-local ## Fuzz the running API with schemathesis against web/openapi.yaml (EXAMPLES=20)
	@EXAMPLES=$(EXAMPLES) python3 tests/fuzz_api.py

publish-web: ## Put the pages into a stage's bucket (STAGE=prod CLIENT_ID=…; needs the AWS CLI)
	@infra/publish-web.sh
