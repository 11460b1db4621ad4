#!/bin/sh
# Builds, deploys and removes a stage: `stage.sh build|deploy|destroy|outputs|reconcile`. A stage is infra/stages/$STAGE.toml, in SAM's own format.
# Everything goes through AWS SAM, with the credentials and the region that the AWS tools find on this machine.
set -eu
cd "$(dirname "$0")/.."
export SAM_CLI_TELEMETRY=0

say() { echo "$*" >&2; }
stop() { say "$*"; exit 1; }

needs_stage() {
    [ -n "${STAGE:-}" ] || stop "Which stage? Say STAGE=... ($(ls infra/stages | sed 's/\.toml$//' | tr '\n' ' ')), or write infra/stages/NAME.toml first."
    file=$PWD/infra/stages/$STAGE.toml
    [ -f "$file" ] || stop "There is no infra/stages/$STAGE.toml: copy dev.toml, and change the names in it."
    stack=$(setting stack_name)
    [ -n "$stack" ] || stop "infra/stages/$STAGE.toml names no stack_name."
    region=$(setting region)
    if [ -n "$region" ]; then export AWS_DEFAULT_REGION="$region" AWS_REGION="$region"; fi
}

# A setting of the stage's file.
setting() { sed -n "s/^$1 *= *\"\(.*\)\" *$/\1/p" "$file" | head -1; }
# A template parameter of the stage's file.
parameter() { sed -n 's/\\"/"/g; s/^parameter_overrides *= *"\(.*\)" *$/\1/p' "$file" | grep -o "$1=\"\?[^\" ]*" | head -1 | sed 's/^[^=]*="\?//'; }

# The functions for $1, as zipped by `sam deploy` later: .aws-sam/build.
build() {
    case $1 in
        arm64) target=aarch64-unknown-linux-gnu ;;
        x86_64) target=x86_64-unknown-linux-gnu ;;
        *) stop "ARCH is arm64 or x86_64, not $1." ;;
    esac
    say "Building every function for $1 (the first time takes some minutes: everything is compiled for Lambda's system, each function linked as a whole)..."
    rustup target add "$target" >/dev/null 2>&1 || stop "The Rust target $target could not be installed: see rustup target add $target."
    PATH=$venv/bin:$PATH "$venv/bin/sam" build --parameter-overrides "Architecture=$1"
}

venv=$(infra/tools/venv.sh sam)
case ${1:-} in
    build) build "${ARCH:-arm64}" ;;
    deploy)
        needs_stage
        arch=$(parameter Architecture)
        build "${arch:-arm64}"
        if [ -n "$(parameter JwtIssuer)" ]; then
            "$venv/bin/sam" deploy --config-file "$file" --no-fail-on-empty-changeset
        else
            say "First deployment of $STAGE: SAM asks for the parameters. JwtIssuer is yours to give; enter takes each of the others as it is."
            "$venv/bin/sam" deploy --guided --config-file "$file"
        fi
        "$venv/bin/sam" list stack-outputs --stack-name "$stack"
        ;;
    destroy)
        needs_stage
        [ "$(parameter TableProtection)" = false ] || stop "The tables of $STAGE are protected. If they are to go: set TableProtection=\\\"false\\\" in infra/stages/$STAGE.toml, make deploy STAGE=$STAGE, then this again."
        "$venv/bin/sam" delete --stack-name "$stack"
        ;;
    outputs) needs_stage; "$venv/bin/sam" list stack-outputs --stack-name "$stack" --output json ;;
    reconcile) needs_stage; "$venv/bin/sam" remote invoke ReconcileFunction --stack-name "$stack" --event '{}' ;;
    *) stop "stage.sh build|deploy|destroy|outputs|reconcile" ;;
esac
