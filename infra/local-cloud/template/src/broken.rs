//! Broken templates, each with the message that its author gets.

use std::collections::BTreeMap;

use super::read_str;

const HEAD: &str = "Transform: AWS::Serverless-2016-10-31\nResources:\n";

/// A template with these resources; they begin on line 3.
fn error_of(resources: &str) -> String {
    error_in(&format!("{HEAD}{resources}"))
}

fn error_in(template: &str) -> String {
    match read_str("template.yaml", template, &BTreeMap::new()) {
        Ok(_) => panic!("this was read:\n{template}"),
        Err(error) => error.to_string(),
    }
}

const FUNCTION: &str = "  F:
    Type: AWS::Serverless::Function
    Properties:
      Runtime: provided.al2023
      Handler: bootstrap
      CodeUri: f
";

/// A function with more properties; they begin on line 9.
fn error_of_function(properties: &str, others: &str) -> String {
    error_of(&format!("{FUNCTION}{properties}{others}"))
}

#[test]
fn yaml_and_sections() {
    for (template, expected) in [
        ("Resources:\n  Q: [1\n", "template.yaml:3: this is not YAML: "),
        (
            "Resources:\n  Q: {Type: AWS::SQS::Queue}\n  Q: {Type: AWS::SQS::Queue}\n",
            "template.yaml:3: Q is here a second time (first on line 2); remove one of them",
        ),
        (
            "Resources: &a {}\nOutputs: *a\n",
            "template.yaml:2: CloudFormation takes no YAML aliases (*name); write the value out",
        ),
        (
            "Resources: {}\nResurces: {}\n",
            "template.yaml:2: a template has no property Resurces, did you mean Resources?; correct or remove it",
        ),
        ("Resources: {}\nHooks: {}\n", "template.yaml:2: Hooks of a template is not supported here; leave them out"),
        ("Description: x\n", "template.yaml:1: the template has no Resources; add what it deploys"),
        ("- a\n", "template.yaml:1: a template is a map, this is a list; write `key: value` lines"),
        (
            "Transform: Other\nResources: {}\n",
            "template.yaml:1: this transform is not known; here it is AWS::Serverless-2016-10-31",
        ),
        (
            "Resources:\n  F:\n    Type: AWS::Serverless::Function\n",
            "template.yaml:2: AWS::Serverless::Function needs SAM; add `Transform: AWS::Serverless-2016-10-31` at the \
             top",
        ),
        (
            "Globals: {Function: {Timout: 3}}\nResources: {}\n",
            "template.yaml:1: Globals.Function has no property Timout, did you mean Timeout?; correct or remove it",
        ),
    ] {
        let error = error_in(template);
        assert!(error.starts_with(expected), "{template}\n{error}\n{expected}");
    }
}

#[test]
fn parameters_and_conditions() {
    let with = |section: &str| error_in(&format!("{section}\nResources: {{Q: {{Type: AWS::SQS::Queue}}}}\n"));
    for (section, expected) in [
        ("Parameters:\n  A: {Type: String}", "2: the parameter A has no value; pass A=… or give it a Default"),
        (
            "Parameters:\n  A: {Default: x}",
            "2: the parameter A has no Type; give String or Number or CommaDelimitedList or List<Number>",
        ),
        ("Parameters:\n  A: {Type: Number, Default: x}", "2: the parameter A is x, which is no number; give a number"),
        (
            "Parameters:\n  A:\n    Type: String\n    Default: x\n    AllowedValues: [y, z]",
            "5: the parameter A is x, which is not allowed; give one of y, z",
        ),
        (
            "Parameters:\n  A:\n    Type: String\n    Default: x1\n    AllowedPattern: '[a-z]+'",
            "5: the parameter A is x1, which does not match AllowedPattern; give something like [a-z]+",
        ),
        (
            "Parameters:\n  A:\n    Type: Number\n    Default: 5\n    MaxValue: 4",
            "5: the parameter A is 5, which is above MaxValue; give less",
        ),
        (
            "Parameters:\n  A:\n    Type: String\n    Default: 5\n    MinLength: 4",
            "5: the parameter A is 5, which is shorter than MinLength; give a longer value",
        ),
        (
            "Conditions:\n  A: !Equals [!Ref Nobody, x]",
            "2: there is no parameter or resource Nobody; correct the name or declare it",
        ),
        (
            "Conditions:\n  A: !Not [!Condition B]\n  B: !Not [!Condition A]",
            "2: this condition refers to itself in the end; break the circle",
        ),
        (
            "Conditions:\n  Ab: !Equals [1, 1]\n  B: !Condition Aa",
            "3: there is no condition Aa, did you mean Ab?; declare it under Conditions",
        ),
        ("Conditions:\n  A: !Equals [1]", "2: Fn::Equals takes two values; write [one, other]"),
        (
            "Conditions:\n  A: !If [B, a, b]",
            "2: Fn::If says neither yes nor no; use Fn::Equals, Fn::Not, Fn::And or Fn::Or",
        ),
    ] {
        assert_eq!(with(section), format!("template.yaml:{expected}"));
    }
    let given = BTreeMap::from([("Stagee".to_owned(), "x".to_owned())]);
    let template = "Parameters: {Stage: {Type: String, Default: a}}\nResources: {Q: {Type: AWS::SQS::Queue}}\n";
    let error = read_str("template.yaml", template, &given).expect_err("there is no such parameter");
    assert_eq!(
        error.to_string(),
        "template.yaml: there is no parameter Stagee, did you mean Stage?; give values only for parameters that the \
         template declares"
    );
}

