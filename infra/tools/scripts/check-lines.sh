#!/usr/bin/env bash
# Fails if a tracked source file has a line of more than 120 characters, and names each such line as file:line.
# It covers Rust, Python, shell and JavaScript. No file is excluded.
set -euo pipefail
cd "$(dirname "$0")/../../.."
git ls-files -z -- '*.rs' '*.py' '*.sh' '*.js' '*.mjs' | python3 -c '
import sys

MOST = 120
files = [name for name in sys.stdin.read().split("\0") if name]
if not files:
    sys.exit("check-lines: git lists no source files")
long = 0
for name in files:
    try:
        lines = open(name, encoding="utf-8").read().splitlines()
    except FileNotFoundError:
        continue  # deleted, and not committed yet
    for number, line in enumerate(lines, 1):
        if len(line) > MOST:
            long += 1
            print(f"{name}:{number}: {len(line)} characters", file=sys.stderr)
if long:
    sys.exit(f"{long} lines have more than {MOST} characters: wrap them")
'
