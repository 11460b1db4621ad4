"""Checks template.yaml after the SAM transform for what no linter knows and a sale would suffer from."""

import json
import pathlib
import re
import sys

import boto3
from samcli.yamlhelper import yaml_parse
from samtranslator.translator.translator import Translator
from samtranslator.parser.parser import Parser


class Managed:
    """The managed policies that SAM looks up by name. Their ARNs do not matter here."""

    def load(self) -> dict:
        return {name: f"arn:aws:iam::aws:policy/{name}" for name in NAMES}


NAMES = (
    "AWSLambdaBasicExecutionRole",
    "AWSLambdaSQSQueueExecutionRole",
    "AWSLambdaDynamoDBExecutionRole",
    "AWSXRayDaemonWriteAccess",
    "AWSXrayWriteOnlyAccess",
)


def main() -> None:
    written = yaml_parse(pathlib.Path("template.yaml").read_text())
    parameters = {name: value["Default"] for name, value in written["Parameters"].items()}
    template = yaml_parse(pathlib.Path("template.yaml").read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource.setdefault("Properties", {})["CodeUri"] = "s3://bucket/key"
    session = boto3.Session(region_name="eu-central-1")
    translated = Translator(Managed().load(), Parser(), boto_session=session).translate(template, parameters)
    problems = Checks(translated["Resources"], written).run()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(f"{len(problems)} problems in template.yaml")


class Checks:
    def __init__(self, resources: dict, written: dict) -> None:
        self.all, self.written = resources, written
        self.problems: list[str] = []
        self.checked = 0

    def of(self, kind: str):
        return [(name, resource["Properties"]) for name, resource in self.all.items() if resource["Type"] == kind]

    def must(self, true: bool, problem: str) -> None:
        self.checked += 1
        if not true:
            self.problems.append(problem)

    def run(self) -> list[str]:
        self.functions()
        self.queues()
        self.streams()
        self.asynchronous()
        self.tables()
        self.alarms()
        self.policies()
        self.pages()
        self.names()
        if not self.problems:
            print(f"template.yaml after SAM's transform: {self.checked} checks passed")
        return self.problems

    def functions(self) -> None:
        groups = dict(self.of("AWS::Logs::LogGroup"))
        used = []
        for name, function in self.of("AWS::Lambda::Function"):
            group = named(function.get("LoggingConfig", {}).get("LogGroup"))
            self.must(
                group in groups,
                f"{name} has no log group of its own: add LoggingConfig and a {name.removesuffix('Function')}Logs",
            )
            used.append(group)
            self.must(function.get("TracingConfig", {}).get("Mode") == "Active", f"{name} is not traced")
            self.must(
                function["Architectures"] == [{"Ref": "Architecture"}],
                f"{name} does not follow the parameter Architecture",
            )
        self.must(len(set(used)) == len(used), "two functions share a log group")
        for name, group in groups.items():
            self.must("RetentionInDays" in group, f"{name} keeps its logs forever: add RetentionInDays")

    def queues(self) -> None:
        queues, functions = dict(self.of("AWS::SQS::Queue")), dict(self.of("AWS::Lambda::Function"))
        consumed = 0
        for name, mapping in self.of("AWS::Lambda::EventSourceMapping"):
            queue = named(mapping["EventSourceArn"])
            if queue not in queues:
                continue
            consumed += 1
            timeout = functions[named(mapping["FunctionName"])]["Timeout"]
            self.must(
                queues[queue]["VisibilityTimeout"] >= 6 * timeout,
                f"{queue} hides a message for less than six times its function's timeout",
            )
            self.must("RedrivePolicy" in queues[queue], f"{queue} has no dead letters")
            self.must("ScalingConfig" in mapping, f"{name} has no MaximumConcurrency")
            self.must(
                mapping.get("FunctionResponseTypes") == ["ReportBatchItemFailures"], f"{name} fails whole batches"
            )
        self.must(consumed > 0, "no function reads a queue")
        for name, queue in queues.items():
            self.must(queue.get("SqsManagedSseEnabled") is True, f"{name} is not encrypted")

    def streams(self) -> None:
        for name, mapping in self.of("AWS::Lambda::EventSourceMapping"):
            if "StartingPosition" in mapping:
                self.must(
                    "OnFailure" in mapping.get("DestinationConfig", {}),
                    f"{name} drops records after its retries: add an OnFailure destination",
                )

    def asynchronous(self) -> None:
        invoked = {named(schedule["Target"]["Arn"]): name for name, schedule in self.of("AWS::Scheduler::Schedule")}
        for name, schedule in self.of("AWS::Scheduler::Schedule"):
            self.must(
                "DeadLetterConfig" in schedule["Target"],
                f"{name} loses events that it cannot deliver: add a DeadLetterConfig",
            )
        # The functions that a role of Scheduler may invoke get schedules at run time.
        for name, role in self.of("AWS::IAM::Role"):
            if "scheduler.amazonaws.com" in str(role["AssumeRolePolicyDocument"]):
                for policy in role.get("Policies", []):
                    for statement in policy["PolicyDocument"]["Statement"]:
                        if "lambda:InvokeFunction" in str(statement["Action"]):
                            invoked[named(statement["Resource"])] = name
        configured = {named(config["FunctionName"]): config for _, config in self.of("AWS::Lambda::EventInvokeConfig")}
        self.must(len(invoked) >= 2, "schedules are missing")
        for function, by in invoked.items():
            self.must(
                "OnFailure" in configured.get(function, {}).get("DestinationConfig", {}),
                f"{function}, invoked by {by}, has no OnFailure destination",
            )

    def tables(self) -> None:
        for name, table in self.of("AWS::DynamoDB::Table"):
            self.must(
                table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True,
                f"{name} has no point-in-time recovery",
            )
            self.must(
                table["SSESpecification"]["SSEEnabled"] is True, f"{name} is not encrypted with a key of the account"
            )
            self.must(
                table["DeletionProtectionEnabled"] == {"Ref": "TableProtection"},
                f"{name} does not follow TableProtection",
            )
            self.must(
                self.all[name].get("UpdateReplacePolicy") == "Retain",
                f"{name} is deleted when a change replaces it: set UpdateReplacePolicy to Retain",
            )

    def alarms(self) -> None:
        runbook = pathlib.Path("infra/RUNBOOK.md").read_text()
        alarms = self.of("AWS::CloudWatch::Alarm")
        self.must(len(alarms) >= 8, "alarms are missing")
        for name, alarm in alarms:
            self.must(f"## {name}" in runbook, f"infra/RUNBOOK.md has no section {name}")
            self.must("infra/RUNBOOK.md" in alarm["AlarmDescription"], f"{name} does not mention the runbook")
            self.must("AlarmActions" in alarm, f"{name} has no AlarmActions")
        for name in re.findall(r"^## (\w+Alarm)$", runbook, re.M):
            self.must(name in dict(alarms), f"infra/RUNBOOK.md has {name}, which is not in the template")
        source = pathlib.Path("crates/telemetry/src/metrics.rs").read_text()
        known = set(re.findall(r'=> "(\w+)",', source))
        shown = set()
        body = self.all["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
        for match in re.findall(r'(\w+)=\\"\$\{AWS::StackName\}\\"', body):
            self.must(
                False,
                f"the dashboard searches for a {match} with the name of the stack: name the resources",
            )
        for kind, metric in (
            ("AWS::Lambda::Function", "Errors"),
            ("AWS::DynamoDB::Table", "ConsumedWriteCapacityUnits"),
        ):
            for name, _ in self.of(kind):
                self.must(f'"${{{name}}}"' in body and f'"{metric}"' in body, f"the dashboard does not show {name}")
        for widget in json.loads(body)["widgets"]:
            namespace = ""
            for metric in widget["properties"]["metrics"]:
                namespace = metric[0] if isinstance(metric[0], str) and not metric[0].startswith(".") else namespace
                if namespace.startswith("Seckill/") and len(metric) > 1 and isinstance(metric[1], str):
                    shown.add(metric[1])
        watched = {
            name
            for _, alarm in alarms
            if "Seckill/" in str(alarm)
            for name in re.findall(r'"MetricName": "(\w+)"', json.dumps(alarm))
        }
        self.must(len(watched) >= 5 and len(shown) >= 15, "the dashboard or the alarms have lost their metrics")
        for metric in watched | shown:
            self.must(metric in known, f"nothing measures {metric}")

    def policies(self) -> None:
        found = 0
        for name, resource in self.written["Resources"].items():
            for policy in (
                resource.get("Properties", {}).get("Policies", [])
                if resource["Type"] == "AWS::Serverless::Function"
                else []
            ):
                for statement in policy["Statement"]:
                    # For a conditional statement, check the statement itself.
                    statement = statement["Fn::If"][1] if "Fn::If" in statement else statement
                    # CloudWatch has no resource-level permissions for this action.
                    if statement["Action"] == "cloudwatch:GetMetricData":
                        continue
                    found += 1
                    for part in ("Action", "Resource"):
                        wide = [value for value in texts(statement[part]) if is_wide(value)]
                        self.must(not wide, f"{name} has too wide a permission: {wide}")
        self.must(found >= 50, f"only {found} statements of functions were found")

    def pages(self) -> None:
        policy = self.all["WebHeaders"]["Properties"]["ResponseHeadersPolicyConfig"]["SecurityHeadersConfig"][
            "ContentSecurityPolicy"
        ]
        sources = re.search(r"connect-src ([^;]*);", policy["ContentSecurityPolicy"]["Fn::Sub"])[1].split()
        self.must(
            {"${JwtIssuer}", "${JwtIssuer}/"} <= set(sources),
            "the pages may not connect to addresses below the issuer",
        )

    def names(self) -> None:
        """A fixed name would prevent two stages in one account."""
        names = (
            "Name",
            "FunctionName",
            "QueueName",
            "TableName",
            "LogGroupName",
            "RoleName",
            "PolicyName",
            "AlarmName",
            "DashboardName",
            "BucketName",
        )
        free = ("AWS::IAM::Role", "AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Authorizer")
        for resource, properties in (
            (name, resource.get("Properties", {}))
            for name, resource in self.all.items()
            if resource["Type"] not in free
        ):
            for name in names:
                if name in properties:
                    fixed = isinstance(properties[name], str)
                    self.must(
                        not fixed, f"{resource} has the fixed {name} {properties[name]}: put the stack's name into it"
                    )


def texts(values) -> list[str]:
    """The texts of an Action or Resource: of !Sub its template, of other references nothing."""
    values = [
        value["Fn::Sub"] if isinstance(value, dict) and "Fn::Sub" in value else value
        for value in (values if isinstance(values, list) else [values])
    ]
    return [value[0] if isinstance(value, list) else value for value in values if not isinstance(value, dict)]


def is_wide(text: str) -> bool:
    """Whether it matches everything of a kind. A wildcard below a resource of this stack is narrow enough."""
    return text == "*" or text.endswith((":*", ":table/*", ":function:*", ":secret:*", ":schedule/*", ":role/*"))


def named(value) -> str | None:
    """The name of the referenced resource."""
    found = re.search(r'"(?:Ref|Fn::GetAtt)": \[?"([A-Za-z0-9]+)', json.dumps(value))
    return found.group(1) if found else value


if __name__ == "__main__":
    main()
