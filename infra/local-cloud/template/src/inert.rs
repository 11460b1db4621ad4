//! Resources that are right in a template and do nothing on one machine, each with the reason.
//!
//! They are not skipped: their properties' names are checked, every reference in them must lead somewhere, and others
//! may refer to them.

use super::error::{Read, wrong};
use super::fields::{Fields, Shape};
use super::yaml::Node;
use crate::{ACCOUNT, REGION};

/// A resource type without effect here.
pub(super) struct Inert {
    pub(super) kind: &'static str,
    /// The property that names it.
    pub(super) name: &'static str,
    properties: &'static [&'static str],
    /// Its ARN; `{name}` is its name.
    arn: &'static str,
    /// Whether `!Ref` is the ARN, and not the name.
    ref_is_arn: bool,
    /// Attributes beside `Arn`; `{name}` is its name, `=Key` is that property.
    attributes: &'static [(&'static str, &'static str)],
}

impl Inert {
    const fn new(kind: &'static str, properties: &'static [&'static str]) -> Self {
        Self { kind, name: "Name", properties, arn: "", ref_is_arn: false, attributes: &[] }
    }

    const fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    const fn arn(mut self, arn: &'static str) -> Self {
        self.arn = arn;
        self
    }

    const fn ref_is_arn(mut self) -> Self {
        self.ref_is_arn = true;
        self
    }

    const fn attributes(mut self, attributes: &'static [(&'static str, &'static str)]) -> Self {
        self.attributes = attributes;
        self
    }

    /// Checks the names of a resource's resolved properties.
    pub(super) fn check(&self, properties: &Node) -> Read<()> {
        Fields::read(properties, &Shape::new(self.kind, self.properties)).map(|_| ())
    }

    /// What `!Ref` (no attribute) or `!GetAtt` yields, if it is known.
    pub(super) fn attribute(
        &self,
        attribute: Option<&str>,
        name: &str,
        line: usize,
        property: impl Fn(&str) -> Read<Option<String>>,
    ) -> Read<Option<String>> {
        let filled =
            |pattern: &str| pattern.replace("{region}", REGION).replace("{account}", ACCOUNT).replace("{name}", name);
        let arn = (!self.arn.is_empty()).then(|| filled(self.arn));
        Ok(match attribute {
            None if self.ref_is_arn => arn,
            None => Some(name.to_owned()),
            Some(wanted) => match self.attributes.iter().find(|(attribute, _)| *attribute == wanted) {
                Some((_, pattern)) => match pattern.strip_prefix('=') {
                    Some(key) => match property(key)? {
                        Some(value) => Some(value),
                        None => return wrong(line, format!("the {wanted} is not in the template; give it a {key}")),
                    },
                    None => Some(filled(pattern)),
                },
                None if wanted == "Arn" || wanted.ends_with("Arn") && self.ref_is_arn => arn,
                None => None,
            },
        })
    }
}

/// The type, if it is one of these.
pub(super) fn find(kind: &str) -> Option<&'static Inert> {
    INERT.iter().find(|inert| inert.kind == kind)
}

