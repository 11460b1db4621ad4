//! Buyers' claims: one row per buyer and sale, with an attribute `item#…` for each claim and `key#…` for each
//! answer given under an idempotency key. One write makes a claim and checks all of the buyer's claims and keys
//! in that sale.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValue;
use domain::Timestamp;
use domain::bucket::BucketNo;
use domain::claim::{Answered, BuyerClaims, Claim, ClaimState};
use domain::ids::{Buyer, BuyerKey, IdempotencyKey, ItemId, Offer, OrderId, SaleId};
use jiff::SignedDuration;

use crate::rows::{Change, ROW_VERSION, Row, Written, attribute, check_version, n, s, update};
use crate::{Store, StoreError};

const ITEM: &str = "item#";
const KEY: &str = "key#";
const PRESSED: &str = "pressed#";
/// The row of a buyer who got an order expires in the year 2100: a sale may be moved later, and as long as an order
/// lives its claim must be there.
const KEPT_UNTIL_S: i64 = 4_102_444_800;

#[derive(Clone, Debug)]
pub struct NewClaim<'a> {
    pub offer: &'a Offer,
    pub buyer: &'a Buyer,
    pub claim: &'a Claim,
    /// The buyer's idempotency key, or the order's id.
    pub key: &'a IdempotencyKey,
    pub expires: Timestamp,
    /// In a sale with a cool-down: the time of this press, and how long the buyer's previous claim must be ago.
    pub cooldown: Option<(Timestamp, SignedDuration)>,
}

/// The result of a write to a buyer's claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimWrite {
    Done,
    /// The claims were not in the expected state; they are returned as they are.
    Refused(Box<BuyerClaims>),
}

impl Store {
    /// Makes a claim, if the buyer has none on the item and has not used the key. Returns all of the buyer's
    /// claims and keys in the sale: after the write if it was made, else as they are.
    pub async fn claim(&self, new: &NewClaim<'_>) -> Result<(ClaimWrite, BuyerClaims), StoreError> {
        const OPERATION: &str = "make a claim";
        let mut request = self
            .claims_row(&new.claim.order.buyer(), &new.offer.sale)
            .return_values(ReturnValue::AllNew)
            .update_expression(
                "SET #claim = :claim, #key = :answered, buyerName = :buyer, \
                 expires = if_not_exists(expires, :expires), rowVersion = :version",
            )
            .condition_expression("attribute_not_exists(#claim) AND attribute_not_exists(#key)")
            .expression_attribute_names("#claim", format!("{ITEM}{}", new.offer.item))
            .expression_attribute_names("#key", format!("{KEY}{}", new.key))
            .expression_attribute_values(":claim", attribute(OPERATION, new.claim)?)
            .expression_attribute_values(
                ":answered",
                attribute(
                    OPERATION,
                    &Answered {
                        order: new.claim.order.clone(),
                        item: new.offer.item.clone(),
                        quantity: new.claim.quantity,
                        shop_data: new.claim.shop_data.digest(),
                        got: None,
                    },
                )?,
            )
            .expression_attribute_values(":buyer", s(new.buyer))
            .expression_attribute_values(":expires", n(new.expires.as_second()))
            .expression_attribute_values(":version", n(ROW_VERSION));
        if let Some((now, cooldown)) = new.cooldown {
            let condition = request.get_condition_expression().clone().unwrap_or_default();
            let change = request.get_update_expression().clone().unwrap_or_default();
            let now_ms = now.as_millisecond();
            // A claim in this function's future was made by one whose clock is ahead: it does not count.
            const COOL: &str = "attribute_not_exists(#pressed) OR #pressed <= :cooled OR #pressed > :now";
            request = request
                .condition_expression(format!("{condition} AND ({COOL})"))
                .update_expression(format!("{change}, #pressed = :now"))
                .expression_attribute_names("#pressed", format!("{PRESSED}{}", new.offer.item))
                .expression_attribute_values(":now", n(now_ms))
                .expression_attribute_values(":cooled", n(now_ms.saturating_sub(cooldown_ms(cooldown))));
        }
        match update(OPERATION, request).await? {
            Written::Done(row) => Ok((ClaimWrite::Done, read_claims(OPERATION, row)?)),
            Written::Refused(row) => {
                let claims = read_claims(OPERATION, row.unwrap_or_default())?;
                Ok((ClaimWrite::Refused(Box::new(claims.clone())), claims))
            }
        }
    }

