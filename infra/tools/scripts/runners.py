"""Ways to run a function's bootstrap on one event: SAM in a container, AWS's emulator of Lambda's runtime, or neither.

Each runner has `invoke(function, event)`, which returns the answer, and `stop()`. A function is an entry of
`/_local/stack`: tables and queues are those of the local cloud, and the bootstrap signs with the key of its function.
"""

import http.server
import json
import os
import pathlib
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

from local_cloud import free_port, wait_for

REGION = "us-east-1"
MACHINE = {"x86_64": "x86_64", "aarch64": "arm64"}[os.uname().machine]


def logical_id(function: dict) -> str:
    """The name in template.yaml: the name of the stack is in front of it."""
    return function["name"].split("-", 1)[1]


def environment(function: dict, endpoint: str) -> dict[str, str]:
    return {
        **function["environment"],
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": function["accessKeyId"],
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_SESSION_TOKEN": "local",
    }


def lambda_variables(function: dict) -> dict[str, str]:
    """What Lambda itself sets."""
    return {
        "AWS_LAMBDA_FUNCTION_NAME": function["name"],
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(function["timeoutSeconds"]),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function["memoryMb"]),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function['name']}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "PATH": os.environ["PATH"],
    }


class Sam:
    """`sam local invoke`, each event in a container of its own."""

    name = "sam local invoke, in a container"

    def __init__(self, functions: list[dict], binaries: pathlib.Path, folder: pathlib.Path, endpoint: str) -> None:
        from samcli.yamlhelper import yaml_dump, yaml_parse

        self.folder, self.endpoint = folder, endpoint
        self.log = folder / "sam.log"
        self.is_shown = False
        template = yaml_parse(pathlib.Path("template.yaml").read_text())
        variables = {}
        for function in functions:
            name = logical_id(function)
            place_bootstrap(binaries / function["binary"], folder / name)
            variables[name] = environment(function, endpoint)
            resource = template["Resources"][name]
            # Its code is a folder with a bootstrap, which nothing has to build.
            resource["Properties"]["CodeUri"] = name
            del resource["Metadata"]
            # SAM sets only variables that the template declares.
            declared = resource["Properties"].setdefault("Environment", {}).setdefault("Variables", {})
            for variable in set(variables[name]) - set(declared):
                declared[variable] = ""
        (folder / "template.yaml").write_text(yaml_dump(template))
        (folder / "env.json").write_text(json.dumps(variables, indent=2))

    def command(self, function: dict, event: pathlib.Path) -> list[str]:
        arguments = ["sam", "local", "invoke", logical_id(function), "--template", str(self.folder / "template.yaml")]
        arguments += ["--env-vars", str(self.folder / "env.json"), "--event", str(event)]
        arguments += ["--parameter-overrides", f"Architecture={MACHINE}", "--region", REGION]
        # The payment providers of the local cloud are at localhost, which is another machine for a container.
        arguments += ["--add-host", f"localhost:{urllib.parse.urlsplit(self.endpoint).hostname}"]
        return arguments + (["--skip-pull-image"] if has_image() else [])

    def invoke(self, function: dict, event: str):
        file = self.folder / "event.json"
        file.write_text(event)
        command = self.command(function, file)
        if self.is_shown:
            print(f"$ {shlex.join([str(pathlib.Path('.venv/sam/bin/sam')), *command[1:]])}\n", file=sys.stderr)
        program = pathlib.Path(sys.executable).parent / "sam"
        # SAM passes the credentials of this machine on; the file of variables has those that count.
        variables = {**os.environ, "SAM_CLI_TELEMETRY": "0", "AWS_ACCESS_KEY_ID": "local"}
        variables |= {"AWS_SECRET_ACCESS_KEY": "local", "AWS_SESSION_TOKEN": "local"}
        with open(self.log, "ab") as log:
            done = subprocess.run([program, *command[1:]], stdout=subprocess.PIPE, stderr=log, env=variables)
        lines = done.stdout.decode().strip().splitlines()
        if done.returncode != 0 or not lines:
            sys.exit(f"sam local invoke failed:\n{self.log.read_text(errors='replace')[-3000:]}")
        return json.loads(lines[-1])

    def logs(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self) -> None:
        pass


