//! Resources that are right in a template and do nothing on one machine, each with the reason.
//!
//! They are not skipped: their properties' names are checked, every reference in them must lead somewhere, and others
//! may refer to them.

use super::error::Read;
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
    /// Attributes beside `Arn`; `{name}` is the resource's name.
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
    pub(super) fn attribute(&self, attribute: Option<&str>, name: &str) -> Option<String> {
        let filled =
            |pattern: &str| pattern.replace("{region}", REGION).replace("{account}", ACCOUNT).replace("{name}", name);
        let arn = (!self.arn.is_empty()).then(|| filled(self.arn));
        match attribute {
            None if self.ref_is_arn => arn,
            None => Some(name.to_owned()),
            Some(wanted) => match self.attributes.iter().find(|(attribute, _)| *attribute == wanted) {
                Some((_, pattern)) => Some(filled(pattern)),
                None if wanted == "Arn" || wanted.ends_with("Arn") && self.ref_is_arn => arn,
                None => None,
            },
        }
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
    // There is no one to alert on one machine.
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
    Inert::new("AWS::CloudWatch::Dashboard", &["DashboardBody", "DashboardName"]).named("DashboardName"),
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
    Inert::new("AWS::CloudFront::ResponseHeadersPolicy", &["ResponseHeadersPolicyConfig"])
        .attributes(&[("Id", "{name}")]),
    Inert::new(
        "AWS::CloudFront::Function",
        &["AutoPublish", "FunctionCode", "FunctionConfig", "FunctionMetadata", "Name", "Tags"],
    )
    .arn("arn:aws:cloudfront::{account}:function/{name}")
    .ref_is_arn()
    .attributes(&[("FunctionARN", "arn:aws:cloudfront::{account}:function/{name}")]),
];

/// The names of these types.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    INERT.iter().map(|inert| inert.kind)
}
