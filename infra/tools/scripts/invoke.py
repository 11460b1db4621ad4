"""Runs functions on sample events against the local cloud, as Lambda would run them.

Usage: invoke.py one FUNCTION EVENT  runs one function on one event, which is a file, or - for the standard input.
       invoke.py all                 runs every event of tests/events, and checks the answers.

Where a container engine answers, this is `sam local invoke`; otherwise it is AWS's Runtime Interface Emulator, which
needs no container. WITH=sam or WITH=emulator chooses. BINARIES is the folder of the bootstraps, and PORT the port of
the local cloud that runs; if none does, one is started for this command, on the data of DATA_DIR.

The files of an invocation are left in target/invoke, for the printed command to be repeated.
"""

import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

from local_cloud import LocalCloud
from runners import Emulator, Sam, bridge_address, engine
from sample_events import EVENTS, Walkthrough, filled, function_of

PROGRAM = "target/debug/seckill-local"
FOLDER = pathlib.Path("target/invoke")
BINARIES = pathlib.Path(os.environ.get("BINARIES") or "target/debug").resolve()


def main() -> None:
    if sys.argv[1:] == ["all"]:
        invoke_all()
    elif len(sys.argv) == 4 and sys.argv[1] == "one":
        invoke_one(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)


def invoke_all() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as after:
        work = pathlib.Path(folder)
        address = containers()
        cloud = LocalCloud(PROGRAM, BINARIES, work, also_listen=address)
        after.callback(cloud.stop)
        runner = runner_for(cloud, address)
        after.callback(runner.stop)
        say(f"Every event of {EVENTS}, with {runner.name}:")
        Walkthrough(cloud, runner).play()


def invoke_one(function: str, event: str) -> None:
    text, function = read(function, event)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as after:
        port = int(os.environ.get("PORT") or 3000)
        cloud, address = LocalCloud.running(port), containers()
        if cloud is None:
            data = pathlib.Path(os.environ.get("DATA_DIR") or ".local")
            say(f"No local cloud answers at port {port}: this command starts one on the data in {data}.")
            cloud = LocalCloud(PROGRAM, BINARIES, pathlib.Path(folder), data=data, also_listen=address)
            after.callback(cloud.stop)
        known = {name: found for found in cloud.stack["functions"] for name in (found["binary"], found["name"])}
        known |= {name.split("-", 1)[1]: found for name, found in known.items() if name == found["name"]}
        if function not in known:
            names = ", ".join(found["binary"] for found in cloud.stack["functions"])
            sys.exit(f"There is no function {function}. Say FUNCTION= and one of {names}.")
        runner = runner_for(cloud, address)
        after.callback(runner.stop)
        runner.is_shown = True
        say(f"With {runner.name}:")
        answer = runner.invoke(known[function], filled(text, cloud))
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        if isinstance(answer, dict) and "errorType" in answer:
            print(runner.logs(), file=sys.stderr)
            sys.exit(1)


def read(function: str, event: str) -> tuple[str, str]:
    """The event's text and the function's name. Each may be left out if the other names it."""
    if event == "-":
        text = sys.stdin.read()
    else:
        if not event:
            samples = sorted(path for path in EVENTS.glob("*.json") if function_of(path.stem) == function)
            if not samples:
                sys.exit(f"Which event? Say EVENT= and a file, such as one of {EVENTS}, or - for the standard input.")
            event = str(samples[0])
            say(f"EVENT={event}" + (f" (or {', '.join(path.name for path in samples[1:])})" if samples[1:] else ""))
        try:
            text = pathlib.Path(event).read_text()
        except OSError as error:
            sys.exit(f"The event cannot be read: {error}")
    try:
        json.loads(text)
    except ValueError as error:
        sys.exit(f"The event is not JSON: {error}")
    if not function:
        if event == "-":
            sys.exit("Which function? Say FUNCTION=, such as FUNCTION=seckill.")
        function = function_of(pathlib.Path(event).stem)
    return text, function


def containers() -> str | None:
    """The address at which containers reach this machine, or None for the emulator."""
    wanted = os.environ.get("WITH") or ""
    if wanted not in ("", "sam", "emulator"):
        sys.exit(f"WITH is sam or emulator, not {wanted}.")
    client = None if wanted == "emulator" else engine()
    address = bridge_address(client) if client else None
    if wanted == "sam" and not address:
        sys.exit("No container engine answers. Start Docker, or say WITH=emulator.")
    if not wanted and not address:
        say("No container engine answers, so this is not sam local invoke but the emulator that it contains.")
    return address


def runner_for(cloud: LocalCloud, address: str | None):
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    if address and not cloud.container_endpoint:
        say("Containers do not reach this local cloud, so this is the emulator. Restart the local cloud with")
        say(f'make run ARGS="--also-listen {address}" for sam local invoke.')
        address = None
    if address:
        return Sam(cloud.stack["functions"], BINARIES, FOLDER, cloud.container_endpoint)
    return Emulator(BINARIES, FOLDER, cloud.endpoint)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
