//! After the purchases: waits until every message has become an order, and checks the audit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use local_cloud::wire::Wire;
use seckill_local::SeckillLocal;
use serde_json::{Value, json};
use testkit::http::User;
use testkit::progress;

use crate::Problem;

/// How often to check whether all orders exist.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Messages that have not become orders yet.
pub(crate) async fn waiting_messages(cloud: &SeckillLocal) -> Result<i64, Problem> {
    let mut waiting = 0;
    for queue in &cloud.stack().queues {
        let counts = cloud.cloud().sqs.counts(&queue.name).await?;
        waiting += counts.visible + counts.in_flight;
    }
    Ok(waiting)
}

/// Waits until every message has become an order. Returns the audit of the item.
pub(crate) async fn wait_for_orders(
    cloud: &SeckillLocal,
    operator: &User,
    sale: &str,
    orders: u32,
) -> Result<Value, Problem> {
    loop {
        let mut shown_at = Instant::now();
        loop {
            let waiting = waiting_messages(cloud).await?;
            if waiting == 0 {
                break;
            }
            if shown_at.elapsed() > progress::every() {
                progress::show(&format!("  {waiting} messages waiting"));
                shown_at = Instant::now();
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let answer = operator.get(&format!("/admin/sales/{sale}/audit")).await;
        let audit = answer.body.pointer("/items/0").ok_or_else(|| format!("no audit: {answer:?}"))?;
        if total_orders(audit) >= u64::from(orders) {
            return Ok(audit.clone());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn total_orders(audit: &Value) -> u64 {
    let orders = audit.get("orders").and_then(Value::as_object);
    orders.map_or(0, |orders| orders.values().filter_map(Value::as_u64).sum())
}

/// Checks that exactly `sold` units are held, each for a different order, and that the audit finds no drift.
pub(crate) fn check(orders: &[(String, i64)], audit: &Value, units: u32, sold: u32) -> Result<(), Problem> {
    let figure = |name: &str| audit.get(name).cloned().unwrap_or_default();
    let expected = [
        ("total", json!(units)),
        ("free", json!(units.saturating_sub(sold))),
        ("held", json!(sold)),
        ("sold", json!(0)),
        ("drift", json!(0)),
        ("findings", json!([])),
    ];
    let mut wrong: Vec<String> = Vec::new();
    for (name, value) in expected {
        if figure(name) != value {
            wrong.push(format!("{name} is {} and must be {value}", figure(name)));
        }
    }
    let pending = audit.pointer("/orders/PENDING_PAYMENT").and_then(Value::as_u64);
    if pending != Some(u64::from(sold)) || total_orders(audit) != u64::from(sold) {
        wrong.push(format!("the orders are {} and must be {sold}, all pending", figure("orders")));
    }
    let different: BTreeSet<&str> = orders.iter().map(|(order, _)| order.as_str()).collect();
    if orders.len() != usize::try_from(sold)? || different.len() != orders.len() {
        wrong.push(format!(
            "{} purchases were accepted with {} different orders instead of {sold}",
            orders.len(),
            different.len()
        ));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("the sale is not correct: {}", wrong.join("; ")).into()),
    }
}

/// When each order was complete, by its id. The schedule of the payment deadline is created last, and it has the id of
/// the order and its own time of creation, so no request is needed.
pub(crate) async fn order_times(cloud: &SeckillLocal) -> Result<BTreeMap<String, i64>, Problem> {
    let client = aws_sdk_scheduler::Client::new(&Wire::new(cloud.cloud().clone()).sdk_config());
    let mut made = BTreeMap::new();
    for group in &cloud.stack().schedule_groups {
        let mut pages = client.list_schedules().group_name(group).into_paginator().send();
        while let Some(page) = pages.try_next().await? {
            for schedule in page.schedules {
                let at = schedule.creation_date.ok_or("a schedule has no time of creation")?.to_millis()?;
                made.insert(schedule.name.unwrap_or_default(), at);
            }
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_named() {
        let audit = json!({
            "total": 3, "free": 1, "held": 2, "sold": 0, "drift": 0, "findings": [],
            "orders": { "PENDING_PAYMENT": 2, "PAID": 0 },
        });
        let orders = [("A".to_owned(), 1), ("B".to_owned(), 2)];
        assert!(check(&orders, &audit, 3, 2).is_ok());
        let twice = [("A".to_owned(), 1), ("A".to_owned(), 2)];
        assert!(check(&twice, &audit, 3, 2).unwrap_err().to_string().contains("1 different orders"));
        let mut drifted = audit.clone();
        drifted["drift"] = json!(1);
        assert!(check(&orders, &drifted, 3, 2).unwrap_err().to_string().contains("drift is 1"));
        let mut paid = audit;
        paid["orders"]["PAID"] = json!(1);
        assert!(check(&orders, &paid, 3, 2).unwrap_err().to_string().contains("all pending"));
    }
}
