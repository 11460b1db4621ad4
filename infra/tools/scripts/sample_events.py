"""The events in tests/events: which function each is for, and how the ids in them become those of a real sale.

`Walkthrough` plays all of them as one sale, so that each finds what it needs, and checks every answer: the sale and the
order of the samples are replaced by those in earlier answers. Nothing else in an event is changed, except where a step
says so.
"""

import base64
import hashlib
import hmac
import json
import pathlib
import sys
import time

from local_cloud import LocalCloud, stamp, wait_until

EVENTS = pathlib.Path("tests/events")
SAMPLE_SALE = "s1nqrj4w003f0c9yk"
SAMPLE_ORDER = "01M73YF03V69FY4XMCZZ6TJE3WN5Y5Y"
SAMPLE_TICKET = "05EMJ4Q0Z3C8K1V7R2T9XW6N0A"
SAMPLE_BUYER = "ann"


def function_of(event: str) -> str:
    """The binary that an event of this name is for."""
    for function in ("order-consumer", "payment-notify", "timeout-check"):
        if event.startswith(function):
            return function
    return event.split("-")[0]


def sample_times() -> dict[str, str]:
    """The sample sale opens at a fixed time. This one is open now."""
    now = time.time()
    return {"2026-11-11T00:00:00Z": stamp(now - 3600), "2026-11-11T01:00:00Z": stamp(now + 86400)}


def filled(text: str, cloud: LocalCloud) -> str:
    """The event with the ids of an open sale, of an order of its buyer and of a ticket, as far as it mentions them."""
    replaced = sample_times()
    if SAMPLE_SALE in text or SAMPLE_ORDER in text:
        sale = open_sale(cloud)
        replaced[SAMPLE_SALE] = sale
        if SAMPLE_ORDER in text:
            replaced[SAMPLE_ORDER] = an_order(cloud, sale)
    if SAMPLE_TICKET in text:
        replaced[SAMPLE_TICKET] = cloud.ask("/ws-ticket", {}, cloud.token(SAMPLE_BUYER))["ticket"]
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def open_sale(cloud: LocalCloud) -> str:
    """A sale with phones on sale: the demo sale, or else a new one."""
    now = stamp(time.time())
    for sale in cloud.ask("/sales")["sales"]:
        phones = [item for item in sale["items"] if item["itemId"] == "phone" and item["availability"] != "SOLD_OUT"]
        if phones and sale["status"] == "OPEN" and sale["startsAt"] <= now < sale["endsAt"]:
            return sale["saleId"]
    return cloud.sale(100)


def an_order(cloud: LocalCloud, sale: str) -> str:
    """The newest order of the sample's buyer, who presses for one if there is none."""
    token = cloud.token(SAMPLE_BUYER)
    orders = cloud.ask("/orders", token=token)["orders"]
    if not orders:
        cloud.ask("/seckill", {"saleId": sale, "itemId": "phone", "quantity": 1}, token)
        wait_until("the order is there", lambda: cloud.ask("/orders", token=token)["orders"])
        orders = cloud.ask("/orders", token=token)["orders"]
    return orders[0]["orderId"]


class Walkthrough:
    """Plays the events in the order of a sale, each with `runner` (runners.py)."""

    def __init__(self, cloud: LocalCloud, runner) -> None:
        self.cloud, self.runner = cloud, runner
        self.functions = {function["binary"]: function for function in cloud.stack["functions"]}
        self.replaced: dict[str, str] = {}
        self.fed: set[str] = set()

    def play(self) -> None:
        try:
            self.set_up()
            self.buy_and_pay()
            self.buy_and_cancel()
            self.reconcile_and_audit()
            self.push()
        except BaseException:
            print(self.runner.logs(), file=sys.stderr)
            raise
        left_out = {path.stem for path in EVENTS.glob("*.json")} - self.fed
        assert not left_out, f"no step feeds {sorted(left_out)}"
        idle = set(self.functions) - {function_of(name) for name in self.fed}
        assert not idle, f"no event is fed to {sorted(idle)}"
        counts = f"{len(self.fed)} events, {len(self.functions)} functions"
        print(f"{counts}: every answer is as it should be ({self.runner.name})")

    def set_up(self) -> None:
        sale = self.http("admin-create-sale", 201, sample_times())
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

    def event(self, name: str, changes: dict[str, str] | None = None, sign: str | None = None):
        text = (EVENTS / f"{name}.json").read_text()
        for old, new in {**self.replaced, **(changes or {})}.items():
            text = text.replace(old, new)
        if sign:
            text = signed(text, sign)
        self.fed.add(name)
        began = time.monotonic()
        answer = self.runner.invoke(self.functions[function_of(name)], text)
        milliseconds = (time.monotonic() - began) * 1000
        shown = json.dumps(answer, ensure_ascii=False)
        if "statusCode" in answer:
            shown = f"{answer['statusCode']} {answer.get('body', '')}"
        print(f"  {name:26}{milliseconds:6.0f} ms  {shown[:130]}{'…' if len(shown) > 130 else ''}", flush=True)
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


def expect(found, wanted) -> None:
    assert found == wanted, f"{found!r} should be {wanted!r}"

