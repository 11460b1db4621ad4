"""What stage.sh asks about a stack, and SAM's command line does not tell. The region and the credentials are those that the AWS tools find.

Usage: stack.py status STACK (prints its status), stack.py web-bucket STACK (prints the name of the pages' bucket), stack.py empty-web-bucket STACK (deletes what is in
it: CloudFormation deletes no bucket that has something in it). Nothing is printed, and nothing done, where there is no such stack or bucket.
"""

import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError

# The pages' bucket in template.yaml.
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
    # Not describe_stack_resources, which tells of the first hundred only.
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
        sys.exit(f"stack.py {'|'.join(commands)} STACK")
    try:
        told = commands[sys.argv[1]](sys.argv[2])
    except (BotoCoreError, ClientError) as error:
        sys.exit(f"AWS: {error}")
    if told:
        print(told)


if __name__ == "__main__":
    main()