#[test]
fn references_and_intrinsics() {
    let with = |value: &str| {
        error_of(&format!("  Queue:\n    Type: AWS::SQS::Queue\n    Properties:\n      QueueName: {value}\n"))
    };
    for (value, expected) in [
        ("!Ref Quue", "there is no parameter or resource Quue, did you mean Queue?; correct the name or declare it"),
        (
            "!Sub 'x-${AWS::Regin}'",
            "there is no parameter or resource AWS::Regin, did you mean AWS::Region?; correct the name or declare it",
        ),
        ("!Ref Queue", "this refers to itself in the end; break the circle"),
        ("!GetAtt Queue", "Fn::GetAtt takes a resource and an attribute; write Resource.Attribute"),
        ("!Sub 'a-${b'", "${ without its } in Fn::Sub; close it, or write ${!…} for a literal one"),
        ("!GetAt Queue.Arn", "Fn::GetAt is not known here, did you mean Fn::GetAtt?; use one of "),
        ("!ImportValue x", "Fn::ImportValue is not known here; use one of "),
        ("{'Fn::Base64': x}", "Fn::Base64 is not known here; use one of "),
        ("!Equals [a, b]", "Fn::Equals says yes or no; name it under Conditions and use Fn::If here"),
        ("!If [Nowhere, a, b]", "there is no condition Nowhere; declare it under Conditions"),
        ("[a]", "QueueName is a text, this is a list; write one value"),
        ("", "QueueName is a text, this is nothing; write one value"),
        ("has space", "has space is no queue name; use at most 80 letters, digits, - and _"),
    ] {
        let error = with(value);
        assert!(error.starts_with(&format!("template.yaml:6: {expected}")), "{value}: {error}");
    }
    let not_taken = "Conditions: {Never: !Equals [a, b]}
Resources:
  A:
    Type: AWS::SQS::Queue
    Condition: Never
    Properties:
      QueueName: !Ref B
  C:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !If [Never, !Sub '${A}-${!x}-${y}', c]
";
    assert_eq!(
        error_in(not_taken),
        "template.yaml:7: there is no parameter or resource B; correct the name or declare it"
    );
    assert_eq!(
        error_in(&not_taken.replace("!Ref B", "b")),
        "template.yaml:11: there is no parameter or resource y; correct the name or declare it"
    );
    let left_out = "Conditions: {Never: !Equals [a, b]}
Resources:
  A: {Type: AWS::SQS::Queue, Condition: Never}
Outputs:
  Url: {Value: !Ref A}
";
    assert_eq!(error_in(left_out), "template.yaml:5: A is left out by its condition Never; put Fn::If around this");
    assert_eq!(
        error_of("  Q: {Type: AWS::SQS::Queue}\n  T:\n    Type: AWS::S3::Bucket\n    DependsOn: P\n"),
        "template.yaml:6: there is no resource P; correct DependsOn"
    );
}

