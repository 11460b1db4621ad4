//! The records of the two streams: orders with a change that their buyers can see, and connections that were recorded.

use aws_lambda_events::dynamodb::{Event, EventRecord};
use domain::ids::BuyerKey;
use domain::order::Order;
use serde::Deserialize;

/// An order whose buyer is to be notified.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) order: Order,
    pub(crate) sequence: String,
}

/// A connection that was recorded.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) buyer: BuyerKey,
    pub(crate) connection: String,
    pub(crate) sequence: String,
}

#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) changes: Vec<Change>,
    pub(crate) opened: Vec<Opened>,
    /// Records that cannot be read: they are retried and then go to the dead letters.
    pub(crate) unread: Vec<String>,
}

enum Read {
    Change(Box<Order>),
    Opened(BuyerKey, String),
    Nothing,
}

pub(crate) fn read(event: Event) -> Batch {
    let mut batch = Batch::default();
    for record in event.records {
        let sequence = record.change.sequence_number.clone().unwrap_or_default();
        match one(record) {
            Ok(Read::Change(order)) => batch.changes.push(Change { order: *order, sequence }),
            Ok(Read::Opened(buyer, connection)) => batch.opened.push(Opened { buyer, connection, sequence }),
            Ok(Read::Nothing) => {}
            Err(error) => {
                tracing::error!(sequence, %error, "a record cannot be read");
                batch.unread.push(sequence);
            }
        }
    }
    batch
}

fn one(record: EventRecord) -> Result<Read, serde_dynamo::Error> {
    #[derive(Deserialize)]
    struct Connection {
        buyer: BuyerKey,
        connection: String,
    }
    let EventRecord { event_name, change, .. } = record;
    if event_name == "REMOVE" {
        return Ok(Read::Nothing);
    }
    if change.new_image.contains_key("opened") {
        let Connection { buyer, connection } = serde_dynamo::from_item(change.new_image)?;
        return Ok(Read::Opened(buyer, connection));
    }
    let order: Order = serde_dynamo::from_item(change.new_image)?;
    // A change that the buyer cannot see, such as a link that is kept, does not change the version.
    if event_name == "MODIFY" {
        let before: Order = serde_dynamo::from_item(change.old_image)?;
        if before.version() == order.version() {
            return Ok(Read::Nothing);
        }
    }
    Ok(Read::Change(Box::new(order)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An order with a payment, whose link is kept or not.
    fn order(status: &str, link: Option<&str>) -> Value {
        let mut payment = json!({
            "attempt": {"N": "0"}, "startedAt": {"N": "1762819201250"}, "clientIp": {"S": "203.0.113.7"},
            "closing": {"BOOL": false},
        });
        if let Some(link) = link {
            payment["link"] = json!({"M": {"payUrl": {"S": link}}});
        }
        json!({
            "buyer": {"S": "23456789ABCDEFGH"}, "order": {"S": "01K9RXJ8G023456789ABCDEFGH00001"},
            "buyerName": {"S": "ann"},
            "sale": {"S": "s1"}, "item": {"S": "phone"}, "itemName": {"S": "Phone"}, "quantity": {"N": "1"},
            "amount": {"N": "69900"}, "currency": {"S": "CNY"}, "bucket": {"N": "3"}, "status": {"S": status},
            "createdAt": {"N": "1762819200250"}, "payBy": {"N": "1762820100250"}, "payment": {"M": payment},
            "attempts": {"L": [{"M": {"method": {"S": "stripe"}, "amount": {"N": "69900"}}}]},
        })
    }

    fn record(name: &str, sequence: &str, old: Option<Value>, new: Option<Value>) -> Value {
        let mut change = json!({
            "ApproximateCreationDateTime": 1_762_819_200, "SequenceNumber": sequence, "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES", "Keys": {"buyer": {"S": "23456789ABCDEFGH"}},
        });
        for (image, value) in [("OldImage", old), ("NewImage", new)] {
            if let Some(value) = value {
                change[image] = value;
            }
        }
        json!({
            "eventID": sequence, "eventName": name, "eventVersion": "1.1", "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1", "dynamodb": change,
            "eventSourceARN": "arn:aws:dynamodb:us-east-1:1:table/x/stream/y",
        })
    }

    fn read_all(records: &[Value]) -> Batch {
        read(serde_json::from_value(json!({ "Records": records })).unwrap())
    }

    #[test]
    fn only_what_a_buyer_can_see_is_a_change() {
        let batch = read_all(&[
            record("INSERT", "1", None, Some(order("PENDING_PAYMENT", None))),
            record(
                "MODIFY",
                "2",
                Some(order("PENDING_PAYMENT", None)),
                Some(order("PENDING_PAYMENT", Some("https://pay.example/1"))),
            ),
            record("MODIFY", "3", Some(order("PENDING_PAYMENT", None)), Some(order("PAID", None))),
            record("REMOVE", "4", Some(order("PAID", None)), None),
        ]);
        let seen: Vec<_> =
            batch.changes.iter().map(|change| (change.sequence.as_str(), change.order.status.as_str())).collect();
        assert_eq!(seen, [("1", "PENDING_PAYMENT"), ("3", "PAID")], "a link that is kept is no news");
        assert!(batch.changes.iter().all(|change| change.order.payment.is_some() && change.order.attempts.len() == 1));
        assert!(batch.opened.is_empty() && batch.unread.is_empty());
    }

    #[test]
    fn a_connection_is_batch_from_an_order() {
        let row = json!({
            "buyer": {"S": "23456789ABCDEFGH"}, "connection": {"S": "abc="}, "opened": {"N": "1"},
            "expires": {"N": "2"},
        });
        let batch = read_all(&[record("INSERT", "1", None, Some(row))]);
        let [Opened { buyer, connection, .. }] = batch.opened.as_slice() else { panic!("{batch:?}") };
        assert_eq!((buyer.as_str(), connection.as_str()), ("23456789ABCDEFGH", "abc="));
    }

    #[test]
    fn an_unreadable_record_does_not_stop_the_others() {
        let batch = read_all(&[
            record("INSERT", "1", None, Some(json!({"buyer": {"S": "x"}}))),
            record("INSERT", "2", None, Some(order("PENDING_PAYMENT", None))),
        ]);
        assert_eq!((batch.unread, batch.changes.len()), (vec!["1".to_owned()], 1));
    }
}
