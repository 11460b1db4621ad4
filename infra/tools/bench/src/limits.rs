//! What the rate limits of one running function cost: time per request, and memory when they are full.

use std::time::Instant;

use domain::Timestamp;
use domain::ids::{Buyer, BuyerKey, Offer};
use domain::sale::{Sale, SaleState};
use figures::float;
use flows::buy::limits::{BUYERS, Limits};

use crate::Problem;
use crate::report::Section;

/// The page size in which Linux counts memory.
const PAGE_BYTES: f64 = 4_096.0;

pub(crate) fn measure() -> Result<Section, Problem> {
    eprintln!("  limits …");
    let mut section = Section::new("Rate limits of a running function, when full");
    let now = Timestamp::UNIX_EPOCH;
    let offer = Offer { sale: "sale".parse()?, item: "phone".parse()? };
    let sale = Sale {
        id: offer.sale.clone(),
        name: "sale".into(),
        starts_at: now,
        ends_at: now,
        payment_window_s: 900,
        state: SaleState::Ready,
        buyer_cooldown_ms: 60_000,
        item_rate_per_second: Some(1_000_000),
        refunds_until: None,
        version: 1,
        changed_at: now,
    };
    let buyers: Vec<BuyerKey> = (0..2 * BUYERS)
        .map(|number| Ok(BuyerKey::of(&Buyer::parse(format!("buyer-{number}"))?, "")))
        .collect::<Result<_, Problem>>()?;
    let limits = Limits::default();
    let before = resident_bytes();
    let first = Instant::now();
    let admitted = buyers.iter().filter(|buyer| limits.admit(&sale, &offer, buyer, now).is_ok()).count();
    let first = first.elapsed();
    let after = resident_bytes();
    let second = Instant::now();
    let refused = buyers.iter().filter(|buyer| limits.admit(&sale, &offer, buyer, now).is_err()).count();
    let second = second.elapsed();
    if (admitted, refused) != (buyers.len(), buyers.len()) {
        return Err(format!("of {} requests, {admitted} were let through, then {refused} refused", buyers.len()).into());
    }
    let each_us =
        |took: std::time::Duration| took.as_secs_f64() * 1e6 / float(u64::try_from(buyers.len()).unwrap_or(1));
    section.add("a request that is let through", each_us(first), "µs");
    section.add("a request that is refused", each_us(second), "µs");
    section.add("buyers remembered", float(u64::try_from(buyers.len())?), "buyers");
    section.add("memory for these buyers", (after - before) / 1e6, "MB");
    Ok(section)
}

fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    float(pages.unwrap_or(0)) * PAGE_BYTES
}
