"""Measures the start and the answers of each function beside a minimal one of the same profile (infra/tools/minimal).

Usage: cold_start.py BINARIES LOCAL_CLOUD [STARTS]. Each bootstrap is started repeatedly, in turn with the others,
behind a minimal Runtime API that only hands out events. DynamoDB and SQS are the engines of the local cloud behind TLS,
and the system's root certificates are read. Times depend on the machine. CPU time is that of all threads of the
process, by the kernel's clock.
"""

import json
import pathlib
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from local_cloud import ROOT_ACCESS_KEY_ID, LocalCloud, wait_until
from runners import RuntimeApi

CERTIFICATES = pathlib.Path("crates/providers/src/tests/certificates")
SYSTEM_ROOTS = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
WARM = 300
# More than a run buys, and more than one page of availability (12,288 units), as in a large sale.
STOCK = 40_000
# The highest allowed cost of seckill, relative to the minimal function.
MOST = 1.3


def tls_before(address: tuple[str, int]) -> int:
    """Opens a port that terminates TLS and forwards everything to `address`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem", CERTIFICATES / "server.key")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(plain: socket.socket) -> None:
        try:
            secure = context.wrap_socket(plain, server_side=True)
            behind = socket.create_connection(address)
        except OSError:
            return
        for one, other in ((secure, behind), (behind, secure)):
            threading.Thread(target=copy, args=(one, other), daemon=True).start()

    def copy(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def accept() -> None:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


class Process:
    """A newly started bootstrap."""

    def __init__(self, program: pathlib.Path, environment: dict) -> None:
        self.runtime = RuntimeApi()
        environment = {**environment, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.runtime.server_port}"}
        began = time.monotonic()
        self.process = subprocess.Popen(
            [program], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.init_ms = (self.runtime.polled.get(timeout=20) - began) * 1000

    def cpu_ms(self) -> float:
        # The kernel's CPU clock of another process: see clock_getcpuclockid(3).
        return time.clock_gettime((~self.process.pid << 3) | 2) * 1000

    def invoke(self, event: bytes) -> tuple[str, bytes]:
        """Returns the answer once the process has polled for the next event."""
        self.runtime.events.put(event)
        answer = self.runtime.answers.get(timeout=20)
        self.runtime.polled.get(timeout=20)
        return answer

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.runtime.events.put(None)
        self.runtime.shutdown()
        self.runtime.server_close()


def press(sale: str, buyer: str) -> bytes:
    event = json.loads(pathlib.Path("tests/events/seckill.json").read_text())
    event["body"] = json.dumps({"saleId": sale, "itemId": "phone", "quantity": 1})
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = buyer
    del event["headers"]["idempotency-key"]
    return json.dumps(event).encode()


def warm_cpu_us(process: Process, events: list[bytes], wanted: int) -> float:
    before = process.cpu_ms()
    for event in events:
        path, body = process.invoke(event)
        status = json.loads(body)["statusCode"]
        assert path.endswith("/response") and status == wanted, (path, body)
    return (process.cpu_ms() - before) / len(events) * 1000


def main() -> None:
    binaries, program = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    starts = int(sys.argv[3]) if len(sys.argv) > 3 else 21
    with tempfile.TemporaryDirectory() as work:
        cloud = LocalCloud(program, binaries, pathlib.Path(work))
        try:
            measure(cloud, binaries, pathlib.Path(work), starts)
        finally:
            cloud.stop()


def measure(cloud: LocalCloud, binaries: pathlib.Path, work: pathlib.Path, starts: int) -> None:
    sale, gone = cloud.sale(STOCK), cloud.sale(1)
    cloud.ask("/seckill", {"saleId": gone, "itemId": "phone", "quantity": 1}, cloud.token("first"))
    wait_until(
        "the sale is sold out",
        lambda: cloud.ask(f"/sales/{gone}")["sales"][0]["items"][0]["availability"] == "SOLD_OUT",
    )
    roots = work / "roots.pem"
    with open(roots, "wb") as file:
        for part in (SYSTEM_ROOTS, CERTIFICATES / "ca.pem"):
            if part.exists():
                shutil.copyfileobj(open(part, "rb"), file)
    host, port = cloud.endpoint.removeprefix("http://").split(":")
    common = {
        "AWS_ENDPOINT_URL": f"https://127.0.0.1:{tls_before((host, int(port)))}",
        "AWS_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_SESSION_TOKEN": "local",
        "SSL_CERT_FILE": str(roots),
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_STREAM_NAME": "s",
        "AWS_LAMBDA_LOG_GROUP_NAME": "g",
    }
    functions = {
        function["binary"]: {**common, **function["environment"], "AWS_ACCESS_KEY_ID": function["accessKeyId"]}
        for function in cloud.stack["functions"]
    }
    minimal = "minimal"
    functions[minimal] = {
        **common,
        "STOCK_TABLE": functions["seckill"]["STOCK_TABLE"],
        "AWS_ACCESS_KEY_ID": ROOT_ACCESS_KEY_ID,
    }

    init: dict[str, list[float]] = {name: [] for name in functions}
    first: dict[str, list[float]] = {name: [] for name in (minimal, "seckill")}
    warm: dict[str, list[float]] = {"minimal": [], "refusal": [], "purchase": []}
    for turn in range(starts):
        print(f"\rstart {turn + 1} of {starts}", end="", file=sys.stderr, flush=True)
        for name, environment in functions.items():
            process = Process(binaries / name, environment)
            init[name].append(process.init_ms)
            if name in first:
                path, _ = process.invoke(press(sale, f"cold-{turn}"))
                assert path.endswith("/response"), f"{name} failed: {path}"
                first[name].append(process.cpu_ms())
            if name in first and turn % 7 == 0:
                buyers = [f"{turn}-{number}" for number in range(WARM)]
                if name == minimal:
                    warm["minimal"].append(warm_cpu_us(process, [press(sale, buyer) for buyer in buyers], 200))
                else:
                    warm["purchase"].append(warm_cpu_us(process, [press(sale, buyer) for buyer in buyers], 202))
                    warm["refusal"].append(warm_cpu_us(process, [press(gone, buyer) for buyer in buyers], 409))
            process.stop()
    print(file=sys.stderr)
    median = statistics.median
    print(f"{'function':18}{'MB':>6}{'start to first poll, ms':>26}{'CPU to first answer over TLS, ms':>36}")
    for name in sorted(functions, key=lambda name: (name != minimal, name != "seckill", name)):
        size = (binaries / name).stat().st_size / 1e6
        cpu = f"{median(first[name]):.1f}" if name in first else ""
        print(f"{name:18}{size:>6.1f}{median(init[name]):>26.1f}{cpu:>36}")
    print(
        f"warm, CPU per answer: SOLD_OUT {median(warm['refusal']):.0f} µs, "
        f"purchase {median(warm['purchase']):.0f} µs (3 calls), "
        f"minimal function {median(warm['minimal']):.0f} µs (1 call)"
    )
    ratios = {
        "start to first poll": median(init["seckill"]) / median(init[minimal]),
        "CPU to the first answer": median(first["seckill"]) / median(first[minimal]),
    }
    for what, ratio in ratios.items():
        print(f"seckill, {what}: {ratio:.2f} times the minimal function (at most {MOST})")
    if max(ratios.values()) > MOST:
        sys.exit(f"seckill costs more than {MOST} times the minimal function")


if __name__ == "__main__":
    main()