    /// Records the answer under another key of the same buyer, whose request has resumed an abandoned purchase.
    /// `answered` has what came with this key: a repeated request must be recognised even if the claim is for another
    /// quantity.
    pub async fn add_key(
        &self,
        sale: &SaleId,
        key: &IdempotencyKey,
        answered: &Answered,
    ) -> Result<ClaimWrite, StoreError> {
        const OPERATION: &str = "add an idempotency key";
        let offer = Offer { sale: sale.clone(), item: answered.item.clone() };
        let request = self
            .claim_of(&offer, &answered.order)
            .update_expression("SET #key = :answered")
            .condition_expression("#claim.#order = :order AND attribute_not_exists(#key)")
            .expression_attribute_names("#key", format!("{KEY}{key}"))
            .expression_attribute_values(":answered", attribute(OPERATION, answered)?);
        claim_write(OPERATION, update(OPERATION, request).await?)
    }

    /// Moves a claim that is still HELD to the bucket that is tried next, and records its previous buckets. Only
    /// if the claim has not changed since it was read.
    pub async fn move_claim(&self, offer: &Offer, claim: &Claim, to: &Claim) -> Result<ClaimWrite, StoreError> {
        const OPERATION: &str = "move a claim";
        let mut set = "SET #claim.#bucket = :to".to_owned();
        let mut request = as_it_was(OPERATION, self.claim_of(offer, &claim.order), claim)?
            .expression_attribute_values(":to", n(to.bucket));
        if to.previous_buckets != claim.previous_buckets {
            set.push_str(", #claim.#previous = :previous");
            request = request.expression_attribute_values(":previous", attribute(OPERATION, &to.previous_buckets)?);
        }
        claim_write(OPERATION, update(OPERATION, request.update_expression(set)).await?)
    }

    /// Withdraws a claim that got no stock, with its keys, if it is still HELD and has not changed since it was read.
    pub async fn withdraw_claim(
        &self,
        offer: &Offer,
        claim: &Claim,
        keys: &[IdempotencyKey],
    ) -> Result<ClaimWrite, StoreError> {
        const OPERATION: &str = "withdraw a claim";
        let mut remove = "REMOVE #claim".to_owned();
        let mut request = as_it_was(OPERATION, self.claim_of(offer, &claim.order), claim)?;
        for (number, key) in keys.iter().enumerate() {
            remove.push_str(&format!(", #k{number}"));
            request = request.expression_attribute_names(format!("#k{number}"), format!("{KEY}{key}"));
        }
        claim_write(OPERATION, update(OPERATION, request.update_expression(remove)).await?)
    }

    /// Marks a claim as ORDERED, for units that are held in `bucket`. From now on the claim does not move, its
    /// previous buckets are dropped, and only the order's own end removes it.
    pub async fn mark_ordered(
        &self,
        offer: &Offer,
        order: &OrderId,
        bucket: BucketNo,
    ) -> Result<ClaimWrite, StoreError> {
        const OPERATION: &str = "mark a claim as ordered";
        let request = self
            .claim_of(offer, order)
            .update_expression(
                "SET #claim.#state = :ordered, #claim.#bucket = :bucket, expires = :kept REMOVE #claim.#previous",
            )
            .condition_expression("#claim.#order = :order AND #claim.#state = :held")
            .expression_attribute_names("#bucket", "bucket")
            .expression_attribute_names("#state", "state")
            .expression_attribute_names("#previous", "previousBuckets")
            .expression_attribute_values(":bucket", n(bucket))
            .expression_attribute_values(":kept", n(KEPT_UNTIL_S))
            .expression_attribute_values(":held", attribute(OPERATION, &ClaimState::Held)?)
            .expression_attribute_values(":ordered", attribute(OPERATION, &ClaimState::Ordered)?);
        claim_write(OPERATION, update(OPERATION, request).await?)
    }

