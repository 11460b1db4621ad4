# A bare `make` prints the targets. `##@` begins a group, `## ` describes a target, `#: ` names its settings.
.DEFAULT_GOAL := help
.PHONY: help run demo preflight build-local fmt check test browser pictures fuzz-api engines agree lint-template \
	invoke invoke-all invoke-binaries rehearse \
	dead-letters redrive audit reconcile build verify-artifact deploy destroy publish-web bootstraps \
	plan load bench bench-compare cold-start instructions prove sim planted-bugs drill

help: ## Print the targets
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2} \
		/^#: / {printf "  %-19s %s\n", "", substr($$0, 4)}' $(MAKEFILE_LIST)

# cargo nextest, which is installed on first use.
NEXTEST := infra/tools/scripts/nextest.sh

##@ Run
run: preflight ## Run the whole system on this machine
#: PORT=3000 DATA_DIR=.local ARGS="--fresh --logs seckill --host processes"
	@$(call built,seckill-local)
	@target/debug/seckill-local $(ARGS)

demo: preflight ## Run the system, open a sale in ten seconds and let 2,000 simulated buyers in
#: PORT=3000 ARGS="--buyers 500"
	@$(call built,seckill-demo)
	@target/debug/seckill-demo $(ARGS)

build-local: preflight ## Build all programs for this machine
	@$(BUILDING)
	@cargo build --workspace --bins || $(PREFLIGHT) explain

# Builds one program. It has the features that the whole workspace has, so nothing is compiled twice.
BUILDING = echo "Building (the first time takes some minutes: it compiles the AWS SDK)..."
built = $(BUILDING) && { cargo build --bin $1 || $(PREFLIGHT) explain; }

# One line about what is missing, before a build and after one that failed.
PREFLIGHT := infra/tools/scripts/preflight.sh
preflight:
	@$(PREFLIGHT) $(MAKECMDGOALS)

##@ Test
# The tests record every call that a policy allowed. check-permissions compares the record with the template.
SEEN := target/permissions
test: build-local ## Run all tests, and check that every permission in the template is used
	@rm -rf $(SEEN)
	@PERMISSIONS_SEEN=$(SEEN) $(NEXTEST) run --workspace
	@PERMISSIONS_SEEN=$(SEEN) target/debug/check-permissions
	@$(PREFLIGHT) optional

check: ## Check format, line lengths, translations, lints and documentation, as CI does
	@infra/tools/scripts/check-lines.sh
	@python3 infra/tools/scripts/check_translations.py
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --quiet -- -D warnings
	@RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

fmt: ## Format the code
	@cargo fmt --all

browser: build-local ## Test the pages in a real browser; screenshots are kept in tests/output/browser
	@tests/browser/run.sh

pictures: build-local ## Take the pictures of docs/quickstart.md, by the browser test that walks through it
	@PICTURES=docs/quickstart tests/browser/run.sh tour.test.mjs

EXAMPLES ?= 20
fuzz-api: build-local ## Fuzz the running API against web/openapi.yaml with schemathesis
#: EXAMPLES=20
	@EXAMPLES=$(EXAMPLES) python3 tests/fuzz_api.py

engines: ## Run the flow tests on two other DynamoDB engines as well, and compare the answers
	@infra/tools/scripts/engines.sh

agree: ## Run the SQS and Scheduler cases against ministack as well, and compare the answers
	@infra/local-cloud/agree.sh

lint-template: ## Check template.yaml with SAM, cfn-lint and a security linter
	@infra/tools/scripts/lint-template.sh

