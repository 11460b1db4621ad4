"""Runs the bootstrap of every function under AWS's Runtime Interface Emulator, and checks its answers to tests/events.

Usage: rie.py BINARIES LOCAL_CLOUD, with the folder of the bootstraps and the program of the local cloud. Tables and
queues are those of the local cloud, and so is the permission check: each bootstrap signs with the key of its function.
The emulator is the one that comes with AWS SAM.

The events are played as one sale, so that each finds what it needs: the sale and the order of the samples are replaced
by those in earlier answers. Nothing else in an event is changed, except where a step says so.
"""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from local_cloud import LocalCloud, free_port, stamp, wait_for, wait_until

EVENTS = pathlib.Path("tests/events")
SAMPLE_SALE = "s1nqrj4w003f0c9yk"
SAMPLE_ORDER = "01M73YF03V69FY4XMCZZ6TJE3WN5Y5Y"
SAMPLE_TICKET = "05EMJ4Q0Z3C8K1V7R2T9XW6N0A"


def main() -> None:
    binaries, local_cloud = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as work:
        cloud = LocalCloud(local_cloud, binaries, pathlib.Path(work))
        try:
            Life(cloud, binaries, pathlib.Path(work)).play()
        finally:
            cloud.stop()


class Emulated:
    """One function under the emulator."""

    def __init__(self, function: dict, binaries: pathlib.Path, work: pathlib.Path, endpoint: str) -> None:
        self.name = function["binary"]
        folder = work / self.name
        folder.mkdir()
        # Lambda starts a file with this name.
        (folder / "bootstrap").symlink_to(binaries / self.name)
        self.port, runtime_port = free_port(), free_port()
        self.log = folder / "log"
        environment = {
            **function["environment"],
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": function["accessKeyId"],
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_SESSION_TOKEN": "local",
            "AWS_LAMBDA_FUNCTION_NAME": function["name"],
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(function["timeoutSeconds"]),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function["memoryMb"]),
            "PATH": os.environ["PATH"],
        }
        arguments = [
            str(emulator()),
            "--runtime-interface-emulator-address",
            f"127.0.0.1:{self.port}",
            "--runtime-api-address",
            f"127.0.0.1:{runtime_port}",
            "./bootstrap",
        ]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                arguments, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        wait_for(self.port, self.process, self.log)

    def invoke(self, event: str):
        address = f"http://127.0.0.1:{self.port}/2015-03-31/functions/function/invocations"
        with urllib.request.urlopen(address, event.encode(), timeout=60) as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        # The emulator does not stop its bootstrap: stop the whole process group.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Life:
    """Plays the events in the order of a sale."""

    def __init__(self, cloud: LocalCloud, binaries: pathlib.Path, work: pathlib.Path) -> None:
        self.cloud = cloud
        endpoint = cloud.endpoint
        self.functions = {}
        self.start = lambda function: Emulated(function, binaries, work, endpoint)
        self.replaced: dict[str, str] = {}
        self.fed: set[str] = set()

    def play(self) -> None:
        try:
            for function in self.cloud.stack["functions"]:
                self.functions[function["binary"]] = self.start(function)
            self.set_up()
            self.buy_and_pay()
            self.buy_and_cancel()
            self.reconcile_and_audit()
            self.push()
        except BaseException:
            for function in self.functions.values():
                print(f"── {function.name}\n{function.log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
            raise
        finally:
            for function in self.functions.values():
                function.stop()
        left_out = {path.stem for path in EVENTS.glob("*.json")} - self.fed
        assert not left_out, f"no step feeds {sorted(left_out)}"
        idle = set(self.functions) - {self.function_of(name) for name in self.fed}
        assert not idle, f"no event is fed to {sorted(idle)}"
        print(f"{len(self.fed)} events, {len(self.functions)} functions: every answer is as it should be")

    def set_up(self) -> None:
        now = time.time()
        when = {"2026-11-11T00:00:00Z": stamp(now - 3600), "2026-11-11T01:00:00Z": stamp(now + 86400)}
        sale = self.http("admin-create-sale", 201, when)
        self.replaced[SAMPLE_SALE] = sale["saleId"]
        expect(self.http("admin-preheat", 200)["status"], "OPEN")
        expect(self.http("admin-restock", 200)["total"], 1100)
        expect(self.http("admin-points", 200)["points"], 500)
        expect([sale["saleId"] for sale in self.http("shop-sales", 200)["sales"]], [sale["saleId"]])

    def buy_and_pay(self) -> None:
        order = self.http("seckill", 202)
        expect(order["status"], "QUEUED")
        expect(self.http("seckill", 202)["orderId"], order["orderId"])
        self.replaced[SAMPLE_ORDER] = order["orderId"]
        expect(self.event("order-consumer"), {"batchItemFailures": []})
        queue = next(
            name for name in self.cloud.ask("/_local/stack")["live"]["queues"] if name.endswith("OrdersDeadLetters")
        )
        expect(self.cloud.ask("/_local/stack")["live"]["queues"][queue]["visible"], 1)
        wait_until(
            "the order waits for its payment",
            lambda: self.http("shop-orders", 200)["orders"][0]["status"] == "PENDING_PAYMENT",
        )
        # The sample notifications are signed with other keys, so they are rejected, in the format of each provider.
        for provider, status, words in (
            ("alipay", 400, "fail"),
            ("wechat", 401, "FAIL"),
            ("wechat-v2", 400, "FAIL"),
            ("stripe", 400, "false"),
        ):
            said = self.raw(f"payment-notify-{provider}")
            assert said["statusCode"] == status and words in said["body"], said
        expect(self.http("shop-orders", 200)["orders"][0]["status"], "PENDING_PAYMENT")
        # Stripe signs with an HMAC, so the sample can be signed with the secret of this shop: a genuine notification.
        payment = self.http("shop-payment", 201, {"wechat": "stripe"})
        expect((payment["amount"], payment["paymentId"]), (69900, order["orderId"] + "0"))
        expect(self.raw("payment-notify-stripe", sign=self.stripe_secret())["statusCode"], 200)
        expect(self.http("shop-orders", 200)["orders"][0]["status"], "PAID")
        # The sandbox's Stripe does not know this payment, so the refund stays open, and reconcile keeps retrying.
        expect(self.http("shop-refund", 202)["status"], "REFUNDING")

    def buy_and_cancel(self) -> None:
        # Another buyer, because the order of the first is paid.
        other = {'"ann"': '"bob"', "7f9c2ba4": "00000000", '\\"ann\\"': '\\"bob\\"'}
        order = self.http("seckill", 202, other)
        self.replaced[SAMPLE_ORDER] = order["orderId"]
        wait_until(
            "the order is there",
            lambda: self.http("shop-orders", 200, other)["orders"][0]["status"] == "PENDING_PAYMENT",
        )
        cancelled = self.http("shop-cancel", 200, other)
        expect((cancelled["status"], cancelled["reason"]), ("CLOSED", "CANCELLED"))
        expect(self.event("timeout-check"), {"orderId": order["orderId"], "status": "CLOSED"})

    def reconcile_and_audit(self) -> None:
        expect(self.event("availability"), {"batchItemFailures": []})
        report = self.event("reconcile")
        expect((report["sales"], report["drift"]), (1, 0))
        audit = self.http("admin-audit", 200)["items"][0]
        expect((audit["drift"], audit["total"]), (0, 1100))

    def push(self) -> None:
        def effect(answer: dict) -> str:
            return answer["policyDocument"]["Statement"][0]["Effect"]

        expect(effect(self.event("push-authorize")), "Deny")
        ticket = {SAMPLE_TICKET: self.cloud.ask("/ws-ticket", {}, self.cloud.token("ann"))["ticket"]}
        expect(effect(self.event("push-authorize", ticket)), "Allow")
        expect(effect(self.event("push-authorize", ticket)), "Deny")
        expect(self.event("push-connect"), {"statusCode": 200})

    def stripe_secret(self) -> str:
        client, shop = self.cloud.client("secretsmanager"), self.cloud.function("shop")
        secret = client.get_secret_value(SecretId=shop["environment"]["PAYMENT_SECRET_ARN"])["SecretString"]
        return json.loads(secret)["stripe"]["webhookSecrets"][0]

    @staticmethod
    def function_of(event: str) -> str:
        for function in ("order-consumer", "payment-notify", "timeout-check"):
            if event.startswith(function):
                return function
        return event.split("-")[0]

    def event(self, name: str, changes: dict[str, str] | None = None, sign: str | None = None):
        text = (EVENTS / f"{name}.json").read_text()
        for old, new in {**self.replaced, **(changes or {})}.items():
            text = text.replace(old, new)
        if sign:
            text = signed(text, sign)
        self.fed.add(name)
        answer = self.functions[self.function_of(name)].invoke(text)
        shown = json.dumps(answer, ensure_ascii=False)
        print(f"  {name:26} {shown[:150]}{'…' if len(shown) > 150 else ''}")
        assert "errorType" not in answer, answer
        return answer

    def raw(self, name: str, changes: dict[str, str] | None = None, sign: str | None = None) -> dict:
        answer = self.event(name, changes, sign)
        if answer.get("isBase64Encoded"):
            answer["body"] = base64.b64decode(answer["body"]).decode()
        return answer

    def http(self, name: str, status: int, changes: dict[str, str] | None = None) -> dict:
        answer = self.raw(name, changes)
        expect(answer["statusCode"], status)
        return json.loads(answer["body"])


def signed(text: str, secret: str) -> str:
    event = json.loads(text)
    now = int(time.time())
    body = json.loads(event["body"])
    body["created"] = now
    event["body"] = json.dumps(body)
    digest = hmac.new(secret.encode(), f"{now}.{event['body']}".encode(), hashlib.sha256).hexdigest()
    event["headers"]["stripe-signature"] = f"t={now},v1={digest}"
    return json.dumps(event)


def emulator() -> pathlib.Path:
    import samcli

    machine = {"x86_64": "x86_64", "aarch64": "arm64"}[os.uname().machine]
    program = pathlib.Path(samcli.__file__).parent / "local" / "rapid" / f"aws-lambda-rie-{machine}"
    program.chmod(0o755)
    return program


def expect(found, wanted) -> None:
    assert found == wanted, f"{found!r} should be {wanted!r}"


if __name__ == "__main__":
    main()
