//! DynamoDB tables.

use serde_json::{Map, Value as Json, json};

use super::attributes;
use super::error::{Read, wrong};
use super::fields::{Fields, Shape, text};
use super::model::Table;
use super::scope::{Resource, Scope};
use super::yaml::Node;

const TABLE: Shape = Shape::new(
    "AWS::DynamoDB::Table",
    &[
        "TableName",
        "AttributeDefinitions",
        "KeySchema",
        "GlobalSecondaryIndexes",
        "LocalSecondaryIndexes",
        "BillingMode",
        "ProvisionedThroughput",
        "OnDemandThroughput",
        "StreamSpecification",
        "TimeToLiveSpecification",
        "SSESpecification",
        "DeletionProtectionEnabled",
        "TableClass",
        "Tags",
    ],
)
// One machine has no backups, no partitions to warm and no metrics of its own; resource policies are for other
// accounts.
.without_effect(&[
    "PointInTimeRecoverySpecification",
    "WarmThroughput",
    "ContributorInsightsSpecification",
    "ResourcePolicy",
])
.refused(&[
    ("ImportSourceSpecification", "import after the table is made"),
    ("KinesisStreamSpecification", "use StreamSpecification"),
]);

const ATTRIBUTE: Shape = Shape::new("an attribute definition", &["AttributeName", "AttributeType"]);
const KEY: Shape = Shape::new("a key", &["AttributeName", "KeyType"]);
const INDEX: Shape =
    Shape::new("an index", &["IndexName", "KeySchema", "Projection", "ProvisionedThroughput", "OnDemandThroughput"])
        .without_effect(&["WarmThroughput", "ContributorInsightsSpecification"]);
const PROJECTION: Shape = Shape::new("a projection", &["ProjectionType", "NonKeyAttributes"]);
const STREAM: Shape = Shape::new("StreamSpecification", &["StreamViewType"]).without_effect(&["ResourcePolicy"]);
const TTL: Shape = Shape::new("TimeToLiveSpecification", &["AttributeName", "Enabled"]);
// Which key encrypts is AWS's business: here nothing leaves the machine.
const SSE: Shape = Shape::new("SSESpecification", &["SSEEnabled"]).without_effect(&["SSEType", "KMSMasterKeyId"]);
const PROVISIONED: Shape = Shape::new("ProvisionedThroughput", &["ReadCapacityUnits", "WriteCapacityUnits"]);
const ON_DEMAND: Shape = Shape::new("OnDemandThroughput", &["MaxReadRequestUnits", "MaxWriteRequestUnits"]);
const RECOVERY: Shape =
    Shape::new("PointInTimeRecoverySpecification", &["PointInTimeRecoveryEnabled", "RecoveryPeriodInDays"]);
const TAG: Shape = Shape::new("a tag", &["Key", "Value"]);

/// Reads a table.
pub(super) fn read(scope: &Scope, resource: &Resource) -> Read<Table> {
    let properties = scope.value(&resource.properties)?;
    let fields = Fields::read(&properties, &TABLE)?;
    let name = attributes::name(scope, resource)?;
    if let Some(recovery) = fields.fields("PointInTimeRecoverySpecification", &RECOVERY)? {
        recovery.flag("PointInTimeRecoveryEnabled")?;
    }
    let create = create_request(&name, &fields)?;
    Ok(Table {
        logical_id: resource.id.clone(),
        arn: attributes::table_arn(&name),
        stream_arn: fields.get("StreamSpecification").map(|_| attributes::stream_arn(&name)),
        ttl_attribute: ttl(&fields)?,
        name,
        create,
    })
}

fn create_request(name: &str, fields: &Fields) -> Read<Json> {
    let mut create = Map::new();
    let mut put = |key: &str, value: Json| create.insert(key.to_owned(), value);
    put("TableName", json!(name));
    put("AttributeDefinitions", each(fields.need("AttributeDefinitions")?, "AttributeDefinitions", attribute)?);
    put("KeySchema", each(fields.need("KeySchema")?, "KeySchema", key)?);
    for kind in ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"] {
        if let Some(indexes) = fields.get(kind) {
            put(kind, each(indexes, kind, index)?);
        }
    }
    // CloudFormation's default is PROVISIONED, which then needs its throughput: the service says so.
    if let Some(mode) = fields.one_of("BillingMode", &["PAY_PER_REQUEST", "PROVISIONED"])? {
        put("BillingMode", json!(mode));
    }
    for (key, value) in throughput(fields)? {
        put(key, value);
    }
    if let Some(stream) = fields.fields("StreamSpecification", &STREAM)? {
        let views = ["NEW_AND_OLD_IMAGES", "NEW_IMAGE", "OLD_IMAGE", "KEYS_ONLY"];
        stream.need("StreamViewType")?;
        put(
            "StreamSpecification",
            json!({"StreamEnabled": true, "StreamViewType": stream.one_of("StreamViewType", &views)?}),
        );
    }
    if let Some(sse) = fields.fields("SSESpecification", &SSE)? {
        sse.need("SSEEnabled")?;
        put("SSESpecification", json!({"Enabled": sse.flag("SSEEnabled")?}));
    }
    if let Some(protected) = fields.flag("DeletionProtectionEnabled")? {
        put("DeletionProtectionEnabled", json!(protected));
    }
    if let Some(class) = fields.one_of("TableClass", &["STANDARD", "STANDARD_INFREQUENT_ACCESS"])? {
        put("TableClass", json!(class));
    }
    if let Some(tags) = fields.get("Tags") {
        put("Tags", each(tags, "Tags", tag)?);
    }
    Ok(Json::Object(create))
}

