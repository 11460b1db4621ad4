#!/bin/sh
# Builds, deploys and deletes a stage: `stage.sh build|deploy|destroy|outputs|reconcile`. A stage is a file,
# infra/stages/$STAGE.toml, in SAM's format. AWS SAM does the work, with the credentials and the region of this machine.
set -eu
cd "$(dirname "$0")/.."
export SAM_CLI_TELEMETRY=0

. infra/tools/scripts/read-stage.sh

# The default issuer in the template, which is the local cloud's. SAM offers it, and the template's Rules reject it.
placeholder() { sed -n '/^  JwtIssuer:/,/Default:/s/^ *Default: *//p' template.yaml; }

# Builds the functions for the architecture $1 into .aws-sam/build, which `sam deploy` uploads.
build() {
    case $1 in
        arm64) target=aarch64-unknown-linux-gnu ;;
        x86_64) target=x86_64-unknown-linux-gnu ;;
        *) stop "ARCH must be arm64 or x86_64, not $1." ;;
    esac
    say "Building every function for $1 (the first time takes some minutes)..."
    rustup target add "$target" >/dev/null 2>&1 ||
        stop "The Rust target could not be installed. Run: rustup target add $target"
    PATH=$venv/bin:$PATH "$venv/bin/sam" build --parameter-overrides "Architecture=$1"
}

venv=$(infra/tools/scripts/venv.sh sam)
case ${1:-} in
    build) build "${ARCH:-arm64}" ;;
    deploy)
        needs_stage
        arch=$(parameter Architecture)
        build "${arch:-arm64}"
        if [ "${VERIFY:-yes}" = no ]; then
            say "Not executed before the deployment: the functions (VERIFY=no)."
        else
            make --no-print-directory verify-artifact ARCH="${arch:-arm64}"
        fi
        issuer=$(parameter JwtIssuer)
        if [ -n "$issuer" ] && [ "$issuer" != "$(placeholder)" ]; then
            "$venv/bin/sam" deploy --config-file "$file" --no-fail-on-empty-changeset
        else
            say "First deployment of $STAGE: SAM asks for the parameters."
            say "Enter your own JwtIssuer instead of $(placeholder)."
            say "Press Enter to accept the default of each other parameter."
            "$venv/bin/sam" deploy --guided --config-file "$file"
            # SAM has also asked for the stack name and the region, and has written them into the file.
            needs_stage
        fi
        "$venv/bin/sam" list stack-outputs --stack-name "$stack"
        ;;
    destroy)
        needs_stage
        if [ "$(parameter TableProtection)" != false ]; then
            status=$("$venv/bin/python" infra/tools/scripts/stack.py status "$stack")
            case $status in
                # The first deployment failed. Nothing was sold there, and it must be deleted before the next attempt.
                ROLLBACK_COMPLETE | ROLLBACK_FAILED)
                    say "$stack is $status: its first deployment failed."
                    say "Remaining tables are protected; infra/RUNBOOK.md says how to delete them."
                    ;;
                *)
                    say "The tables of $STAGE are protected. To delete them: set TableProtection=\\\"false\\\" in"
                    say "infra/stages/$STAGE.toml, run make deploy STAGE=$STAGE, then repeat this command."
                    stop "If $stack can no longer be deployed, see infra/RUNBOOK.md, When a deployment goes wrong."
                    ;;
            esac
        fi
        bucket=$("$venv/bin/python" infra/tools/scripts/stack.py web-bucket "$stack")
        if [ -n "$bucket" ]; then
            say "The pages in $bucket are deleted first; make publish-web uploads them again. Continue? [y/N]"
            read -r answer || answer=
            [ "$answer" = y ] || stop "Nothing was deleted."
            "$venv/bin/python" infra/tools/scripts/stack.py empty-web-bucket "$stack"
        fi
        "$venv/bin/sam" delete --stack-name "$stack"
        ;;
    outputs) needs_stage; "$venv/bin/sam" list stack-outputs --stack-name "$stack" --output json ;;
    reconcile) needs_stage; "$venv/bin/sam" remote invoke ReconcileFunction --stack-name "$stack" --event '{}' ;;
    *) stop "Usage: stage.sh build|deploy|destroy|outputs|reconcile" ;;
esac
