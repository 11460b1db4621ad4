"""Counts the instructions of a purchase request with valgrind. The count depends only on the binary.

Usage: instructions.py BINARIES (with symbols: target/bench-local). `seckill` runs under callgrind behind a minimal
Runtime API that only hands out events. Each kind of request is counted in a short and in a long run, and the difference
is divided by the number of extra requests, so the start-up drops out. SHA-256 is shown separately, because valgrind
does not have the processor's instructions for it.
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
# Inclusive: the handler includes the SDK, and each includes its SHA-256.
PARTS = {
    "the handler": ["seckill::main::{{closure}}::{{closure}}::{{closure}}"],
    "the SDK": [
        "aws_smithy_runtime::client::orchestrator::try_op::{{closure}}::{{closure}}",
        "aws_smithy_runtime::client::orchestrator::apply_configuration",
    ],
    "SHA-256": ["sha2::sha256::compress256"],
}


def counted(
    binary: pathlib.Path, environment: dict, work: pathlib.Path, events: list[bytes], wanted: bytes
) -> dict[str, int]:
    """Counts the instructions of a process that answers these events, in total and by part."""
    out = work / "callgrind.out"
    program = work / "under-valgrind"
    program.write_text(f"#!/bin/sh\nexec valgrind --quiet --tool=callgrind --callgrind-out-file={out} {binary}\n")
    program.chmod(0o755)
    process = Process(program, {**environment, "PATH": os.environ["PATH"]})
    for event in events:
        _, answer = process.invoke(event)
        assert b'"statusCode":' + wanted in answer, answer
    # Do not kill it: callgrind writes its figures when the program ends.
    process.process.send_signal(signal.SIGTERM)
    process.process.wait(timeout=60)
    shown = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show-percs=no", out],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    figures = {"in all": int(re.search(r"^\s*([\d,]+)\s+PROGRAM TOTALS", shown, re.M)[1].replace(",", ""))}
    for part, names in PARTS.items():
        found = [re.search(rf"^\s*([\d,]+)\s+\S*?:?{re.escape(name)}\s", shown, re.M) for name in names]
        figures[part] = sum(int(one[1].replace(",", "")) for one in found if one)
    # If a function in PARTS was renamed, its instructions would be attributed to another part. A refusal makes no call,
    # so it has no instructions of the SDK.
    needed = ["the handler", "the SDK"] if wanted == b"202" else ["the handler"]
    missing = [part for part in needed if not figures[part]]
    assert not missing, f"callgrind found no function of {missing}: correct PARTS"
    return figures


def shares(one: dict[str, float]) -> tuple[float, float]:
    """Returns the instructions of the SDK and of this code, each without SHA-256, which is shown separately."""
    # Nearly all of it is the SDK's signing. If there is more SHA-256 than SDK, nothing was signed, and it is the digest
    # of the buyer.
    signing = one["SHA-256"] if one["SHA-256"] <= one["the SDK"] else 0
    # This code includes building each request, up to the point where the SDK takes over.
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
    wait_until(
        "the sale is sold out",
        lambda: cloud.ask(f"/sales/{gone}")["sales"][0]["items"][0]["availability"] == "SOLD_OUT",
    )
    seckill = cloud.function("seckill")
    environment = {
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_SESSION_TOKEN": "local",
        "AWS_ACCESS_KEY_ID": seckill["accessKeyId"],
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_STREAM_NAME": "s",
        "AWS_LAMBDA_LOG_GROUP_NAME": "g",
        **seckill["environment"],
    }
    columns = f"{'total':>8}{'Lambda runtime, sockets':>26}{'AWS SDK':>10}{'SHA-256':>10}{'this code':>12}"
    print(f"{'thousand instructions per':32}{columns}")
    for what, where, wanted in (("purchase (3 calls)", sale, b"202"), ("refusal when sold out", gone, b"409")):
        lives = []
        for number in (FEW, MANY):
            print(f"\r{what}: {number} requests under valgrind...", end="", file=sys.stderr, flush=True)
            lives.append(
                counted(
                    binaries / "seckill",
                    environment,
                    work,
                    [press(where, f"{what}-{number}-{buyer}") for buyer in range(number)],
                    wanted,
                )
            )
        print(file=sys.stderr)
        one = {part: (lives[1][part] - lives[0][part]) / (MANY - FEW) / 1000 for part in lives[0]}
        sdk, ours = shares(one)
        runtime = one["in all"] - one["the handler"]
        figures = f"{one['in all']:>8,.0f}{runtime:>26,.0f}{sdk:>10,.0f}{one['SHA-256']:>10,.0f}{ours:>12,.0f}"
        print(f"{what:32}{figures}")


if __name__ == "__main__":
    main()
