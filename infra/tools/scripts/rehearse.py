"""Rehearses the deployment on ministack, an independent emulator of AWS.

template.yaml is deployed unchanged, through CloudFormation with the SAM transform and with the real zipped bootstraps.
Then a whole sale runs over HTTP: created, preheated, bought, ordered, timed out, restocked, paid, refunded, audited.

Usage: rehearse.py BINARIES LOCAL_CLOUD MINISTACK. The local cloud provides what a shop brings itself: the issuer of
tokens, and the payment providers (their sandbox). UNSUPPORTED lists what the emulator cannot do, each with its symptom.
The run fails if an entry no longer applies.
"""

import contextlib
import http.client
import http.server
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile

import boto3
from botocore.exceptions import ClientError
from samcli.yamlhelper import yaml_dump, yaml_parse

from local_cloud import LocalCloud, free_port, sale_form, wait_for, wait_until

STACK, BUCKET, REGION = "seckill-rehearsal", "rehearsal", "us-east-1"

# What the emulator cannot do, with its symptom. Each is attempted in the run, so that no entry outlives its reason.
UNSUPPORTED = {
    "an alarm on metric math": (
        "RefusalsAlarm is CREATE_FAILED: Metrics (metric math) is not supported. The stack is created without it"
    ),
    "routes of an HTTP API from its OpenAPI body": (
        "CREATE_COMPLETE, and GetRoutes lists none: the rehearsal creates them from the body that the transform wrote"
    ),
    "a number from a parameter": (
        "MaximumConcurrency: !Ref is kept as text, and the poller fails ('>=' not supported between 'int' and 'str'): "
        "the rehearsal sets the same number again"
    ),
}


def main() -> None:
    binaries, program, ministack = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as after:
        work = pathlib.Path(folder)
        shop = LocalCloud(program, binaries, work, issuer=True)
        after.callback(shop.stop)
        emulator = Emulator(ministack, work)
        after.callback(emulator.stop)
        try:
            Rehearsal(shop, emulator, binaries, pathlib.Path(program).parent / "seckill-ops", work).run()
        except BaseException:
            print(f"── the emulator's log\n{emulator.log.read_text(errors='replace')[-6000:]}", file=sys.stderr)
            raise


class StackFailed(Exception):
    """A stack could not be created. The argument lists the failed resources with their reasons."""


class Emulator:
    def __init__(self, program: str, work: pathlib.Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = work / "ministack.log"
        environment = {
            **os.environ,
            "GATEWAY_PORT": str(self.port),
            "BIND_HOST": "127.0.0.1",
            "AWS_ENDPOINT_URL": self.url,
            "IOT_MTLS_ENABLED": "0",
        }
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program], env=environment, cwd=work, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        wait_for(self.port, self.process, self.log)

    def client(self, service: str):
        return boto3.client(
            service, endpoint_url=self.url, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
        )

    def stop(self) -> None:
        # Its functions are child processes: stop the whole process group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Proxy(http.server.ThreadingHTTPServer):
    """Serves the API at one plain address.

    The emulator selects an API by host name, which this machine may not be able to resolve. The sandbox of the payment
    providers is behind the same address, because its Stripe sends notifications to the address that called it.
    """

    daemon_threads = True

    def __init__(self, emulator: Emulator, shop: LocalCloud) -> None:
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.emulator, self.shop, self.api = emulator, shop, ""
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_all(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("host", "connection", "content-length")
        }
        if self.path.startswith("/_sandbox"):
            port, headers["host"] = self.server.shop.port, f"127.0.0.1:{self.server.server_port}"
        else:
            port = self.server.emulator.port
            headers["host"] = f"{self.server.api}.execute-api.localhost:{port}"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = handle_all

    def log_message(self, *_) -> None:
        pass


