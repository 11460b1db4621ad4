#!/bin/sh
# Installs the Python tools listed in infra/tools/scripts/NAME.txt into .venv/NAME, unless they are there already, and
# prints that folder. Each list has a folder of its own, because their versions conflict.
set -eu
cd "$(dirname "$0")/../../.."
list=infra/tools/scripts/$1.txt
venv=.venv/$1
if ! cmp -s "$list" "$venv/installed.txt"; then
    python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
        echo "Python 3.11 with its venv module is missing. Install it: apt install python3 python3-venv." >&2
        exit 1
    }
    echo "Installing $(grep -v '^#' "$list" | tr '\n' ' ')..." >&2
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$list" >&2 || {
        echo "These packages could not be installed. Check the network, then run the same command again." >&2
        exit 1
    }
    cp "$list" "$venv/installed.txt"
fi
echo "$PWD/$venv"
