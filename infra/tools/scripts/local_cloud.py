"""Starts the local cloud for another script, with its own port and data, or finds one that runs."""

import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

# The key that has all permissions (infra/local-cloud/iam).
ROOT_ACCESS_KEY_ID = "AKIALOCALROOT0000000"


class LocalCloud:
    def __init__(
        self,
        program: str,
        binaries: pathlib.Path,
        work: pathlib.Path,
        issuer: bool = False,
        data: pathlib.Path | None = None,
        also_listen: str | None = None,
    ) -> None:
        """With `issuer`, others verify its tokens, so its tokens name its own address. With `data`, which is kept,
        there is a demo sale. Containers reach the engines at the address `also_listen`."""
        self.port = free_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        log = work / "local.log"
        arguments = [program, "--port", str(self.port), "--binaries", str(binaries)]
        arguments += ["--data-dir", str(data)] if data else ["--data-dir", str(work / "data"), "--no-demo"]
        if issuer:
            arguments += ["--parameter", f"JwtIssuer={self.issuer}"]
        if also_listen:
            arguments += ["--also-listen", also_listen]
        with open(log, "wb") as output:
            self.process = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT)
        wait_for(self.port, self.process, log)
        self.look()

    @classmethod
    def running(cls, port: int) -> "LocalCloud | None":
        """The local cloud at this port, if there is one. It is not stopped."""
        cloud = cls.__new__(cls)
        cloud.port, cloud.process = port, None
        try:
            cloud.look()
        except (OSError, ValueError, KeyError):
            return None
        return cloud

    def look(self) -> None:
        self.stack = self.ask("/_local/stack")
        self.endpoint = self.stack["live"]["endpoint"]
        self.container_endpoint = self.stack["live"].get("containerEndpoint")

    def function(self, binary: str) -> dict:
        return next(function for function in self.stack["functions"] if function["binary"] == binary)

    def client(self, service: str):
        import boto3

        keys = {"aws_access_key_id": ROOT_ACCESS_KEY_ID, "aws_secret_access_key": "local"}
        return boto3.client(service, endpoint_url=self.endpoint, region_name="us-east-1", **keys)

    def ask(self, path: str, body: dict | None = None, token: str | None = None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def token(self, who: str, scope: str = "") -> str:
        return self.ask("/_local/token", {"sub": who, "scope": scope})["token"]

    def sale(self, stock: int) -> str:
        """Creates an open sale of one item."""
        operator, form = self.token("operator", "seckill/admin"), sale_form("Sale", stock, 900)
        sale = self.ask("/admin/sales", form, operator)["saleId"]
        self.ask(f"/admin/sales/{sale}/preheat", {}, operator)
        return sale

    def stop(self) -> None:
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=20)


def sale_form(name: str, stock: int, window_s: int) -> dict:
    """A sale of one item that has been open for an hour and lasts a day."""
    now = time.time()
    item = {
        "itemId": "phone",
        "name": "Phone",
        "price": 69900,
        "currency": "CNY",
        "stock": stock,
        "limitPerBuyer": 1,
    }
    return {
        "name": name,
        "startsAt": stamp(now - 3600),
        "endsAt": stamp(now + 86400),
        "paymentWindowSeconds": window_s,
        "items": [item],
    }


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what: str, done, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.3)


def wait_for(port: int, process: subprocess.Popen, log: pathlib.Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{process.args[0]} did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)