#[test]
fn resources() {
    for (resources, expected) in [
        (
            "  A: {Type: AWS::EC2::Instance}\n",
            "3: A is a AWS::EC2::Instance, which is not known here; teach the local cloud about it or leave it out",
        ),
        (
            "  A: {Type: AWS::SQS::Queu}\n",
            "3: A is a AWS::SQS::Queu, which is not known here, did you mean AWS::SQS::Queue?; teach the local cloud \
             about it or leave it out",
        ),
        (
            "  A: {Typ: AWS::SQS::Queue}\n",
            "3: a resource has no property Typ, did you mean Type?; correct or remove it",
        ),
        ("  A-B: {Type: AWS::SQS::Queue}\n", "3: A-B is no logical id; use letters and digits only"),
        (
            "  A:\n    Type: AWS::SQS::Queue\n    Properties:\n      VisibilityTimeOut: 3\n",
            "6: AWS::SQS::Queue has no property VisibilityTimeOut, did you mean VisibilityTimeout?; correct or remove \
             it",
        ),
        (
            "  A:\n    Type: AWS::SQS::Queue\n    Properties:\n      VisibilityTimeout: 90000\n",
            "6: VisibilityTimeout is 90000, which AWS does not take; give 0 to 43200",
        ),
        (
            "  A:\n    Type: AWS::SQS::Queue\n    Properties:\n      DelaySeconds: soon\n",
            "6: DelaySeconds is a number, this is soon; give 0 to 900",
        ),
        (
            "  A:\n    Type: AWS::SQS::Queue\n    Properties:\n      SqsManagedSseEnabled: yes\n",
            "6: SqsManagedSseEnabled is true or false, this is yes; write one of the two",
        ),
        (
            "  A:\n    Type: AWS::SQS::Queue\n    Properties:\n      FifoQueue: true\n",
            "6: FifoQueue of AWS::SQS::Queue is not supported here; queues here are standard ones: make the consumer \
             idempotent",
        ),
        (
            "  A:\n    Type: AWS::SQS::Queue\n    Properties:\n      RedrivePolicy: {deadLetterTargetArn: 'arn:x', \
             maxReceiveCount: 3}\n",
            "6: arn:x is no queue of this template; write !GetAtt Queue.Arn of one of its queues",
        ),
        (
            "  A: {Type: AWS::SQS::Queue, Properties: {QueueName: q}}\n  B: {Type: AWS::SQS::Queue, Properties: \
             {QueueName: q}}\n",
            "4: B has the same name as A; give it another",
        ),
        (
            "  A:\n    Type: AWS::CloudWatch::Alarm\n    Properties: {Treshold: 3}\n",
            "5: AWS::CloudWatch::Alarm has no property Treshold, did you mean Threshold?; correct or remove it",
        ),
        (
            "  A:\n    Type: AWS::CloudWatch::Alarm\n    Properties: {AlarmActions: [!Ref Topic]}\n",
            "5: there is no parameter or resource Topic; correct the name or declare it",
        ),
        (
            "  T:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: PAY_PER_REQUEST\n      \
             KeySchema: [{AttributeName: k, KeyType: HASH}]\n",
            "6: AWS::DynamoDB::Table needs AttributeDefinitions; add it",
        ),
        (
            "  T:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: ON_DEMAND\n      \
             AttributeDefinitions: [{AttributeName: k, AttributeType: S}]\n      KeySchema: [{AttributeName: k, \
             KeyType: HASH}]\n",
            "6: BillingMode cannot be ON_DEMAND; here it is PAY_PER_REQUEST or PROVISIONED",
        ),
    ] {
        assert_eq!(error_of(resources), format!("template.yaml:{expected}"));
    }
    let undefined_key = error_of(
        "  T:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      BillingMode: PAY_PER_REQUEST\n      \
         AttributeDefinitions: [{AttributeName: other, AttributeType: S}]\n      KeySchema: [{AttributeName: k, \
         KeyType: HASH}]\n",
    );
    assert!(undefined_key.starts_with("template.yaml:3: DynamoDB would refuse this table: "), "{undefined_key}");
    let null = "  T:\n    Type: AWS::CloudWatch::Dashboard\n    Properties:\n      DashboardName:\n";
    assert_eq!(error_of(null), "template.yaml:6: DashboardName has no value; give it one or remove it");
}

