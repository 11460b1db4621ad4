//! What one order costs as the system grows: in calls, bytes and write units, from the press to its ledger row.
//!
//! The tables first get the orders and ledger rows of a hundred finished sales. The cost of an order must then be the
//! same, within a tenth, in sales of very different size, and the same as in empty tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use domain::ids::{Buyer, BuyerKey, OrderId};
use figures::float;
use futures::stream::{StreamExt, TryStreamExt};
use local_cloud::wire::Fault;
use testkit::world::{SALT, World};

use crate::Problem;
use crate::report::Section;

const PAST_SALES: u32 = 100;
const SIZES: [u32; 3] = [1_000, 10_000, 100_000];
/// Orders over which the cost is averaged.
const ORDERS: u32 = 400;
/// How much a cost may differ from that in an empty system.
const TOLERANCE: f64 = 0.1;
/// Rows in one write: the most that DynamoDB allows.
const ROWS_PER_WRITE: usize = 25;
/// Writes of past rows at the same time.
const CONCURRENCY: usize = 16;

/// The average cost of an order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OrderCost {
    calls: f64,
    bytes: f64,
    write_units: f64,
}

/// Counts the cost of an order in empty tables, and after the past sales in each size.
pub(crate) async fn measure(past_orders: u32) -> Result<Section, Problem> {
    eprintln!("  growth …");
    let mut section = Section::new(format!(
        "An order as the system grows: {PAST_SALES} finished sales of {past_orders} orders in the tables"
    ));
    let first = cost_of_order(0, 1_000).await?;
    add(&mut section, "empty tables, 1,000 units", first);
    for units in SIZES {
        let cost = cost_of_order(past_orders, units).await?;
        let name = format!("{} units", figures::number(f64::from(units)));
        add(&mut section, &name, cost);
        for (what, now, before) in [
            ("calls", cost.calls, first.calls),
            ("bytes", cost.bytes, first.bytes),
            ("write units", cost.write_units, first.write_units),
        ] {
            if (now - before).abs() > before * TOLERANCE {
                return Err(format!("an order of {name} takes {now} {what}, and {before} in empty tables").into());
            }
        }
    }
    Ok(section)
}

fn add(section: &mut Section, name: &str, cost: OrderCost) {
    section.add(format!("{name}: calls per order"), cost.calls, "calls");
    section.add(format!("{name}: sent per order"), cost.bytes, "bytes");
    section.add(format!("{name}: written per order"), cost.write_units, "write units");
}

async fn cost_of_order(past_orders: u32, units: u32) -> Result<OrderCost, Problem> {
    let world = World::new().await;
    let offer = world.sale(units, 1).await;
    let seckill = world.environment();
    // The first purchase reads the sale and a page, and its rows are the pattern of the past ones.
    seckill.purchase(&world.asks(&offer, "first", 1, None)).await?;
    world.settle_down().await;
    lay_down_past(&world, past_orders).await?;

    let bytes = Arc::new(AtomicU64::new(0));
    let counting = bytes.clone();
    world.fault(move |call| {
        let sent = u64::try_from(call.json().to_string().len()).unwrap_or(u64::MAX);
        counting.fetch_add(sent, Ordering::Relaxed);
        Fault::None
    });
    world.wire.forget_calls();
    for n in 0..ORDERS {
        seckill.purchase(&world.asks(&offer, &format!("buyer {n}"), 1, None)).await?;
    }
    world.consume().await;
    world.stream().await;
    let calls = world.wire.calls();
    let each = |sum: f64| sum / f64::from(ORDERS);
    Ok(OrderCost {
        calls: each(float(u64::try_from(calls.len())?)),
        bytes: each(float(bytes.load(Ordering::Relaxed))),
        write_units: each(calls.iter().map(|call| call.write_units).sum()),
    })
}

/// Writes the orders and ledger rows of the past sales, after the pattern of the rows that are there.
async fn lay_down_past(world: &World, past_orders: u32) -> Result<(), Problem> {
    let client = &aws_sdk_dynamodb::Client::new(&world.wire.sdk_config());
    let text = |text: String| AttributeValue::S(text);
    for table in [&world.names().orders, &world.names().ledger] {
        let found = client.scan().table_name(table).limit(1).send().await?.items.unwrap_or_default();
        let pattern = found.into_iter().next().ok_or("the first order left no row")?;
        let put = |number: u32| {
            let buyer = BuyerKey::of(&Buyer::parse(format!("past {number}"))?, SALT);
            let mut row = pattern.clone();
            row.insert("order".to_owned(), text(OrderId::new(world.now(), &buyer, number).to_string()));
            row.insert("sale".to_owned(), text(format!("past-{}", number % PAST_SALES)));
            if row.contains_key("buyer") {
                row.insert("buyer".to_owned(), text(buyer.to_string()));
            }
            let put = PutRequest::builder().set_item(Some(row)).build()?;
            Ok::<_, Problem>(WriteRequest::builder().put_request(put).build())
        };
        let puts = (0..PAST_SALES * past_orders).map(put).collect::<Result<Vec<_>, _>>()?;
        let writes =
            puts.chunks(ROWS_PER_WRITE).map(|chunk| client.batch_write_item().request_items(table, chunk.to_vec()));
        let sent: Vec<_> = writes.map(|write| write.send()).collect();
        futures::stream::iter(sent).buffer_unordered(CONCURRENCY).try_collect::<Vec<_>>().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_order_costs_the_same_after_a_hundred_sales() {
        let (before, after) = (cost_of_order(0, 1_000).await.unwrap(), cost_of_order(5, 1_000).await.unwrap());
        assert!((after.calls - before.calls).abs() <= before.calls * TOLERANCE, "{before:?} {after:?}");
        assert!((after.bytes - before.bytes).abs() <= before.bytes * TOLERANCE, "{before:?} {after:?}");
        assert!((6.0..7.0).contains(&before.calls) && before.bytes > 1_000.0, "{before:?}");
    }
}
