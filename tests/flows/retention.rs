//! Orders of past sales are removed after the time for which they are kept, and nothing else ever is.

use domain::ids::{Offer, OrderId};
use domain::order::Status;
use domain::payment::{Matter, MatterKind, Method};
use flows::Context;
use flows::pay::close::{Cause, close};
use store::Store;
use testkit::stepping::holds_everywhere;
use testkit::world::World;

const DAYS: u32 = 90;

/// The store of reconcile, in a deployment that keeps orders for so long.
fn keeping(world: &World) -> Store {
    let names = store::Names { retention_days: Some(DAYS), ..world.names().clone() };
    Store::new(&world.config_of("reconcile"), names)
}

async fn reconcile(world: &World) -> flows::repair::Report {
    let (store, providers) = (keeping(world), world.providers_of("reconcile"));
    let report = flows::repair::reconcile(Context::new(&store, &providers, world.now())).await;
    assert_eq!(report.errors, [""; 0]);
    report
}

fn pass_days(world: &World, days: u32) {
    world.pass(u64::from(days) * 86_400);
}

/// A sale that is over and settled, with an order that was closed and one that was paid.
async fn settled(world: &World) -> (Offer, OrderId, OrderId) {
    let offer = world.sale(10, 1).await;
    let closed = world.unpaid_order(&offer, "closed").await;
    close(world.context(), &closed, Cause::Buyer).await.unwrap();
    let paid = world.unpaid_order(&offer, "paid").await;
    let started = world.start_payment(&paid, Method::Wechat, 0).await;
    world.pay(&started).await;
    world.deliver_notices().await;
    world.settle_down().await;
    pass_days(world, 2);
    assert_eq!(reconcile(world).await.settled, 1);
    (offer, closed, paid)
}

#[tokio::test]
async fn finished_orders_are_removed_after_their_time_with_everything_about_them() {
    let world = World::new().await;
    let (offer, closed, paid) = settled(&world).await;
    pass_days(&world, DAYS - 3);
    assert_eq!(reconcile(&world).await.retired, 0, "not before");
    assert!(world.order(&closed).await.is_some() && world.order(&paid).await.is_some());
    pass_days(&world, 5);
    assert_eq!(reconcile(&world).await.retired, 2);
    for id in [&closed, &paid] {
        assert!(world.order(id).await.is_none());
        assert_eq!(world.store.entries(id).await.unwrap().len(), 0);
        let (claims, _) = world.store.claims(&id.buyer(), &offer.sale).await.unwrap();
        assert!(claims.claims.is_empty(), "no order is shown as queued: {claims:?}");
    }
    // The stock still proves itself, and the sale is not looked at again.
    assert_eq!(world.figures(&offer).await, (9, 0, 1));
    world.wire.forget_calls();
    assert_eq!(reconcile(&world).await.retired, 0);
    assert!(world.wire.calls().iter().all(|call| call.resource.as_deref() != Some(world.names().orders.as_str())));
}

#[tokio::test]
async fn nothing_is_removed_without_a_retention() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let order = world.unpaid_order(&offer, "a").await;
    close(world.context(), &order, Cause::Buyer).await.unwrap();
    for _ in 0..3 {
        pass_days(&world, 1_000);
        assert_eq!(world.reconcile().await.retired, 0);
    }
    assert!(world.order(&order).await.is_some());
}

/// A refund that is not done, a matter for an operator, and a sale that still holds a unit.
#[tokio::test]
async fn what_is_live_open_or_held_is_never_removed() {
    let world = World::new().await;
    let (_, closed, paid) = settled(&world).await;
    let order = world.order(&paid).await.unwrap();
    world.store.start_refund(&order, order.paid.as_ref().unwrap(), world.now()).await.unwrap();
    let matter = Matter {
        order: closed.clone(),
        kind: MatterKind::Dispute,
        method: Method::Wechat,
        transaction: "disputed".to_owned(),
        amount: order.amount,
        currency: order.currency,
        words: "a dispute".to_owned(),
        at: world.now(),
    };
    world.store.log_matter(&matter).await.unwrap();
    world.fault(|call| match call.resource().as_deref() == Some("wechat") {
        true => local_cloud::wire::Fault::NotApplied(local_cloud::wire::Loss::Io),
        false => local_cloud::wire::Fault::None,
    });
    pass_days(&world, DAYS * 4);
    let (store, providers) = (keeping(&world), world.providers_of("reconcile"));
    let report = flows::repair::reconcile(Context::new(&store, &providers, world.now())).await;
    assert_eq!(report.retired, 0, "{report:?}");
    world.clear_faults();
    assert_eq!(world.order(&paid).await.unwrap().status, Status::Refunding);
    assert!(world.order(&closed).await.is_some() && !world.store.entries(&closed).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_sale_that_holds_a_unit_keeps_all_of_its_orders() {
    let world = World::new().await;
    let offer = world.sale(10, 1).await;
    let closed = world.unpaid_order(&offer, "closed").await;
    close(world.context(), &closed, Cause::Buyer).await.unwrap();
    // A holder that reconcile cannot decide about: its order cannot be read.
    let stuck = world.unpaid_order(&offer, "stuck").await;
    world.settle_down().await;
    let newer = aws_sdk_dynamodb::types::AttributeValue::N("99".to_owned());
    aws_sdk_dynamodb::Client::new(&world.wire.sdk_config())
        .update_item()
        .table_name(&world.names().orders)
        .key("buyer", aws_sdk_dynamodb::types::AttributeValue::S(stuck.buyer().to_string()))
        .key("order", aws_sdk_dynamodb::types::AttributeValue::S(stuck.to_string()))
        .update_expression("SET rowVersion = :newer")
        .expression_attribute_values(":newer", newer)
        .send()
        .await
        .unwrap();
    for _ in 0..3 {
        pass_days(&world, DAYS);
        let report = reconcile(&world).await;
        assert_eq!((report.retired, report.settled), (0, 0), "{report:?}");
    }
    assert!(world.order(&closed).await.is_some());
}

#[tokio::test]
async fn removing_orders_holds_everywhere() {
    let given = async |world: &World| {
        Box::pin(settled(world)).await;
        pass_days(world, DAYS * 2);
    };
    holds_everywhere(given, async |world, ()| {
        let (store, providers) = (keeping(world), world.providers_of("reconcile"));
        let removing = flows::repair::remove_past_orders(Context::new(&store, &providers, world.now()));
        Box::pin(removing).await.unwrap();
    })
    .await;
}
