//! Numbers in a readable format.

/// Exact for counts below 2^52, and all counts here are far below that.
#[expect(clippy::as_conversions, reason = "there is no other conversion")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// Formats a number with thousands separators and about three significant digits. Whole numbers have no decimals.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// Formats dollars with two decimals, or with four below ten cents.
pub fn dollars(value: f64) -> String {
    let decimals = if value.abs() < 0.1 { 4 } else { 2 };
    grouped(&format!("{value:.decimals$}"))
}

fn grouped(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{grouped}.{fraction}"),
        None => grouped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(1_234_567.4), "1,234,567");
        assert_eq!(number(123.0), "123");
        assert_eq!(number(1_000.0), "1,000");
        assert_eq!(number(12.345), "12.3");
        assert_eq!(number(0.123), "0.12");
        assert_eq!(number(0.0456), "0.046");
        assert_eq!(number(-1_234.0), "-1,234");
        assert_eq!(number(-123.0), "-123");
    }

    #[test]
    fn dollars_have_two_decimals() {
        assert_eq!(dollars(1_234.5), "1,234.50");
        assert_eq!(dollars(0.012_34), "0.0123");
        assert_eq!(dollars(0.0), "0.0000");
    }
}