class Emulator:
    """AWS's Runtime Interface Emulator, which comes with SAM, without a container."""

    name = "AWS's Runtime Interface Emulator, without a container"

    def __init__(self, binaries: pathlib.Path, folder: pathlib.Path, endpoint: str) -> None:
        self.binaries, self.folder, self.endpoint = binaries, folder, endpoint
        self.running: dict[str, tuple[int, subprocess.Popen]] = {}
        self.is_shown = False

    def invoke(self, function: dict, event: str):
        name = function["binary"]
        if name not in self.running:
            self.running[name] = self.start(function)
        port, process = self.running[name]
        address = f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations"
        if self.is_shown:
            (self.folder / "event.json").write_text(event)
            print(f"$ curl -d @{shlex.quote(str(self.folder / 'event.json'))} {address}\n", file=sys.stderr)
        with urllib.request.urlopen(address, event.encode(), timeout=60) as answer:
            return json.loads(answer.read())

    def start(self, function: dict) -> tuple[int, subprocess.Popen]:
        folder = self.folder / logical_id(function)
        place_bootstrap(self.binaries / function["binary"], folder)
        port, runtime_port = free_port(), free_port()
        variables = environment(function, self.endpoint) | lambda_variables(function)
        (folder / "environment").write_text(
            "".join(f"{key}={shlex.quote(value)}\n" for key, value in variables.items() if key != "PATH")
        )
        command = [str(emulator()), "--runtime-interface-emulator-address", f"127.0.0.1:{port}"]
        command += ["--runtime-api-address", f"127.0.0.1:{runtime_port}", "./bootstrap"]
        if self.is_shown:
            shown = f"cd {shlex.quote(str(folder))} && set -a && . ./environment && {shlex.join(command)}"
            print(f"$ ({shown}) &", file=sys.stderr)
        log = folder / "log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        wait_for(port, process, log)
        return port, process

    def logs(self) -> str:
        return "".join(
            f"── {log.parent.name}\n{log.read_text(errors='replace')[-2000:]}\n" for log in self.folder.glob("*/log")
        )

    def stop(self) -> None:
        for _, process in self.running.values():
            # The emulator does not stop its bootstrap: stop the whole process group.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Qemu:
    """A bootstrap for another processor, under QEMU's user mode emulation, behind a minimal Runtime API."""

    name = "qemu-user, behind a Runtime API"

    def __init__(self, qemu: str, libraries: pathlib.Path, bootstrap, folder: pathlib.Path, endpoint: str) -> None:
        """`bootstrap(function)` is the file to run, and `libraries` a folder with the C library it is linked with."""
        self.qemu, self.libraries, self.bootstrap = qemu, libraries, bootstrap
        self.folder, self.endpoint = folder, endpoint
        self.running: dict[str, tuple[RuntimeApi, subprocess.Popen]] = {}

    def invoke(self, function: dict, event: str):
        name = function["binary"]
        if name not in self.running:
            self.running[name] = self.start(function)
        api, process = self.running[name]
        api.events.put(event.encode())
        while True:
            try:
                path, answer = api.answers.get(timeout=1)
                break
            except queue.Empty:
                if process.poll() is not None:
                    sys.exit(f"{name} ended with {process.returncode}:\n{self.logs()}")
        assert path.endswith(("/response", "/error")), path
        return json.loads(answer)

    def start(self, function: dict):
        api = RuntimeApi()
        variables = environment(function, self.endpoint) | lambda_variables(function)
        variables["AWS_LAMBDA_RUNTIME_API"] = f"127.0.0.1:{api.server_port}"
        command = [self.qemu, "-L", str(self.libraries), str(self.bootstrap(function))]
        with open(self.folder / f"{function['binary']}.log", "wb") as log:
            process = subprocess.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT)
        return api, process

    def logs(self) -> str:
        return "".join(
            f"── {log.stem}\n{log.read_text(errors='replace')[-2000:]}\n" for log in self.folder.glob("*.log")
        )

    def stop(self) -> None:
        for api, process in self.running.values():
            process.kill()
            process.wait()
            api.events.put(None)
            api.shutdown()
            api.server_close()


class RuntimeApi(http.server.ThreadingHTTPServer):
    """A Runtime API that hands out events, and records when it is polled and what is answered."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RuntimeApiHandler)
        self.events: queue.Queue = queue.Queue()
        self.polled: queue.Queue = queue.Queue()
        self.answers: queue.Queue = queue.Queue()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


class RuntimeApiHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.server.polled.put(time.monotonic())
        body = self.server.events.get()
        if body is None:
            return
        self.reply(
            200,
            body,
            {
                "Lambda-Runtime-Aws-Request-Id": "1",
                "Lambda-Runtime-Deadline-Ms": str(int((time.time() + 30) * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:000000000000:function:f",
                "Lambda-Runtime-Trace-Id": "Root=1-2-3",
            },
        )

    def do_POST(self) -> None:
        body = (
            self.rfile.read(int(self.headers.get("content-length") or 0))
            if "content-length" in self.headers
            else self.chunks()
        )
        self.reply(202, b"", {})
        self.server.answers.put((self.path, body))

    def chunks(self) -> bytes:
        body = b""
        while length := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def reply(self, status: int, body: bytes, headers: dict) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


def place_bootstrap(program: pathlib.Path, folder: pathlib.Path) -> None:
    """Lambda starts a file with the name bootstrap."""
    if not program.exists():
        sys.exit(f"{program} is missing: build it with cargo build --workspace --bins")
    folder.mkdir(parents=True, exist_ok=True)
    bootstrap = folder / "bootstrap"
    bootstrap.unlink(missing_ok=True)
    try:
        bootstrap.hardlink_to(program.resolve())
    except OSError:
        bootstrap.write_bytes(program.read_bytes())
        bootstrap.chmod(0o755)


def emulator() -> pathlib.Path:
    import samcli

    program = pathlib.Path(samcli.__file__).parent / "local" / "rapid" / f"aws-lambda-rie-{MACHINE}"
    program.chmod(0o755)
    return program


def engine():
    """A client of the container engine, if one answers."""
    import docker

    try:
        client = docker.from_env(timeout=10)
        client.ping()
        return client
    except (docker.errors.DockerException, OSError):
        return None


def has_image() -> bool:
    import docker

    try:
        engine().images.get(f"public.ecr.aws/lambda/provided:al2023-{MACHINE}")
        return True
    except docker.errors.ImageNotFound:
        return False


def bridge_address(client) -> str | None:
    """This machine's address on the bridge of the containers."""
    for network in client.networks.list(names=["bridge"]):
        for config in network.attrs["IPAM"]["Config"] or []:
            if "Gateway" in config:
                return config["Gateway"]
            # An engine of its own range does not name its address, which is the first one.
            if "Subnet" in config:
                return config["Subnet"].rsplit(".", 1)[0] + ".1"
    return None