class Rehearsal:
    def __init__(
        self, shop: LocalCloud, emulator: Emulator, binaries: pathlib.Path, ops: pathlib.Path, work: pathlib.Path
    ) -> None:
        self.shop, self.emulator, self.binaries, self.ops, self.work = shop, emulator, binaries, ops, work
        self.proxy = Proxy(emulator, shop)
        self.seen: set[str] = set()

    def run(self) -> None:
        began = time.monotonic()
        self.deploy()
        say(f"the stack was created after {time.monotonic() - began:.0f} s")
        self.sell_and_time_out()
        self.pay_and_refund()
        self.reconcile()
        self.operate()
        self.empty_web_bucket()
        self.destroy()
        gone = set(UNSUPPORTED) - self.seen
        assert not gone, f"the emulator supports this now: {sorted(gone)}; remove it from UNSUPPORTED"
        for what, evidence in UNSUPPORTED.items():
            say(f"not rehearsed: {what} ({evidence})")
        say(f"rehearsed in {time.monotonic() - began:.0f} s")

    # ── CloudFormation

    def template(self) -> dict:
        """template.yaml with the location of the code, which is all that `sam package` changes."""
        template = yaml_parse(pathlib.Path("template.yaml").read_text())
        s3 = self.emulator.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Serverless::Function":
                binary = resource["Metadata"]["BuildProperties"]["Binary"]
                s3.put_object(Bucket=BUCKET, Key=f"{binary}.zip", Body=zipped(self.binaries / binary))
                resource["Properties"]["CodeUri"] = f"s3://{BUCKET}/{binary}.zip"
        return template

    def deploy(self) -> None:
        template = self.template()
        cloudformation = self.emulator.client("cloudformation")
        arguments = {
            "TemplateURL": f"{self.emulator.url}/{BUCKET}/template.yaml",
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        }
        machine = {"x86_64": "x86_64", "aarch64": "arm64"}[os.uname().machine]
        given = {
            "JwtIssuer": self.shop.issuer,
            "PublicUrl": self.proxy.url,
            "Architecture": machine,
            "TableProtection": "false",
            "ReconcileConcurrency": "1",
        }
        arguments["Parameters"] = [{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()]
        try:
            self.create(template, arguments)
        except StackFailed as failed:
            if not all("metric math" in reason for reason in failed.args[0]):
                raise
            self.seen.add("an alarm on metric math")
            cloudformation.delete_stack(StackName=STACK)
            wait_until("the failed stack is deleted", lambda: self.deleted(cloudformation), 120)
            template["Resources"].pop("RefusalsAlarm")
            self.create(template, arguments)
        resources = cloudformation.describe_stack_resources(StackName=STACK)["StackResources"]
        unmade = [
            resource["LogicalResourceId"] for resource in resources if resource["ResourceStatus"] != "CREATE_COMPLETE"
        ]
        assert not unmade, f"not created: {unmade}"
        missing = set(template["Resources"]) - {resource["LogicalResourceId"] for resource in resources}
        pages = {name for name, resource in template["Resources"].items() if resource.get("Condition") == "HasWebPages"}
        assert missing == pages, f"missing, or created although WebPages is off: {sorted(missing ^ pages)}"
        say(f"{len(resources)} resources are CREATE_COMPLETE")
        self.outputs = {
            output["OutputKey"]: output["OutputValue"]
            for output in cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["Outputs"]
        }
        self.physical = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}
        self.proxy.api = self.physical["Api"]
        self.numbers()
        self.routes()
        self.rules(arguments)
        # An operator does this once: fill in the settings of the providers.
        secret = self.shop.client("secretsmanager").get_secret_value(
            SecretId=self.shop.function("shop")["environment"]["PAYMENT_SECRET_ARN"]
        )["SecretString"]
        secret = secret.replace(self.shop.issuer, self.proxy.url)
        self.emulator.client("secretsmanager").put_secret_value(
            SecretId=self.outputs["PaymentSecretArn"], SecretString=secret
        )

    def create(self, template: dict, arguments: dict) -> None:
        self.emulator.client("s3").put_object(Bucket=BUCKET, Key="template.yaml", Body=yaml_dump(template).encode())
        self.emulator.client("cloudformation").create_stack(StackName=STACK, **arguments)
        self.await_stack(STACK, "CREATE_COMPLETE")

    def await_stack(self, name: str, wanted: str, seconds: int = 300) -> None:
        cloudformation, end = self.emulator.client("cloudformation"), time.monotonic() + seconds
        while True:
            status = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
            if status["StackStatus"] == wanted:
                return
            if not status["StackStatus"].endswith("_IN_PROGRESS") or time.monotonic() > end:
                events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
                failed = [
                    f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason')}"
                    for event in events
                    if "FAILED" in event["ResourceStatus"]
                ]
                raise StackFailed(failed or [f"{name} is {status['StackStatus']}, not {wanted}"])
            time.sleep(1)

    def numbers(self) -> None:
        """Sets the limit of the queue's poller again, which comes from a parameter."""
        functions = self.emulator.client("lambda")
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
            if limit := mapping.get("ScalingConfig", {}).get("MaximumConcurrency"):
                time.sleep(3)
                if "not supported between instances of 'int' and 'str'" in self.emulator.log.read_text(
                    errors="replace"
                ):
                    self.seen.add("a number from a parameter")
                    functions.update_event_source_mapping(
                        UUID=mapping["UUID"], ScalingConfig={"MaximumConcurrency": int(limit)}
                    )

    def routes(self) -> None:
        """Creates the routes, authorizers and scopes from the OpenAPI body that the SAM transform wrote."""
        gateway, api = self.emulator.client("apigatewayv2"), self.physical["Api"]
        if gateway.get_routes(ApiId=api)["Items"]:
            return
        self.seen.add("routes of an HTTP API from its OpenAPI body")
        processed = self.emulator.client("cloudformation").get_template(StackName=STACK, TemplateStage="Processed")[
            "TemplateBody"
        ]
        processed = processed if isinstance(processed, dict) else yaml_parse(processed)
        body = processed["Resources"]["Api"]["Properties"]["Body"]
        jwt = body["components"]["securitySchemes"]["Token"]["x-amazon-apigateway-authorizer"]
        authorizer = gateway.create_authorizer(
            ApiId=api,
            Name="Token",
            AuthorizerType="JWT",
            IdentitySource=[jwt["identitySource"]],
            JwtConfiguration={"Issuer": self.shop.issuer, "Audience": ["seckill"]},
        )["AuthorizerId"]
        for path, methods in body["paths"].items():
            for method, operation in methods.items():
                if "x-amazon-apigateway-integration" not in operation:
                    continue
                logical = (
                    json.dumps(operation["x-amazon-apigateway-integration"]["uri"]).split("${")[-1].split(".Arn")[0]
                )
                function = self.emulator.client("lambda").get_function(FunctionName=self.physical[logical])[
                    "Configuration"
                ]["FunctionArn"]
                target = gateway.create_integration(
                    ApiId=api, IntegrationType="AWS_PROXY", PayloadFormatVersion="2.0", IntegrationUri=function
                )["IntegrationId"]
                checked = {}
                if security := [scheme["Token"] for scheme in operation.get("security", []) if "Token" in scheme]:
                    checked = {
                        "AuthorizationType": "JWT",
                        "AuthorizerId": authorizer,
                        "AuthorizationScopes": security[0],
                    }
                gateway.create_route(
                    ApiId=api, RouteKey=f"{method.upper()} {path}", Target=f"integrations/{target}", **checked
                )
        say(f"{len(gateway.get_routes(ApiId=api)['Items'])} routes created from the body that the transform wrote")

    def rules(self, arguments: dict) -> None:
        """The Rules of the template reject the default issuer, and one of two parameters that belong together."""
        given = {parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in arguments["Parameters"]}
        forbidden = {"JwtIssuer": {}}
        for one, other in (("WarmReadUnits", "WarmWriteUnits"), ("ShopQueueUrl", "ShopQueueArn")):
            forbidden[one], forbidden[other] = {**given, other: "5000"}, {**given, one: "5000"}
        for number, (missing, parameters) in enumerate(forbidden.items()):
            self.refused(
                f"forbidden-{number}",
                missing,
                {
                    **arguments,
                    "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
                },
            )

    def refused(self, name: str, missing: str, arguments: dict) -> None:
        try:
            self.emulator.client("cloudformation").create_stack(StackName=name, **arguments)
            self.await_stack(name, "CREATE_COMPLETE")
        except (ClientError, StackFailed) as refused:
            assert missing in str(refused), f"rejected for another reason: {refused}"
            say(f"rejected by the Rules of the template: {refused}")
            return
        raise AssertionError(f"a stack without {missing} was created, which the Rules of the template forbid")

    def empty_web_bucket(self) -> None:
        """`make destroy` empties the bucket of the pages before it deletes the stack.

        The emulator has no CloudFront, so the bucket is alone in its stack.
        """
        cloudformation, s3, name = self.emulator.client("cloudformation"), self.emulator.client("s3"), f"{STACK}-pages"
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": self.emulator.url,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

        def stack(command: str, of: str = name) -> str:
            return subprocess.run(
                [sys.executable, "infra/tools/scripts/stack.py", command, of],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()

        assert (stack("status"), stack("web-bucket")) == ("", ""), "the stack does not exist yet"
        cloudformation.create_stack(
            StackName=name, TemplateBody=json.dumps({"Resources": {"WebBucket": {"Type": "AWS::S3::Bucket"}}})
        )
        self.await_stack(name, "CREATE_COMPLETE")
        assert stack("status") == "CREATE_COMPLETE"
        bucket = stack("web-bucket")
        for page in ("index.html", "console.html"):
            s3.put_object(Bucket=bucket, Key=page, Body=b"page")
        stack("empty-web-bucket")
        assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0, f"{bucket} is not empty"
        assert stack("web-bucket", STACK) == "", "a stack without pages has no bucket for them"
        cloudformation.delete_stack(StackName=name)
        say("the bucket of the pages was emptied")

    def destroy(self) -> None:
        cloudformation = self.emulator.client("cloudformation")
        cloudformation.delete_stack(StackName=STACK)
        wait_until("the stack is deleted", lambda: self.deleted(cloudformation), 120)
        tables = [table for table in self.emulator.client("dynamodb").list_tables()["TableNames"] if STACK in table]
        queues = [queue for queue in self.emulator.client("sqs").list_queues().get("QueueUrls", []) if STACK in queue]
        assert not tables and not queues, f"left behind: {tables} {queues}"
        say("the stack is deleted, with everything in it")

    @staticmethod
    def deleted(cloudformation) -> bool:
        try:
            return cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["StackStatus"] == "DELETE_COMPLETE"
        except ClientError:
            return True

    # ── A sale

    def ask(
        self, path: str, who: str | None = None, body: dict | None = None, method: str | None = None
    ) -> tuple[int, dict]:
        headers = {"content-type": "application/json"}
        if who:
            headers["authorization"] = f"Bearer {self.shop.token(who, 'seckill/admin' if who == 'operator' else '')}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.proxy.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as refused:
            said = refused.read()
            return refused.code, json.loads(said) if said.startswith(b"{") else {"said": said.decode()}

    def must(self, status: int, *arguments) -> dict:
        found, said = self.ask(*arguments)
        assert found == status, f"{arguments}: {found}, not {status}: {said}"
        return said

    def sale(self, stock: int, window_s: int) -> str:
        form = sale_form("Rehearsal", stock, window_s)
        sale = self.must(201, "/admin/sales", "operator", form)["saleId"]
        assert self.must(200, f"/admin/sales/{sale}/preheat", "operator", {})["status"] == "OPEN"
        return sale

    def press(self, sale: str, who: str) -> tuple[int, dict]:
        return self.ask("/seckill", who, {"saleId": sale, "itemId": "phone", "quantity": 1})

    def becomes(self, order: str, who: str, status: str, seconds: int = 60) -> dict:
        found = {}

        def done() -> bool:
            found.update(self.must(200, f"/orders/{order}", who))
            return found["status"] == status

        wait_until(f"{order} is {status}", done, seconds)
        return found

    def sell_and_time_out(self) -> None:
        assert self.ask("/seckill", None, {})[0] == 401, "a purchase needs a token"
        assert self.ask("/admin/sales", "alice", {})[0] == 403, "creating a sale needs the scope"
        sale = self.sale(2, 20)
        first = self.buys(sale, "alice")
        status, again = self.press(sale, "alice")
        assert (status, again["code"], again.get("orderId")) == (409, "DUPLICATE_ORDER", first), again
        second = self.buys(sale, "zoe")
        wait_until("bob sees that it is sold out", lambda: self.press(sale, "bob")[1].get("code") == "SOLD_OUT")
        say("created, preheated, bought, ordered, sold out")
        for order, who in ((first, "alice"), (second, "zoe")):
            closed = self.becomes(order, who, "CLOSED", 120)
            assert closed["reason"] == "TIMED_OUT", closed
        wait_until("bob buys what came back", lambda: self.press(sale, "bob")[0] == 202)
        self.audit(sale, 2)
        say("timed out by their schedules, back on sale, bought again")
        sale = self.sale(1, 900)
        self.buys(sale, "alice")
        wait_until("carol sees that it is sold out", lambda: self.press(sale, "carol")[1].get("code") == "SOLD_OUT")
        self.must(200, f"/admin/sales/{sale}/items/phone/restock", "operator", {"quantity": 5})
        wait_until("carol buys after the restock", lambda: self.press(sale, "carol")[0] == 202)
        self.audit(sale, 6)
        say("restocked, bought again")

    def buys(self, sale: str, who: str) -> str:
        status, accepted = self.press(sale, who)
        assert status == 202, accepted
        self.becomes(accepted["orderId"], who, "PENDING_PAYMENT")
        return accepted["orderId"]

    def pay_and_refund(self) -> None:
        sale = self.sale(10, 900)
        for method in ("alipay", "wechat", "wechat-v2", "stripe"):
            buyer = f"payer-{method}"
            order = self.buys(sale, buyer)
            payment = self.must(201, f"/orders/{order}/payments", buyer, {"method": method})
            if payment["payUrl"]:
                # Alipay learns of a payment when the buyer opens the link.
                urllib.request.urlopen(payment["payUrl"], timeout=30).close()
            self.shop.ask(f"/_sandbox/payments/{payment['paymentId']}", {"action": "pay"})
            self.becomes(order, buyer, "PAID")
            say(f"paid with {method}: its signed notification arrived through the API")
        status, _ = self.ask(f"/orders/{order}/refund", buyer, {})
        assert status in (200, 202), status
        self.becomes(order, buyer, "REFUNDED", 90)
        say("refunded")
        self.audit(sale, 10)
        self.paid_sale = sale

    def audit(self, sale: str, total: int) -> None:
        item = self.must(200, f"/admin/sales/{sale}/audit", "operator")["items"][0]
        assert (item["total"], item["drift"], item["findings"]) == (total, 0, []), item

    def reconcile(self) -> None:
        answer = self.emulator.client("lambda").invoke(
            FunctionName=self.outputs["ReconcileFunctionName"], Payload=b"{}"
        )
        report = json.loads(answer["Payload"].read())
        assert report["drift"] == 0 and not report["findings"], report
        ledger = self.emulator.client("dynamodb").scan(TableName=self.physical["LedgerTable"], Select="COUNT")["Count"]
        assert ledger >= 10, f"only {ledger} ledger rows were written from the stream of the stock"
        for name in ("OrdersDeadLettersUrl", "TimeoutDeadLettersUrl", "StockStreamDeadLettersUrl"):
            count = self.emulator.client("sqs").get_queue_attributes(
                QueueUrl=self.outputs[name], AttributeNames=["ApproximateNumberOfMessages"]
            )
            assert count["Attributes"]["ApproximateNumberOfMessages"] == "0", name
        say(f"reconciled without a finding; {ledger} ledger rows from the stock's stream; no dead letters")

    def operate(self) -> None:
        """Runs the commands of an operator, as `make redrive STAGE=…` and `make audit STAGE=…` do."""
        outputs = self.work / "outputs.json"
        shown = {**self.outputs, "ApiUrl": self.proxy.url}
        outputs.write_text(json.dumps([{"OutputKey": key, "OutputValue": value} for key, value in shown.items()]))
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": self.emulator.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        environment["ADMIN_TOKEN"] = self.shop.token("operator", "seckill/admin")

        def command(*arguments: str) -> str:
            done = subprocess.run(
                [self.ops, *arguments, "--outputs", outputs],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, f"{arguments}: {done.stderr}"
            return done.stdout

        # A message of a later version cannot be handled.
        self.emulator.client("sqs").send_message(
            QueueUrl=self.outputs["OrdersQueueUrl"], MessageBody='{"version":99,"orderId":"0"}'
        )
        wait_until("the dead letter is shown", lambda: "version 99" in command("dead-letters"))
        assert "sent to the orders queue again" in command("redrive")
        wait_until("it returns, because it still cannot be handled", lambda: "version 99" in command("dead-letters"))
        assert "phone" in command("audit", self.paid_sale)
        say("the commands of an operator work: dead letters shown and redriven, a sale audited")


def zipped(binary: pathlib.Path) -> bytes:
    content = io.BytesIO()
    entry = zipfile.ZipInfo("bootstrap")
    entry.external_attr = 0o755 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(entry, binary.read_bytes(), compresslevel=1)
    return content.getvalue()


def say(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    main()
