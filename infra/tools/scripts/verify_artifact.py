"""Checks and executes what `make build` made, before it is deployed.

Usage: verify_artifact.py ARCHITECTURE. For each function's bootstrap in .aws-sam/build: its processor, its size, the
libraries that it needs and the version of the C library, against Lambda's provided.al2023. Then every event of
tests/events runs on these bootstraps and the local cloud, and the answers are checked: under AWS's Runtime Interface
Emulator if this machine has that processor, and otherwise under QEMU's user mode emulation, behind a Runtime API.
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from local_cloud import LocalCloud
from runners import MACHINE, Emulator, Qemu, logical_id
from sample_events import Walkthrough

BUILT = pathlib.Path(".aws-sam/build")
PROGRAM = "target/debug/seckill-local"
# What provided.al2023 has: https://docs.aws.amazon.com/linux/al2023/ug/core-glibc.html
GLIBC = (2, 34)
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
LOADERS = {"arm64": "ld-linux-aarch64.so.1", "x86_64": "ld-linux-x86-64.so.2"}
PROCESSORS = {"arm64": "AArch64", "x86_64": "X86-64"}
# A bootstrap is read at every cold start. They have 9 to 13 MB (docs/figures.md).
MOST_MB = 16
# For a bootstrap of another processor: the emulator, and the C library to load.
QEMU = {"arm64": ("qemu-aarch64-static", "qemu-aarch64"), "x86_64": ("qemu-x86_64-static", "qemu-x86_64")}
SYSROOTS = {"arm64": "/usr/aarch64-linux-gnu", "x86_64": "/usr/x86_64-linux-gnu"}
PACKAGES = {
    "arm64": "qemu-user-static libc6-arm64-cross libgcc-s1-arm64-cross",
    "x86_64": "qemu-user-static libc6-amd64-cross libgcc-s1-amd64-cross",
}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in LOADERS:
        sys.exit(__doc__)
    architecture = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as after:
        work = pathlib.Path(folder)
        # The local cloud lists the functions, and runs those that an event of the walkthrough sets off.
        cloud = LocalCloud(PROGRAM, pathlib.Path("target/debug").resolve(), work)
        after.callback(cloud.stop)
        bootstraps = {}
        for function in cloud.stack["functions"]:
            bootstrap = BUILT / logical_id(function) / "bootstrap"
            if not bootstrap.exists():
                sys.exit(f"{bootstrap} is missing. Build it: make build ARCH={architecture}")
            bootstraps[function["binary"]] = bootstrap.resolve()
        problems = [problem for found in bootstraps.values() for problem in inspect(found, architecture)]
        if problems:
            sys.exit("\n".join(problems))
        runner = runner_for(architecture, bootstraps, work, cloud.endpoint)
        after.callback(runner.stop)
        print(f"Every event of tests/events on the {architecture} bootstraps, with {runner.name}:", flush=True)
        Walkthrough(cloud, runner).play()


def inspect(bootstrap: pathlib.Path, architecture: str) -> list[str]:
    """Prints the facts about a bootstrap, and returns what is wrong with it."""
    name = bootstrap.parent.name
    megabytes = bootstrap.stat().st_size / 1e6
    header = readelf("--file-header", bootstrap)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", bootstrap)))
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", readelf("--version-info", bootstrap))
    version = max((int(major), int(minor)) for major, minor in versions) if versions else (0, 0)
    unknown = needed - LIBRARIES - {LOADERS[architecture]}
    shown = ", ".join(sorted(needed))
    print(f"  {name:24}{megabytes:5.1f} MB  GLIBC {version[0]}.{version[1]}  {shown}", flush=True)
    problems = []
    if PROCESSORS[architecture] not in header:
        problems.append(f"{name} is not for {architecture}. Build it: make build ARCH={architecture}")
    if megabytes > MOST_MB:
        problems.append(f"{name} has {megabytes:.1f} MB, more than {MOST_MB}: see what made it grow (cargo bloat).")
    if version > GLIBC:
        problems.append(f"{name} needs GLIBC {version[0]}.{version[1]}; Lambda has {GLIBC[0]}.{GLIBC[1]}.")
    if unknown:
        problems.append(f"{name} needs {', '.join(sorted(unknown))}, which Lambda's image does not have.")
    return problems


def readelf(option: str, file: pathlib.Path) -> str:
    return subprocess.run(["readelf", "--wide", option, file], check=True, capture_output=True, text=True).stdout


def runner_for(architecture: str, bootstraps: dict[str, pathlib.Path], work: pathlib.Path, endpoint: str):
    if architecture == MACHINE:
        binaries = work / "binaries"
        binaries.mkdir()
        for name, bootstrap in bootstraps.items():
            (binaries / name).symlink_to(bootstrap)
        return Emulator(binaries, work, endpoint)
    qemu = next((found for program in QEMU[architecture] if (found := shutil.which(program))), None)
    sysroot = pathlib.Path(SYSROOTS[architecture])
    if not qemu or not (sysroot / "lib" / LOADERS[architecture]).exists():
        sys.exit(
            f"The {architecture} bootstraps cannot be executed on this machine. Install QEMU and that processor's C "
            f"library: apt install {PACKAGES[architecture]}"
        )
    return Qemu(qemu, sysroot, lambda function: bootstraps[function["binary"]], work, endpoint)


if __name__ == "__main__":
    main()
