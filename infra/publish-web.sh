#!/usr/bin/env bash
# Uploads the storefront and the console to the bucket of a stage, with the settings of that stage. The stack must have
# been deployed with WebPages=yes. Every file in web/ is uploaded.
#   STAGE=prod CLIENT_ID=… [SHOP_NAME=…] [SCOPE=openid] [METHODS="alipay stripe"] infra/publish-web.sh
# STACK=… names the stack instead of the one in the file of the stage. The OpenID Connect client of the shop must allow
# the callback addresses WebUrl/ and WebUrl/console, where WebUrl is the output of the stack.
set -euo pipefail
cd "$(dirname "$0")/.."
. infra/tools/scripts/read-stage.sh
if [ -n "${STAGE:-}" ] || [ -z "${STACK:-}" ]; then needs_stage; fi
STACK=${STACK:-$stack}
command -v aws >/dev/null || { echo "publish-web: install the AWS CLI (aws) first" >&2; exit 1; }
described=$(aws cloudformation describe-stacks --stack-name "$STACK" --output json)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Writes config.json from the outputs and parameters of the stack, and prints the names that are needed below.
export DESCRIBED=$described
export SHOP_NAME=${SHOP_NAME:-} CLIENT_ID=${CLIENT_ID:-} SCOPE=${SCOPE:-openid} METHODS=${METHODS:-}
export OPERATOR_SCOPE=${OPERATOR_SCOPE:-}
settings=$(python3 - "$work/config.json" <<'PY'
import json, os, shlex, sys
stack = json.loads(os.environ["DESCRIBED"])["Stacks"][0]
outputs = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
parameters = {one["ParameterKey"]: one.get("ParameterValue", "") for one in stack.get("Parameters", [])}
needed = ("ApiUrl", "WebSocketUrl", "WebBucketName", "WebDistributionId", "WebUrl")
missing = [name for name in needed if name not in outputs]
if missing:
    sys.exit(f"publish-web: the stack has no output {', '.join(missing)}: deploy it with the parameter WebPages=yes")
if not os.environ["CLIENT_ID"]:
    sys.exit("publish-web: set CLIENT_ID=… to the id of an OpenID Connect client with PKCE and without a secret, "
             f"whose callback addresses are {outputs['WebUrl']}/ and {outputs['WebUrl']}/console")
config = {
    "shopName": os.environ["SHOP_NAME"],
    "apiUrl": outputs["ApiUrl"],
    "wsUrl": outputs["WebSocketUrl"],
    "issuer": parameters["JwtIssuer"],
    "clientId": os.environ["CLIENT_ID"],
    "scope": os.environ["SCOPE"],
    "operatorScope": os.environ["OPERATOR_SCOPE"],
}
# The payment methods that the storefront offers; all of them if METHODS is not set.
if os.environ["METHODS"]:
    config["methods"] = os.environ["METHODS"].split()
json.dump(config, open(sys.argv[1], "w"), indent=2)
for name in ("WebBucketName", "WebDistributionId", "WebUrl"):
    print(f"{name}={shlex.quote(outputs[name])}")
PY
)
eval "$settings"
# Browsers cache files for five minutes, CloudFront until the next publication.
kept="public, max-age=300, s-maxage=86400"
aws s3 sync web "s3://$WebBucketName" --delete --exclude config.json --exclude openapi.yaml --cache-control "$kept"
aws s3 cp web/openapi.yaml "s3://$WebBucketName/openapi.yaml" --cache-control "$kept" --content-type application/yaml
aws s3 cp "$work/config.json" "s3://$WebBucketName/config.json" \
    --cache-control "public, max-age=60" --content-type application/json
aws cloudfront create-invalidation --distribution-id "$WebDistributionId" --paths '/*' >/dev/null
echo "Published: $WebUrl (console: $WebUrl/console)."
echo "The client $CLIENT_ID must allow the callback addresses $WebUrl/ and $WebUrl/console."