# What Lambda would start, built for this machine: the functions, and the minimal one that they are compared with.
FUNCTIONS := $(notdir $(wildcard functions/*))
BOOTSTRAPS := target/release
bootstraps:
	@echo "Building the bootstraps (the first time takes many minutes: each is linked as a whole)..."
	@cargo build --release $(foreach name,$(FUNCTIONS) minimal,--bin $(name))

# The functions as Lambda starts them, and the local cloud that they call.
invoke-binaries: preflight
	@cargo build --quiet --workspace $(foreach name,$(FUNCTIONS) seckill-local,--bin $(name)) || $(PREFLIGHT) explain

INVOKE = venv=$$(infra/tools/scripts/venv.sh sam) && "$$venv/bin/python" infra/tools/scripts/invoke.py
invoke: invoke-binaries ## Run a function on an event with sam local invoke; without Docker, with its emulator
#: FUNCTION=seckill EVENT=tests/events/seckill.json, EVENT=- reads the standard input, WITH=emulator
	@$(INVOKE) one '$(FUNCTION)' '$(EVENT)'

invoke-all: invoke-binaries ## Run every event of tests/events, and check the answers
#: WITH=emulator BINARIES=target/release, after make bootstraps
	@$(INVOKE) all

rehearse: build-local bootstraps ## Deploy template.yaml to an emulator of AWS, and run a sale there
	@venv=$$(infra/tools/scripts/venv.sh sam) && ministack=$$(infra/tools/scripts/venv.sh ministack) && \
		"$$venv/bin/python" infra/tools/scripts/rehearse.py $(BOOTSTRAPS) target/debug/seckill-local \
		"$$ministack/bin/ministack"

##@ Operate (the local cloud at BASE_URL, or the stage in STAGE)
OUTPUTS = target/outputs-$(STAGE).json
AT = $(if $(STAGE),--outputs $(OUTPUTS))
ops = $(if $(STAGE),infra/stage.sh outputs >$(OUTPUTS) &&) target/debug/seckill-ops

audit: build-local ## Prove that the units of a sale add up
#: SALE=... STAGE=prod, with an operator's token in ADMIN_TOKEN
	@$(if $(SALE),,echo "Which sale? Say SALE=..." >&2; exit 1)
	@$(ops) audit $(SALE) $(AT)

dead-letters: build-local ## Show the messages that could not be handled, with their reasons
#: STAGE=prod
	@$(ops) dead-letters $(AT)

redrive: build-local ## Show the dead letters and send them again
#: STAGE=prod
	@$(ops) redrive $(AT)

reconcile: $(if $(STAGE),,build-local) ## Run reconcile now, and print what it did
#: STAGE=prod
	@$(if $(STAGE),infra/stage.sh reconcile,target/debug/seckill-ops reconcile)

##@ Deploy (the stage in STAGE, which has no default: dev is infra/stages/dev.toml)
build: ## Build the functions for Lambda
#: ARCH=arm64 or x86_64
	@infra/stage.sh build

verify-artifact: invoke-binaries ## Check and execute what make build made, on the events of tests/events
#: ARCH=arm64 or x86_64
	@venv=$$(infra/tools/scripts/venv.sh sam) && \
		"$$venv/bin/python" infra/tools/scripts/verify_artifact.py $(or $(ARCH),arm64)

deploy: ## Build, verify and deploy a stage; the first time SAM asks for its parameters
#: STAGE=dev, VERIFY=no deploys without executing the functions first
	@infra/stage.sh deploy

publish-web: ## Publish the pages to a stage (needs the AWS CLI)
#: STAGE=prod CLIENT_ID=... SHOP_NAME=... SCOPE=openid METHODS="alipay stripe"
	@infra/publish-web.sh

destroy: ## Delete a stage with everything in it
#: STAGE=dev
	@infra/stage.sh destroy

##@ Measure
plan: build-local ## Say what a sale will need and cost
#: UNITS=10000 BUYERS=1000000 SECONDS=60 ARGS="--shape even"
	@target/debug/seckill-plan $(CROWD) $(ARGS)

load: preflight ## Send buyers to a running system, then audit the sale
#: BASE_URL=http://127.0.0.1:3000 UNITS=1000 BUYERS=5000 SECONDS=20 ARGS="--pays 80"
	@$(call built,seckill-load)
	@target/debug/seckill-load $(CROWD) $(ARGS)

CROWD = $(if $(UNITS),--units $(UNITS)) $(if $(BUYERS),--buyers $(BUYERS)) $(if $(SECONDS),--seconds $(SECONDS))

# PROFILE=dev measures what `make run` runs instead of optimised programs.
PROFILE ?= release
bench: $(if $(filter dev,$(PROFILE)),build-local,bootstraps) ## Measure engines, invocations, costs and a load on both hosts
#: PROFILE=dev ARGS="--only purchases"
	@echo "Building with profile $(PROFILE) (the first time takes some minutes)..."
	@cargo build --profile $(PROFILE) --bin seckill-bench --bin bench-nothing
	@target/$(patsubst dev,debug,$(PROFILE))/seckill-bench $(ARGS)

bench-compare: ## Show two bench runs side by side
#: BEFORE=target/bench.before.json AFTER=target/bench.json
	@cargo build --workspace --bins --quiet
	@target/debug/seckill-bench --compare $(or $(BEFORE),target/bench.before.json) $(or $(AFTER),target/bench.json)

cold-start: build-local bootstraps ## Measure size, start and first answer of each bootstrap beside a minimal one
	@python3 infra/tools/scripts/cold_start.py $(BOOTSTRAPS) target/debug/seckill-local

instructions: ## Count the instructions of a purchase by library, under valgrind
	@cargo build --workspace --bins --profile bench-local
	@python3 infra/tools/scripts/instructions.py target/bench-local

##@ Prove
prove: ## Run what is exhaustive and slow: the simulation with all pairs of faults, then every planted bug
	@$(MAKE) --no-print-directory sim SEED= SEEDS=
	@$(MAKE) --no-print-directory planted-bugs

# OPTIMISED=1 compiles everything once more, which pays off for a long run.
sim: ## Simulate whole sales, with faults at every call
#: SEED=17 replays one, SEEDS=100000 runs that many, OPTIMISED=1
	@PAIRS=all $(NEXTEST) run --workspace $(if $(OPTIMISED),--release) --no-capture \
		$(if $(SEED)$(SEEDS),--test seeds -E 'test(no_seed_violates_anything)',--test seeds --test scenarios --test model)

planted-bugs: ## Plant bugs into a copy of the tree, and show which seed catches each
#: ONLY=hold-twice SEEDS=200
	@cargo build --workspace --bins --quiet
	@target/debug/planted-bugs

drill: build-local ## Kill functions and the local cloud during a sale, then audit everything
#: ARGS="--seed 17 --purchases 5000"
	@target/debug/seckill-drill $(ARGS)
