"""Answers what stage.sh needs to know about a stack and the SAM CLI does not tell.

Usage:
  stack.py status STACK            prints the status of the stack
  stack.py web-bucket STACK        prints the name of the bucket of the pages
  stack.py empty-web-bucket STACK  deletes its contents, because CloudFormation deletes only empty buckets

Without such a stack or bucket it prints nothing and does nothing. The region and the credentials are those of the
AWS tools on this machine.
"""

import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError

# The bucket of the pages in template.yaml.
BUCKET = "WebBucket"


def status(stack: str) -> str:
    try:
        return boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if "does not exist" in str(error):
            return ""
        raise


def web_bucket(stack: str) -> str:
    if not status(stack):
        return ""
    # describe_stack_resources would return only the first hundred.
    for page in boto3.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack):
        for resource in page["StackResourceSummaries"]:
            if resource["LogicalResourceId"] == BUCKET and resource["ResourceStatus"] != "DELETE_COMPLETE":
                return resource.get("PhysicalResourceId", "")
    return ""


def empty_web_bucket(stack: str) -> None:
    if bucket := web_bucket(stack):
        boto3.resource("s3").Bucket(bucket).objects.all().delete()


def main() -> None:
    commands = {"status": status, "web-bucket": web_bucket, "empty-web-bucket": empty_web_bucket}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(f"Usage: stack.py {'|'.join(commands)} STACK")
    try:
        answer = commands[sys.argv[1]](sys.argv[2])
    except (BotoCoreError, ClientError) as error:
        sys.exit(f"AWS: {error}")
    if answer:
        print(answer)


if __name__ == "__main__":
    main()
