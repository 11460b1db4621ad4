#!/usr/bin/env bash
# Puts the storefront and the console into a stage's bucket, with the settings of that stage. The stack must have been deployed with WebPages=yes.
#   STACK=seckill CLIENT_ID=… [SHOP_NAME=…] [SCOPE=openid] infra/publish-web.sh
set -euo pipefail
cd "$(dirname "$0")/.."
STACK=${STACK:-seckill}
command -v aws >/dev/null || { echo "publish-web: the AWS CLI (aws) is needed" >&2; exit 1; }
described=$(aws cloudformation describe-stacks --stack-name "$STACK" --output json)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The page's settings, and the names that are needed below, from the stack's own outputs and parameters.
settings=$(DESCRIBED=$described SHOP_NAME=${SHOP_NAME:-} CLIENT_ID=${CLIENT_ID:-} SCOPE=${SCOPE:-openid} python3 - "$work/config.json" <<'PY'
import json, os, shlex, sys
stack = json.loads(os.environ["DESCRIBED"])["Stacks"][0]
outputs = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
parameters = {one["ParameterKey"]: one.get("ParameterValue", "") for one in stack.get("Parameters", [])}
missing = [name for name in ("ApiUrl", "WebSocketUrl", "WebBucketName", "WebDistributionId", "WebUrl") if name not in outputs]
if missing:
    sys.exit(f"publish-web: the stack has no output {', '.join(missing)}: deploy it with the parameter WebPages=yes")
if not os.environ["CLIENT_ID"]:
    sys.exit("publish-web: say CLIENT_ID=…, the client id of the pages at the shop's sign-in (an OpenID Connect client with PKCE)")
config = {
    "shopName": os.environ["SHOP_NAME"], "apiUrl": outputs["ApiUrl"], "wsUrl": outputs["WebSocketUrl"],
    "issuer": parameters["JwtIssuer"], "clientId": os.environ["CLIENT_ID"], "scope": os.environ["SCOPE"],
}
json.dump(config, open(sys.argv[1], "w"), indent=2)
for name in ("WebBucketName", "WebDistributionId", "WebUrl"):
    print(f"{name}={shlex.quote(outputs[name])}")
PY
)
eval "$settings"
# Browsers keep files for some minutes, CloudFront until the next publishing.
kept="public, max-age=300, s-maxage=86400"
aws s3 sync web "s3://$WebBucketName" --delete --exclude config.json --exclude openapi.yaml --cache-control "$kept"
aws s3 cp web/openapi.yaml "s3://$WebBucketName/openapi.yaml" --cache-control "$kept" --content-type application/yaml
aws s3 cp "$work/config.json" "s3://$WebBucketName/config.json" --cache-control "public, max-age=60" --content-type application/json
aws cloudfront create-invalidation --distribution-id "$WebDistributionId" --paths '/*' >/dev/null
echo "Published: $WebUrl (console: $WebUrl/console)"
