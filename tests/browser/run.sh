#!/usr/bin/env bash
# Tests the pages in a real browser, against the deployed binaries on the local cloud. Installs what is missing:
# Debian's chromium, a font with Chinese characters, and playwright-core, which drives the browser.
# Screenshots of every page are kept in tests/output/browser. `run.sh FILE...` runs only these tests.
set -euo pipefail
cd "$(dirname "$0")"
for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "The browser test needs Node 20: $tool is missing." >&2; exit 1; }
done
if ! command -v chromium >/dev/null; then
  echo "Installing chromium (apt-get)..."
  as_root=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "chromium is missing: install it, or run this script as root" >&2; exit 1; }
    as_root=sudo
  fi
  $as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends \
    chromium fonts-wqy-microhei fonts-dejavu-core >/dev/null
fi
if [ ! -d node_modules/playwright-core ]; then
  npm ci --silent --no-audit --no-fund
fi
[ "$#" -gt 0 ] || set -- ./*.test.mjs
# One file after the other: two systems at once are slow enough on a small machine to miss a deadline.
exec node --test --test-concurrency=1 --test-reporter=spec "$@"