    /// Drops the claim of an order that was closed or failed, if it still belongs to this order and the order was
    /// not revived since. The answer under its key stays.
    pub async fn drop_claim(&self, offer: &Offer, order: &OrderId) -> Result<ClaimWrite, StoreError> {
        const OPERATION: &str = "drop a claim";
        let request = self
            .claim_of(offer, order)
            .update_expression("REMOVE #claim")
            .condition_expression("#claim.#order = :order AND #claim.#state <> :revived")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":revived", attribute(OPERATION, &ClaimState::Revived)?);
        claim_write(OPERATION, update(OPERATION, request).await?)
    }

    /// Drops the claim of an order that was refunded, if it still belongs to this order.
    pub async fn drop_refunded_claim(&self, offer: &Offer, order: &OrderId) -> Result<ClaimWrite, StoreError> {
        const OPERATION: &str = "drop a refunded order's claim";
        let request = self
            .claim_of(offer, order)
            .update_expression("REMOVE #claim")
            .condition_expression("#claim.#order = :order");
        claim_write(OPERATION, update(OPERATION, request).await?)
    }

    /// The claim of a revived order, if the buyer has no other on the item: a part of the transaction that
    /// revives it.
    pub(crate) fn claim_again(
        &self,
        operation: &'static str,
        offer: &Offer,
        buyer: &Buyer,
        claim: &Claim,
    ) -> Result<Change, StoreError> {
        let key = [("buyer", s(claim.order.buyer())), ("sale", s(&offer.sale))];
        Ok(Change::of(&self.names.claims, key)
            .only_if("attribute_not_exists(#claim)")
            .update("SET #claim = :claim, buyerName = :buyer, expires = :expires")
            .name("#claim", format!("{ITEM}{}", offer.item))
            .value(":claim", attribute(operation, claim)?)
            .value(":buyer", s(buyer))
            .value(":expires", n(KEPT_UNTIL_S)))
    }

    /// Removes answers under old keys.
    pub async fn forget_keys(
        &self,
        buyer: &BuyerKey,
        sale: &SaleId,
        keys: &[IdempotencyKey],
    ) -> Result<(), StoreError> {
        let mut request = self.claims_row(buyer, sale).condition_expression("attribute_exists(buyer)");
        let mut names = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            request = request.expression_attribute_names(format!("#k{number}"), format!("{KEY}{key}"));
            names.push(format!("#k{number}"));
        }
        let request = request.update_expression(format!("REMOVE {}", names.join(", ")));
        update("forget keys", request).await.map(|_| ())
    }

    /// A buyer's claims in a sale, read consistently, and the buyer's name if there is a row.
    pub async fn claims(&self, buyer: &BuyerKey, sale: &SaleId) -> Result<(BuyerClaims, Option<Buyer>), StoreError> {
        const OPERATION: &str = "read claims";
        let output = self
            .dynamodb
            .get_item()
            .table_name(&self.names.claims)
            .key("buyer", s(buyer))
            .key("sale", s(sale))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let row = output.item.unwrap_or_default();
        let name = row.get("buyerName").and_then(|name| name.as_s().ok()).and_then(|name| Buyer::parse(name).ok());
        Ok((read_claims(OPERATION, row)?, name))
    }

    /// All claims of a buyer, by sale. At most one page of 1 MB: about a thousand sales.
    pub async fn claims_of(&self, buyer: &BuyerKey) -> Result<Vec<(SaleId, BuyerClaims)>, StoreError> {
        const OPERATION: &str = "read a buyer's claims";
        let output = self
            .dynamodb
            .query()
            .table_name(&self.names.claims)
            .key_condition_expression("buyer = :buyer")
            .expression_attribute_values(":buyer", s(buyer))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let mut claims = Vec::new();
        for row in output.items.unwrap_or_default() {
            let sale = row.get("sale").and_then(|sale| sale.as_s().ok()).and_then(|sale| SaleId::parse(sale).ok());
            let sale = sale.ok_or_else(|| StoreError::unreadable(OPERATION, "a claim's sale"))?;
            claims.push((sale, read_claims(OPERATION, row)?));
        }
        Ok(claims)
    }

    fn claims_row(&self, buyer: &BuyerKey, sale: &SaleId) -> UpdateItemFluentBuilder {
        self.dynamodb.update_item().table_name(&self.names.claims).key("buyer", s(buyer)).key("sale", s(sale))
    }

    fn claim_of(&self, offer: &Offer, order: &OrderId) -> UpdateItemFluentBuilder {
        self.claims_row(&order.buyer(), &offer.sale)
            .expression_attribute_names("#claim", format!("{ITEM}{}", offer.item))
            .expression_attribute_names("#order", "order")
            .expression_attribute_values(":order", s(order))
    }
}