#[test]
fn functions() {
    for (properties, expected) in [
        (
            "      Timout: 3\n",
            "9: AWS::Serverless::Function has no property Timout, did you mean Timeout?; correct or remove it",
        ),
        ("      Timeout: 1000\n", "9: Timeout is 1000, which AWS does not take; give 1 to 900"),
        (
            "      AutoPublishAlias: live\n",
            "9: AutoPublishAlias of AWS::Serverless::Function is not supported here; there is one version of a \
             function here: leave it out, or put it behind a condition",
        ),
        (
            "      Environment: {Variables: {AWS_REGION: x}}\n",
            "9: Lambda sets AWS_REGION itself; give the variable another name",
        ),
        (
            "      Environment: {Variables: {KEY: '{{resolve:ssm:x}}'}}\n",
            "9: KEY asks for a secret to be put in; pass its name and read it in the function",
        ),
        (
            "      Policies: [AmazonDynamoDBFullAccess]\n",
            "9: the managed policy AmazonDynamoDBFullAccess is not written out; replace it by a Statement with what \
             is needed",
        ),
        (
            "      Policies: [{SQSPollerPolicy: {QueueName: q}}]\n",
            "9: the SAM policy template SQSPollerPolicy hides what it allows; write its Statement out",
        ),
        (
            "      Policies:\n        - Statement:\n            - {Effect: Allow, NotAction: 'a:b', Resource: '*'}\n",
            "11: NotAction of a policy statement is not supported here; write out what is meant in Action and Resource",
        ),
        (
            "      Policies:\n        - Statement:\n            - {Effect: Allow, Action: GetItem, Resource: '*'}\n",
            "11: GetItem is no action; write service:Action, such as sqs:SendMessage",
        ),
        (
            "      Policies:\n        - Statement:\n            - {Effect: Allow, Action: 'a:B', Resource: table}\n",
            "11: table is no resource; give an ARN, such as !GetAtt Table.Arn, or '*'",
        ),
        (
            "      Policies:\n        - Statement:\n            - {Effect: Alow, Action: 'a:B', Resource: '*'}\n",
            "11: Effect cannot be Alow, did you mean Allow?; here it is Allow or Deny",
        ),
        (
            "      Policies:\n        - Statement:\n            - {Effect: Allow, Action: 'a:B', Resource: '*', \
             Condition: {Bool: {'aws:SecureTransport': true}}}\n",
            "11: the condition Bool is not checked here; use one of StringEquals, StringLike, ArnEquals, ArnLike",
        ),
        (
            "      Policies:\n        - Statement:\n            - {Effect: Allow, Action: 'a:B', Resource: '*', \
             Condition: {StringEquals: {'dynamodb:LeadingKeys': x}}}\n",
            "11: the condition key dynamodb:LeadingKeys is not known here; use one of iam:PassedToService, \
             aws:RequestedRegion, aws:PrincipalAccount, aws:ResourceAccount",
        ),
        (
            "      Events: {E: {Type: S3}}\n",
            "9: events of type S3 are not known here; use SQS, DynamoDB, ScheduleV2, HttpApi",
        ),
        (
            "      Events: {E: {Type: ScheduleV2, Properties: {ScheduleExpression: every minute}}}\n",
            "9: every minute is no schedule; write rate(1 minute) or at(2030-01-01T00:00:00)",
        ),
        (
            "      Events: {E: {Type: HttpApi, Properties: {Method: GTE, Path: /x}}}\n",
            "9: GTE is no method of a route, did you mean GET?; use GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS, ANY",
        ),
        (
            "      Events: {E: {Type: HttpApi, Properties: {Method: GET, Path: x}}}\n",
            "9: x is no path of a route; write /orders/{orderId}",
        ),
        (
            "      Events: {E: {Type: HttpApi, Properties: {Method: GET}}}\n",
            "9: an HttpApi event has both Method and Path or neither; add the other",
        ),
        (
            "      Events:\n        E: {Type: HttpApi, Properties: {Method: GET, Path: '/{a}', Auth: {Authorizer: \
             Me}}}\n",
            "10: there is no authorizer Me; declare it under Auth: Authorizers",
        ),
        (
            "      Events:\n        E: {Type: HttpApi, Properties: {Method: GET, Path: '/{a}'}}\n        G: {Type: \
             HttpApi, Properties: {Method: GET, Path: '/{b}'}}\n",
            "11: the route GET /{b} is there already; remove one of the two",
        ),
        (
            "      Role: arn:aws:iam::1:role/x\n",
            "9: the template has no role arn:aws:iam::1:role/x; write !GetAtt of one of its roles",
        ),
    ] {
        assert_eq!(error_of_function(properties, ""), format!("template.yaml:{expected}"));
    }
    assert_eq!(
        error_of(
            "  F:\n    Type: AWS::Serverless::Function\n    Properties: {Runtime: provided.al2023, Handler: \
             bootstrap, CodeUri: .}\n"
        ),
        "template.yaml:5: F does not say which binary it is; add Metadata: BuildProperties: {Binary: name}"
    );
    assert_eq!(
        error_of(
            "  F:\n    Type: AWS::Serverless::Function\n    Properties: {Runtime: python3.13, Handler: a.b, CodeUri: \
             f}\n"
        ),
        "template.yaml:5: Runtime cannot be python3.13; here it is provided.al2023"
    );
}

