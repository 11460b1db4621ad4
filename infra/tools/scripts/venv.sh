#!/bin/sh
# Installs the Python tools listed in infra/tools/scripts/NAME.txt into .venv/NAME, unless they are there already, and
# prints that folder. Each list has a folder of its own, because their versions conflict.
set -eu
cd "$(dirname "$0")/../../.."
list=infra/tools/scripts/$1.txt
venv=.venv/$1
if ! cmp -s "$list" "$venv/installed.txt"; then
    echo "Installing $(grep -v '^#' "$list" | tr '\n' ' ')..." >&2
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$list" >&2
    cp "$list" "$venv/installed.txt"
fi
echo "$PWD/$venv"
