#!/usr/bin/env python3
"""Fuzzes the running local cloud with schemathesis: no answer may be a 5xx or differ from web/openapi.yaml.

There are two rounds: one with generated ids, and one with an existing sale, item and order. EXAMPLES is the number of
requests for each operation and phase. schemathesis is installed into .venv/fuzz-api.
"""

import datetime
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SCHEMATHESIS = "schemathesis==4.32.5"
CHECKS = ",".join(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
    ]
)
root = pathlib.Path(__file__).resolve().parent.parent
os.chdir(root)


def installed():
    venv = root / ".venv/fuzz-api"
    program = venv / "bin/schemathesis"
    if not program.exists():
        print("Installing schemathesis...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run(
            [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", SCHEMATHESIS], check=True
        )
    return program


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Cloud:
    def __init__(self, directory):
        port = os.environ.get("FUZZ_PORT") or free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.log = open(f"{directory}/log", "w+")
        command = ["target/debug/seckill-local", "--port", str(port), "--data-dir", f"{directory}/data"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(600):
            try:
                if self.call("/sales")["sales"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        self.log.seek(0)
        sys.exit(f"the local cloud did not start:\n{self.log.read()}")

    def call(self, path, body=None, token=None):
        headers = {"content-type": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.base + path, data, headers)) as answer:
            return json.load(answer)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def fuzz(program, directory, cloud, token, *settings):
    command = [
        program,
        *settings,
        "run",
        root / "web/openapi.yaml",
        "--url",
        cloud.base,
        "--header",
        f"Authorization: Bearer {token}",
        "--checks",
        CHECKS,
        "--max-examples",
        os.environ.get("EXAMPLES", "20"),
        "--seed",
        "1",
        "--request-timeout",
        "30",
        "--no-color",
        "--warnings",
        "off",
    ]
    # It writes files into its working directory, so it gets a temporary one.
    return subprocess.run(command, cwd=directory).returncode


def main():
    program = installed()
    with tempfile.TemporaryDirectory() as directory:
        cloud = Cloud(directory)
        try:
            token = cloud.call("/_local/token", {"sub": "fuzzer", "scope": "seckill/admin"})["token"]
            print("== With generated ids", flush=True)
            first = fuzz(program, directory, cloud, token)
            now = datetime.datetime.now(datetime.timezone.utc)
            item = {"itemId": "mug", "name": "Mug", "price": 100, "currency": "CNY", "stock": 100}
            times = {"startsAt": now.isoformat(), "endsAt": (now + datetime.timedelta(days=1)).isoformat()}
            sale = cloud.call("/admin/sales", {"name": "fuzz", **times, "items": [item]}, token)["saleId"]
            cloud.call(f"/admin/sales/{sale}/preheat", {}, token)
            order = cloud.call("/seckill", {"saleId": sale, "itemId": "mug", "quantity": 1}, token)["orderId"]
            known = f'[parameters]\n"path.saleId" = "{sale}"\n"path.itemId" = "mug"\n"path.orderId" = "{order}"\n'
            pathlib.Path(directory, "schemathesis.toml").write_text(known)
            print("== With an existing sale, item and order", flush=True)
            second = fuzz(program, directory, cloud, token, "--config-file", f"{directory}/schemathesis.toml")
            return first or second
        finally:
            cloud.stop()


sys.exit(main())
