#!/usr/bin/env bash
# Runs `cargo nextest` with the given arguments. If it is missing, installs it from crates.io into .tools first.
set -euo pipefail
VERSION=0.9.143
if ! cargo nextest --version >/dev/null 2>&1; then
  tools=$PWD/.tools
  if [ ! -x "$tools/bin/cargo-nextest" ]; then
    echo "Installing cargo-nextest $VERSION into .tools (once; it takes some minutes)..."
    cargo install --quiet --locked --root "$tools" cargo-nextest --version "$VERSION" || {
      echo "cargo-nextest could not be installed. Check the network, then run the same command again." >&2
      exit 1
    }
  fi
  PATH=$tools/bin:$PATH
fi
exec cargo nextest "$@"