/// Only if a claim is still HELD, in its bucket, and no request has moved it in between.
fn as_it_was(
    operation: &'static str,
    request: UpdateItemFluentBuilder,
    claim: &Claim,
) -> Result<UpdateItemFluentBuilder, StoreError> {
    // Previous buckets are only ever added: the same number means the same buckets.
    const UNMOVED: &str = "attribute_not_exists(#claim.#previous)";
    let unmoved = if claim.previous_buckets.is_empty() { UNMOVED } else { "size(#claim.#previous) = :as_many" };
    let mut request = request
        .condition_expression(format!(
            "#claim.#order = :order AND #claim.#state = :held AND #claim.#bucket = :from AND {unmoved}"
        ))
        .expression_attribute_names("#bucket", "bucket")
        .expression_attribute_names("#state", "state")
        .expression_attribute_names("#previous", "previousBuckets")
        .expression_attribute_values(":held", attribute(operation, &ClaimState::Held)?)
        .expression_attribute_values(":from", n(claim.bucket));
    if !claim.previous_buckets.is_empty() {
        request = request.expression_attribute_values(":as_many", n(claim.previous_buckets.len()));
    }
    Ok(request)
}

fn cooldown_ms(cooldown: SignedDuration) -> i64 {
    i64::try_from(cooldown.as_millis()).unwrap_or(i64::MAX)
}

fn claim_write(operation: &'static str, written: Written) -> Result<ClaimWrite, StoreError> {
    Ok(match written {
        Written::Done(_) => ClaimWrite::Done,
        Written::Refused(row) => ClaimWrite::Refused(Box::new(read_claims(operation, row.unwrap_or_default())?)),
    })
}

fn read_claims(operation: &'static str, row: Row) -> Result<BuyerClaims, StoreError> {
    check_version(operation, &row)?;
    let unreadable = |error: &dyn std::fmt::Display| StoreError::unreadable_row(operation, error);
    let mut claims = BuyerClaims::default();
    for (name, value) in row {
        if let Some(item) = name.strip_prefix(ITEM) {
            let item = ItemId::parse(item).map_err(|error| unreadable(&error))?;
            claims.claims.insert(item, serde_dynamo::from_attribute_value(value).map_err(|error| unreadable(&error))?);
        } else if let Some(key) = name.strip_prefix(KEY) {
            let key = IdempotencyKey::parse(key).map_err(|error| unreadable(&error))?;
            claims.keys.insert(key, serde_dynamo::from_attribute_value(value).map_err(|error| unreadable(&error))?);
        } else if let Some(item) = name.strip_prefix(PRESSED) {
            let item = ItemId::parse(item).map_err(|error| unreadable(&error))?;
            let pressed_ms = value.as_n().ok().and_then(|ms| ms.parse().ok());
            let pressed = pressed_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
            claims.pressed.insert(item, pressed.ok_or_else(|| unreadable(&"the time of a press"))?);
        }
    }
    Ok(claims)
}