/// Makes every table once in a database that is thrown away: the engine is as strict as the service about keys
/// without definitions, definitions without keys, throughput that does not go with the billing mode, and so on.
pub(super) fn check(scope: &Scope, tables: &[Table]) -> Read<()> {
    if tables.is_empty() {
        return Ok(());
    }
    let line = |table: &Table| scope.find(&table.logical_id).map_or(1, |resource| resource.line);
    let refused = |table: &Table, said: &str| {
        let said = said.trim_start_matches("VALIDATION:").trim_end_matches('.');
        wrong(line(table), format!("DynamoDB would refuse this table: {said}; correct its properties"))
    };
    let scratch = match dynoxide::Database::memory() {
        Ok(database) => database,
        Err(error) => return wrong(1, format!("the tables cannot be checked ({error}); free some memory")),
    };
    for table in tables {
        match serde_json::from_value(table.create.clone()) {
            Ok(request) => match scratch.create_table(request) {
                Ok(_) => {}
                Err(error) => return refused(table, &error.to_string()),
            },
            Err(error) => return refused(table, &error.to_string()),
        }
    }
    Ok(())
}

fn ttl(fields: &Fields) -> Read<Option<String>> {
    let Some(ttl) = fields.fields("TimeToLiveSpecification", &TTL)? else { return Ok(None) };
    ttl.need("Enabled")?;
    let enabled = ttl.flag("Enabled")?.unwrap_or_default();
    if !enabled {
        return Ok(None);
    }
    ttl.need_text("AttributeName").map(|name| Some(name.to_owned()))
}

fn throughput(fields: &Fields) -> Read<Vec<(&'static str, Json)>> {
    let mut all = Vec::new();
    let most = i64::MAX;
    if let Some(units) = fields.fields("ProvisionedThroughput", &PROVISIONED)? {
        units.need("ReadCapacityUnits")?;
        units.need("WriteCapacityUnits")?;
        let read = units.number("ReadCapacityUnits", 1..=most)?;
        let write = units.number("WriteCapacityUnits", 1..=most)?;
        all.push(("ProvisionedThroughput", json!({"ReadCapacityUnits": read, "WriteCapacityUnits": write})));
    }
    if let Some(units) = fields.fields("OnDemandThroughput", &ON_DEMAND)? {
        let mut limits = Map::new();
        for key in ["MaxReadRequestUnits", "MaxWriteRequestUnits"] {
            if let Some(limit) = units.number(key, -1..=most)? {
                limits.insert(key.to_owned(), json!(limit));
            }
        }
        all.push(("OnDemandThroughput", Json::Object(limits)));
    }
    Ok(all)
}

fn attribute(node: &Node) -> Read<Json> {
    let fields = Fields::read(node, &ATTRIBUTE)?;
    fields.need("AttributeType")?;
    let kind = fields.one_of("AttributeType", &["S", "N", "B"])?;
    Ok(json!({"AttributeName": fields.need_text("AttributeName")?, "AttributeType": kind}))
}

fn key(node: &Node) -> Read<Json> {
    let fields = Fields::read(node, &KEY)?;
    fields.need("KeyType")?;
    let (name, key_type) = (fields.need_text("AttributeName")?, fields.one_of("KeyType", &["HASH", "RANGE"])?);
    Ok(json!({"AttributeName": name, "KeyType": key_type}))
}

fn index(node: &Node) -> Read<Json> {
    let fields = Fields::read(node, &INDEX)?;
    let mut index = Map::new();
    index.insert("IndexName".to_owned(), json!(fields.need_text("IndexName")?));
    index.insert("KeySchema".to_owned(), each(fields.need("KeySchema")?, "KeySchema", key)?);
    let projection = Fields::read(fields.need("Projection")?, &PROJECTION)?;
    projection.need("ProjectionType")?;
    let kind = projection.one_of("ProjectionType", &["ALL", "KEYS_ONLY", "INCLUDE"])?;
    let mut projected = Map::new();
    projected.insert("ProjectionType".to_owned(), json!(kind));
    if projection.get("NonKeyAttributes").is_some() {
        projected.insert("NonKeyAttributes".to_owned(), json!(projection.texts("NonKeyAttributes")?));
    }
    index.insert("Projection".to_owned(), Json::Object(projected));
    for (key, value) in throughput(&fields)? {
        index.insert(key.to_owned(), value);
    }
    Ok(Json::Object(index))
}

fn tag(node: &Node) -> Read<Json> {
    let fields = Fields::read(node, &TAG)?;
    Ok(json!({"Key": fields.need_text("Key")?, "Value": text(fields.need("Value")?, "Value")?}))
}

fn each(node: &Node, key: &str, read: fn(&Node) -> Read<Json>) -> Read<Json> {
    super::fields::list(node, key)?.iter().map(read).collect()
}
