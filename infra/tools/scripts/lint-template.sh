#!/bin/sh
# Lints template.yaml with every linter that runs without an AWS account: SAM's own, cfn-lint with the serverless rules,
# and a security linter. Exceptions are in .cfnlintrc.yaml, .checkov.yaml and the Metadata of resources, each with its
# reason.
set -eu
cd "$(dirname "$0")/../../.."
sam=$(infra/tools/scripts/venv.sh sam)
checkov=$(infra/tools/scripts/venv.sh checkov)
export SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION="${AWS_DEFAULT_REGION:-eu-central-1}"

"$sam/bin/sam" validate --lint --template template.yaml
"$sam/bin/cfn-lint" --template template.yaml
echo "cfn-lint, with the serverless rules: nothing found"
"$sam/bin/python" infra/tools/scripts/check_template.py
"$checkov/bin/checkov" --config-file .checkov.yaml --file template.yaml
# A linter that no longer reads the template would find nothing, too.
checked=$("$checkov/bin/checkov" --config-file .checkov.yaml --file template.yaml --output json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["summary"]["passed"])')
[ "$checked" -ge 20 ] || { echo "checkov passed only $checked checks: does it still read the template?" >&2; exit 1; }
echo "checkov: $checked checks passed, nothing found"
