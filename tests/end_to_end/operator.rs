//! An operator sets up a sale and edits it before it is on.

use crate::shop::{Shop, sale};
use serde_json::json;

#[tokio::test]
async fn an_item_can_be_removed_from_a_draft_and_a_preheated_sale_is_listed() {
    let shop = Shop::open().await;
    // More units than one page of buckets holds, so several pages are read together.
    let one = sale(13_000, 1, 900);
    let mut two = one.clone();
    let mut mug = two["items"][0].clone();
    mug["itemId"] = json!("mug");
    two["items"].as_array_mut().unwrap().push(mug);

    let created = shop.operator.post("/admin/sales", &two).await;
    assert_eq!((created.status, created.body["items"].as_array().unwrap().len()), (201, 2), "{created:?}");
    let path = format!("/admin/sales/{}", created.body["saleId"].as_str().unwrap());
    let refused = shop.operator.put(&path, &one).await;
    assert_eq!((refused.status, &refused.body["code"]), (412, &json!("STALE_VERSION")), "{refused:?}");
    let mut edit = one.clone();
    edit["version"] = created.body["version"].clone();
    let edited = shop.operator.put(&path, &edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let read = shop.operator.get(&path).await;
    let items: Vec<_> = read.body["items"].as_array().unwrap().iter().map(|item| item["itemId"].clone()).collect();
    assert_eq!(items, ["phone"], "{read:?}");

    let preheated = shop.operator.post(&format!("{path}/preheat"), &json!({})).await;
    assert_eq!(preheated.status, 200, "{preheated:?}");
    let listed = shop.api.send("GET", "/sales", &[], "").await;
    let sales: Vec<_> = listed.body["sales"].as_array().unwrap().iter().map(|sale| sale["saleId"].clone()).collect();
    assert_eq!(sales, [created.body["saleId"].clone()], "{listed:?}");
    shop.close().await;
}
