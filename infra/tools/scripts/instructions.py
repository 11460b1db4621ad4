"""Where a press spends its instructions, counted by valgrind: the same for the same binary, whatever else the machine does.

Usage: instructions.py BINARIES (with symbols: target/bench-local). `seckill` runs under callgrind behind a Runtime API that does nothing but hand out events. Each
kind of press is counted twice, few and many of them, and the difference is what one costs: the start drops out. SHA-256 is shown by itself, because the processor's own
instructions for it are not there under valgrind.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from cold_start import Process, press
from local_cloud import LocalCloud, wait_until

FEW, MANY = 40, 240
# Inclusive, so the handler's figure has the SDK's in it, and each has its SHA-256.
PARTS = {
    "the handler": ["seckill::main::{{closure}}::{{closure}}::{{closure}}"],
    "the SDK": ["aws_smithy_runtime::client::orchestrator::try_op::{{closure}}::{{closure}}", "aws_smithy_runtime::client::orchestrator::apply_configuration"],
    "SHA-256": ["sha2::sha256::compress256"],
}


def counted(binary: pathlib.Path, environment: dict, work: pathlib.Path, events: list[bytes], wanted: bytes) -> dict[str, int]:
    """Instructions of the whole life of a process that answers these events, in all and by part."""
    out = work / "callgrind.out"
    program = work / "under-valgrind"
    program.write_text(f"#!/bin/sh\nexec valgrind --quiet --tool=callgrind --callgrind-out-file={out} {binary}\n")
    program.chmod(0o755)
    process = Process(program, {**environment, "PATH": os.environ["PATH"]})
    for event in events:
        _, answer = process.invoke(event)
        assert b'"statusCode":' + wanted in answer, answer
    # Not killed: callgrind writes when its program ends.
    process.process.send_signal(signal.SIGTERM)
    process.process.wait(timeout=60)
    shown = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show-percs=no", out], capture_output=True, text=True, check=True).stdout
    figures = {"in all": int(re.search(r"^\s*([\d,]+)\s+PROGRAM TOTALS", shown, re.M)[1].replace(",", ""))}
    for part, names in PARTS.items():
        found = [re.search(rf"^\s*([\d,]+)\s+\S*?:?{re.escape(name)}\s", shown, re.M) for name in names]
        figures[part] = sum(int(one[1].replace(",", "")) for one in found if one)
    # A function that has another name by now would count as nothing, and its part as somebody else's. A refusal makes no call, so it has no SDK in it.
    needed = ["the handler", "the SDK"] if wanted == b"202" else ["the handler"]
    missing = [part for part in needed if not figures[part]]
    assert not missing, f"callgrind knows no function of {missing}: correct PARTS"
    return figures


def shares(one: dict[str, float]) -> tuple[float, float]:
    """The SDK's and this code's own, each without SHA-256, which is counted once and shown by itself."""
    # Nearly all of it is the SDK's signing. Where there is more of it than of the SDK, nothing was signed, and it is of a buyer's name.
    signing = one["SHA-256"] if one["SHA-256"] <= one["the SDK"] else 0
    # With what it takes to build each request, up to where the SDK takes it over.
    return one["the SDK"] - signing, one["the handler"] - one["the SDK"] - (one["SHA-256"] - signing)


def main() -> None:
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed: apt-get install valgrind")
    binaries = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        cloud = LocalCloud(str(binaries / "seckill-local"), binaries, work)
        try:
            show(cloud, binaries, work)
        finally:
            cloud.stop()


def show(cloud: LocalCloud, binaries: pathlib.Path, work: pathlib.Path) -> None:
    sale, gone = cloud.sale(10_000), cloud.sale(1)
    cloud.ask("/seckill", {"saleId": gone, "itemId": "phone", "quantity": 1}, cloud.token("first"))
    wait_until("it is sold out", lambda: cloud.ask(f"/sales/{gone}")["sales"][0]["items"][0]["availability"] == "SOLD_OUT")
    seckill = cloud.function("seckill")
    environment = {"AWS_ENDPOINT_URL": cloud.endpoint, "AWS_REGION": "us-east-1", "AWS_SECRET_ACCESS_KEY": "local", "AWS_SESSION_TOKEN": "local",
                   "AWS_ACCESS_KEY_ID": seckill["accessKeyId"], "AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
                   "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "AWS_LAMBDA_LOG_STREAM_NAME": "s", "AWS_LAMBDA_LOG_GROUP_NAME": "g", **seckill["environment"]}
    print(f"{'thousand instructions for one':32}{'in all':>8}{'Lambda runtime, sockets':>26}{'AWS SDK':>10}{'SHA-256':>10}{'this code':>12}")
    for what, where, wanted in (("purchase (3 calls)", sale, b"202"), ("refusal when sold out", gone, b"409")):
        lives = []
        for number in (FEW, MANY):
            print(f"\r{what}: {number} presses under valgrind...", end="", file=sys.stderr, flush=True)
            lives.append(counted(binaries / "seckill", environment, work, [press(where, f"{what}-{number}-{buyer}") for buyer in range(number)], wanted))
        print(file=sys.stderr)
        one = {part: (lives[1][part] - lives[0][part]) / (MANY - FEW) / 1000 for part in lives[0]}
        sdk, ours = shares(one)
        print(f"{what:32}{one['in all']:>8,.0f}{one['in all'] - one['the handler']:>26,.0f}{sdk:>10,.0f}{one['SHA-256']:>10,.0f}{ours:>12,.0f}")


if __name__ == "__main__":
    main()
