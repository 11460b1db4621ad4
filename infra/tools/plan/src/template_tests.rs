//! The constants of the plan agree with the template.

use crate::bill::{MEMORY_GB, WARM_TABLES};
use crate::orders::BATCH;
use crate::plan::TEMPLATE_RATE;
use crate::reads::MOST_COPIES;

fn template() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../template.yaml")).unwrap()
}

/// The number after the last of these texts, each of which is searched for after the previous one.
fn number(words: &[&str]) -> f64 {
    let text = template();
    let rest = words.iter().fold(text.as_str(), |rest, word| {
        rest.split_once(*word).unwrap_or_else(|| panic!("the template has no {word:?}")).1
    });
    rest.lines().next().unwrap_or_default().trim().parse().unwrap()
}

#[test]
fn the_constants_agree_with_the_template() {
    assert_eq!(number(&["\nGlobals:\n", " MemorySize: "]), MEMORY_GB * 1_024.0);
    assert_eq!(number(&["\n  OrderConsumerFunction:\n", " BatchSize: "]), BATCH);
    assert_eq!(number(&["\n  SeckillRateLimit:\n", " Default: "]), TEMPLATE_RATE);
    // The simulated gateway has a burst of half a second.
    assert_eq!(number(&["\n  SeckillBurstLimit:\n", " Default: "]), TEMPLATE_RATE / 2.0);
    let warmed = template().matches("WarmThroughput: !If\n").count();
    // The table of pages is warmed for reads alone.
    assert_eq!(figures::float(u64::try_from(warmed).unwrap()), WARM_TABLES + 1.0);
    assert_eq!(number(&["\n  PageCopies:\n", " MaxValue: "]), f64::from(MOST_COPIES));
}