const INERT: &[Inert] = &[
    // Each function's log is kept as a file.
    Inert::new(
        "AWS::Logs::LogGroup",
        &[
            "LogGroupName",
            "RetentionInDays",
            "KmsKeyId",
            "LogGroupClass",
            "DataProtectionPolicy",
            "FieldIndexPolicies",
            "Tags",
        ],
    )
    .named("LogGroupName")
    .arn("arn:aws:logs:{region}:{account}:log-group:{name}:*"),
    Inert::new(
        "AWS::Logs::MetricFilter",
        &["FilterName", "FilterPattern", "LogGroupName", "MetricTransformations", "ApplyOnTransformedLogs"],
    )
    .named("FilterName"),
    Inert::new("AWS::Logs::QueryDefinition", &["Name", "QueryString", "LogGroupNames", "QueryLanguage"]),
    // Nobody is on call for one machine.
    Inert::new(
        "AWS::CloudWatch::Alarm",
        &[
            "ActionsEnabled",
            "AlarmActions",
            "AlarmDescription",
            "AlarmName",
            "ComparisonOperator",
            "DatapointsToAlarm",
            "Dimensions",
            "EvaluateLowSampleCountPercentile",
            "EvaluationPeriods",
            "ExtendedStatistic",
            "InsufficientDataActions",
            "MetricName",
            "Metrics",
            "Namespace",
            "OKActions",
            "Period",
            "Statistic",
            "Tags",
            "Threshold",
            "ThresholdMetricId",
            "TreatMissingData",
            "Unit",
        ],
    )
    .named("AlarmName")
    .arn("arn:aws:cloudwatch:{region}:{account}:alarm:{name}"),
    Inert::new(
        "AWS::CloudWatch::CompositeAlarm",
        &[
            "ActionsEnabled",
            "ActionsSuppressor",
            "ActionsSuppressorExtensionPeriod",
            "ActionsSuppressorWaitPeriod",
            "AlarmActions",
            "AlarmDescription",
            "AlarmName",
            "AlarmRule",
            "InsufficientDataActions",
            "OKActions",
            "Tags",
        ],
    )
    .named("AlarmName")
    .arn("arn:aws:cloudwatch:{region}:{account}:alarm:{name}"),
    Inert::new("AWS::CloudWatch::Dashboard", &["DashboardBody", "DashboardName"]).named("DashboardName"),
    // Nothing is told to people from one machine.
    Inert::new(
        "AWS::SNS::Topic",
        &[
            "ArchivePolicy",
            "ContentBasedDeduplication",
            "DataProtectionPolicy",
            "DeliveryStatusLogging",
            "DisplayName",
            "FifoTopic",
            "KmsMasterKeyId",
            "SignatureVersion",
            "Subscription",
            "Tags",
            "TopicName",
            "TracingConfig",
        ],
    )
    .named("TopicName")
    .arn("arn:aws:sns:{region}:{account}:{name}")
    .ref_is_arn()
    .attributes(&[("TopicName", "{name}")]),
    Inert::new(
        "AWS::SNS::Subscription",
        &[
            "Endpoint",
            "FilterPolicy",
            "FilterPolicyScope",
            "Protocol",
            "RawMessageDelivery",
            "RedrivePolicy",
            "Region",
            "TopicArn",
        ],
    ),
    Inert::new("AWS::SNS::TopicPolicy", &["PolicyDocument", "Topics"]),
    // Callers here are the template's own functions, and their own policies are checked.
    Inert::new("AWS::SQS::QueuePolicy", &["PolicyDocument", "Queues"]),
    // Pages are served by the gateway itself.
    Inert::new(
        "AWS::S3::Bucket",
        &[
            "AccessControl",
            "BucketEncryption",
            "BucketName",
            "CorsConfiguration",
            "LifecycleConfiguration",
            "LoggingConfiguration",
            "NotificationConfiguration",
            "ObjectLockConfiguration",
            "ObjectLockEnabled",
            "OwnershipControls",
            "PublicAccessBlockConfiguration",
            "Tags",
            "VersioningConfiguration",
            "WebsiteConfiguration",
        ],
    )
    .named("BucketName")
    .arn("arn:aws:s3:::{name}")
    .attributes(&[
        ("DomainName", "{name}.s3.amazonaws.com"),
        ("RegionalDomainName", "{name}.s3.{region}.amazonaws.com"),
        ("WebsiteURL", "http://{name}.s3-website-{region}.amazonaws.com"),
    ]),
    Inert::new("AWS::S3::BucketPolicy", &["Bucket", "PolicyDocument"]),
    Inert::new("AWS::CloudFront::Distribution", &["DistributionConfig", "Tags"])
        .arn("arn:aws:cloudfront::{account}:distribution/{name}")
        .attributes(&[("DomainName", "{name}.cloudfront.net"), ("Id", "{name}")]),
    Inert::new("AWS::CloudFront::OriginAccessControl", &["OriginAccessControlConfig"]).attributes(&[("Id", "{name}")]),
    Inert::new("AWS::CloudFront::CachePolicy", &["CachePolicyConfig"]).attributes(&[("Id", "{name}")]),
    Inert::new("AWS::CloudFront::OriginRequestPolicy", &["OriginRequestPolicyConfig"]).attributes(&[("Id", "{name}")]),
    Inert::new("AWS::CloudFront::ResponseHeadersPolicy", &["ResponseHeadersPolicyConfig"])
        .attributes(&[("Id", "{name}")]),
    Inert::new(
        "AWS::CloudFront::Function",
        &["AutoPublish", "FunctionCode", "FunctionConfig", "FunctionMetadata", "Name", "Tags"],
    )
    .arn("arn:aws:cloudfront::{account}:function/{name}")
    .ref_is_arn()
    .attributes(&[("FunctionARN", "arn:aws:cloudfront::{account}:function/{name}")]),
    // No function here reads Parameter Store: they get their settings from the environment.
    Inert::new(
        "AWS::SSM::Parameter",
        &["AllowedPattern", "DataType", "Description", "Name", "Policies", "Tags", "Tier", "Type", "Value"],
    )
    .arn("arn:aws:ssm:{region}:{account}:parameter/{name}")
    .attributes(&[("Value", "=Value"), ("Type", "=Type")]),
    // The data never leaves the machine.
    Inert::new(
        "AWS::KMS::Key",
        &[
            "BypassPolicyLockoutSafetyCheck",
            "Description",
            "EnableKeyRotation",
            "Enabled",
            "KeyPolicy",
            "KeySpec",
            "KeyUsage",
            "MultiRegion",
            "Origin",
            "PendingWindowInDays",
            "RotationPeriodInDays",
            "Tags",
        ],
    )
    .arn("arn:aws:kms:{region}:{account}:key/{name}")
    .attributes(&[("KeyId", "{name}")]),
    Inert::new("AWS::KMS::Alias", &["AliasName", "TargetKeyId"]).named("AliasName"),
    // The gateway has one address and no web of attackers.
    Inert::new(
        "AWS::WAFv2::WebACL",
        &[
            "AssociationConfig",
            "CaptchaConfig",
            "ChallengeConfig",
            "CustomResponseBodies",
            "DataProtectionConfig",
            "DefaultAction",
            "Description",
            "Name",
            "Rules",
            "Scope",
            "Tags",
            "TokenDomains",
            "VisibilityConfig",
        ],
    )
    .arn("arn:aws:wafv2:{region}:{account}:regional/webacl/{name}")
    .attributes(&[("Id", "{name}")]),
    Inert::new("AWS::WAFv2::WebACLAssociation", &["ResourceArn", "WebACLArn"]),
    // The gateway has one address.
    Inert::new(
        "AWS::ApiGatewayV2::DomainName",
        &["DomainName", "DomainNameConfigurations", "MutualTlsAuthentication", "RoutingMode", "Tags"],
    )
    .named("DomainName")
    .attributes(&[("RegionalDomainName", "{name}"), ("RegionalHostedZoneId", "{name}")]),
    Inert::new("AWS::ApiGatewayV2::ApiMapping", &["ApiId", "ApiMappingKey", "DomainName", "Stage"]),
    // The gateway mints its own tokens.
    Inert::new(
        "AWS::Cognito::UserPool",
        &[
            "AccountRecoverySetting",
            "AdminCreateUserConfig",
            "AliasAttributes",
            "AutoVerifiedAttributes",
            "DeletionProtection",
            "EmailConfiguration",
            "MfaConfiguration",
            "Policies",
            "Schema",
            "UserPoolAddOns",
            "UserPoolName",
            "UserPoolTags",
            "UserPoolTier",
            "UsernameAttributes",
            "UsernameConfiguration",
        ],
    )
    .named("UserPoolName")
    .arn("arn:aws:cognito-idp:{region}:{account}:userpool/{name}")
    .attributes(&[
        ("ProviderName", "cognito-idp.{region}.amazonaws.com/{name}"),
        ("ProviderURL", "https://cognito-idp.{region}.amazonaws.com/{name}"),
        ("UserPoolId", "{name}"),
    ]),
    Inert::new(
        "AWS::Cognito::UserPoolClient",
        &[
            "AccessTokenValidity",
            "AllowedOAuthFlows",
            "AllowedOAuthFlowsUserPoolClient",
            "AllowedOAuthScopes",
            "CallbackURLs",
            "ClientName",
            "DefaultRedirectURI",
            "EnableTokenRevocation",
            "ExplicitAuthFlows",
            "GenerateSecret",
            "IdTokenValidity",
            "LogoutURLs",
            "PreventUserExistenceErrors",
            "ReadAttributes",
            "RefreshTokenValidity",
            "SupportedIdentityProviders",
            "TokenValidityUnits",
            "UserPoolId",
            "WriteAttributes",
        ],
    )
    .named("ClientName")
    .attributes(&[("ClientId", "{name}")]),
    Inert::new("AWS::Cognito::UserPoolResourceServer", &["Identifier", "Name", "Scopes", "UserPoolId"])
        .named("Identifier"),
    Inert::new("AWS::Cognito::UserPoolDomain", &["CustomDomainConfig", "Domain", "ManagedLoginVersion", "UserPoolId"])
        .named("Domain"),
];

/// The names of these types.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    INERT.iter().map(|inert| inert.kind)
}