#[test]
fn what_aws_would_refuse_between_resources() {
    let queue = "  Q: {Type: AWS::SQS::Queue}\n";
    let event = "      Events: {E: {Type: SQS, Properties: {Queue: !GetAtt Q.Arn}}}\n";
    assert_eq!(
        error_of_function(&format!("      Timeout: 40\n{event}"), queue),
        "template.yaml:3: F may run for 40 s but Q shows a message again after 30 s; raise its VisibilityTimeout to 240"
    );
    let large =
        "      Events:\n        E:\n          Type: SQS\n          Properties: {Queue: !GetAtt Q.Arn, BatchSize: 50}\n";
    assert_eq!(
        error_of_function(large, queue),
        "template.yaml:12: a BatchSize above 10 needs MaximumBatchingWindowInSeconds; give at least 1"
    );
    let role = |service: &str| {
        format!(
            "  R:\n    Type: AWS::IAM::Role\n    Properties:\n      AssumeRolePolicyDocument:\n        Statement: \
             [{{Effect: Allow, Principal: {{Service: {service}}}, Action: 'sts:AssumeRole'}}]\n"
        )
    };
    assert_eq!(
        error_of_function(
            &format!("      Role: !GetAtt R.Arn\n{event}"),
            &format!("{queue}{}", role("lambda.amazonaws.com"))
        ),
        "template.yaml:3: F may not sqs:ReceiveMessage on arn:aws:sqs:us-east-1:000000000000:local-Q; add it to the \
         function's policy"
    );
    let tick = "      Events:\n        E: {Type: ScheduleV2, Properties: {ScheduleExpression: rate(1 hour), RoleArn: \
                !GetAtt R.Arn}}\n";
    assert_eq!(
        error_of_function(tick, &role("lambda.amazonaws.com")),
        "template.yaml:10: R does not let scheduler.amazonaws.com assume it; add it to AssumeRolePolicyDocument"
    );
    let api = "  A: {Type: AWS::ApiGatewayV2::Api, Properties: {ProtocolType: HTTP, Name: a}}
  I:
    Type: AWS::ApiGatewayV2::Integration
    Properties: {ApiId: !Ref A, IntegrationType: AWS_PROXY, IntegrationUri: !GetAtt F.Arn}
";
    assert_eq!(
        error_of_function("", api),
        "template.yaml:12: API Gateway may not invoke local-F; add an AWS::Lambda::Permission for \
         apigateway.amazonaws.com"
    );
    let sockets =
        "  A: {Type: AWS::ApiGatewayV2::Api, Properties: {ProtocolType: WEBSOCKET, RouteSelectionExpression: $default}}
  S:
    Type: AWS::ApiGatewayV2::Stage
    Properties:
      ApiId: !Ref A
      StageName: live
      RouteSettings: {$default: {ThrottlingRateLimit: 50, ThrottlingBurstLimit: 50}}
";
    assert_eq!(
        error_of(sockets),
        "template.yaml:4: RouteSettings of A names the route $default, which is not there; correct it"
    );
}
