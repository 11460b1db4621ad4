#!/bin/sh
# Builds, deploys and removes a stage: `stage.sh build|deploy|destroy|outputs|reconcile`. A stage is infra/stages/$STAGE.toml, in SAM's own format.
# Everything goes through AWS SAM, with the credentials and the region that the AWS tools find on this machine.
set -eu
cd "$(dirname "$0")/.."
export SAM_CLI_TELEMETRY=0

. infra/tools/scripts/read-stage.sh

# The issuer that the template has for the local cloud. SAM's questions offer it, and its Rules refuse it.
placeholder() { sed -n '/^  JwtIssuer:/,/Default:/s/^ *Default: *//p' template.yaml; }

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

venv=$(infra/tools/scripts/venv.sh sam)
case ${1:-} in
    build) build "${ARCH:-arm64}" ;;
    deploy)
        needs_stage
        arch=$(parameter Architecture)
        build "${arch:-arm64}"
        issuer=$(parameter JwtIssuer)
        if [ -n "$issuer" ] && [ "$issuer" != "$(placeholder)" ]; then
            "$venv/bin/sam" deploy --config-file "$file" --no-fail-on-empty-changeset
        else
            say "First deployment of $STAGE: SAM asks for the parameters. JwtIssuer is yours to give (not $(placeholder), which it offers); enter takes each of the others as it is."
            "$venv/bin/sam" deploy --guided --config-file "$file"
            # SAM has asked for the stack's name and the region, too, and written them into the file.
            needs_stage
        fi
        "$venv/bin/sam" list stack-outputs --stack-name "$stack"
        ;;
    destroy)
        needs_stage
        if [ "$(parameter TableProtection)" != false ]; then
            status=$("$venv/bin/python" infra/tools/scripts/stack.py status "$stack")
            case $status in
                # A first deployment that failed: nothing was ever sold there, and it cannot be deployed again before it is deleted.
                ROLLBACK_COMPLETE | ROLLBACK_FAILED) say "$stack is $status: its first deployment failed. Tables that are left refuse to be deleted; infra/RUNBOOK.md says how to let them go." ;;
                *) stop "The tables of $STAGE are protected. If they are to go: set TableProtection=\\\"false\\\" in infra/stages/$STAGE.toml, make deploy STAGE=$STAGE, then this again. If $stack cannot be deployed any more, see infra/RUNBOOK.md, When a deployment goes wrong." ;;
            esac
        fi
        bucket=$("$venv/bin/python" infra/tools/scripts/stack.py web-bucket "$stack")
        if [ -n "$bucket" ]; then
            say "The pages in $bucket go first; make publish-web brings them back if the stack stays. Go on? [y/N]"
            read -r answer || answer=
            [ "$answer" = y ] || stop "Nothing was deleted."
            "$venv/bin/python" infra/tools/scripts/stack.py empty-web-bucket "$stack"
        fi
        "$venv/bin/sam" delete --stack-name "$stack"
        ;;
    outputs) needs_stage; "$venv/bin/sam" list stack-outputs --stack-name "$stack" --output json ;;
    reconcile) needs_stage; "$venv/bin/sam" remote invoke ReconcileFunction --stack-name "$stack" --event '{}' ;;
    *) stop "stage.sh build|deploy|destroy|outputs|reconcile" ;;
esac
