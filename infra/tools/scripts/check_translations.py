#!/usr/bin/env python3
"""Fails if a translated page has other commands than the page it translates: comments may differ, commands may not.

A page NAME.zh-CN.md is a translation of NAME.md. Compared are all blocks of code, without their comments, and all
pictures and addresses on this machine.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def commands(page: Path) -> list[str]:
    """What a reader of this page would type or open, in order."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [re.sub(r"\s+#\s.*$", "", line).rstrip() for block in blocks for line in block.splitlines()]
    opened = re.findall(r"<(http://127\.0\.0\.1[^>]*)>|!\[[^\]]*\]\(([^)]+)\)", text)
    return [line for line in lines if line] + ["".join(match) for match in opened]


def main() -> None:
    listed = subprocess.run(["git", "ls-files", "*.zh-CN.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    pages = listed.stdout.split()
    if not pages:
        sys.exit("check_translations: git lists no translated pages")
    for page in pages:
        original = page.replace(".zh-CN.md", ".md")
        ours, theirs = commands(ROOT / page), commands(ROOT / original)
        if ours != theirs:
            for line in [line for line in theirs if line not in ours]:
                print(f"{page}: missing: {line}", file=sys.stderr)
            for line in [line for line in ours if line not in theirs]:
                print(f"{page}: not in {original}: {line}", file=sys.stderr)
            sys.exit(f"{page} has other commands than {original}, or has them in another order")


main()
