//! Alipay writes money as a decimal text in yuan (`69.99`); this system counts integer fen. The conversion works on
//! digits and never uses floating-point numbers.

/// The largest amount of one payment at Alipay: 100,000,000.00 yuan.
pub(crate) const MAX_FEN: i64 = 10_000_000_000;

/// `6999` → `69.99`.
pub(crate) fn from_fen(fen: i64) -> String {
    let sign = if fen < 0 { "-" } else { "" };
    let fen = fen.unsigned_abs();
    format!("{sign}{}.{:02}", fen / 100, fen % 100)
}

/// `69.99`, `69.9` or `69` → fen, at most [`MAX_FEN`]. Signs, exponents, blanks, leading zeros and third decimals
/// are refused.
pub(crate) fn to_fen(text: &str) -> Option<i64> {
    let (yuan, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(yuan) || !digits(decimals) || yuan.len() > 9 || decimals.len() > 2 {
        return None;
    }
    if yuan.len() > 1 && yuan.starts_with('0') {
        return None;
    }
    let tens = if decimals.len() == 1 { 10 } else { 1 };
    let fen = yuan.parse::<i64>().ok()? * 100 + decimals.parse::<i64>().ok()? * tens;
    (fen <= MAX_FEN).then_some(fen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_that_floats_get_wrong_are_exact() {
        for (text, fen) in [
            ("69.99", 6999),
            ("0.01", 1),
            ("0.1", 10),
            ("0.29", 29),
            ("1.15", 115),
            ("19.99", 1999),
            ("8", 800),
            ("0", 0),
            ("100000000.00", MAX_FEN),
        ] {
            assert_eq!(to_fen(text), Some(fen), "{text}");
        }
    }

    #[test]
    fn anything_but_a_plain_amount_is_refused() {
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1.00",
            "+1.00",
            "1.001",
            "1,00",
            "1e2",
            " 1.00",
            "1.00 ",
            "01.00",
            "00",
            "1.0.0",
            "0x1",
            "１.00",
            "100000000.01",
            "999999999.99",
            "9999999999.00",
            "NaN",
            "1.-1",
        ] {
            assert_eq!(to_fen(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_survives_a_round_trip(fen in 0..=MAX_FEN) {
            prop_assert_eq!(to_fen(&from_fen(fen)), Some(fen));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            if let Some(fen) = to_fen(&text) {
                prop_assert!((0..=MAX_FEN).contains(&fen));
            }
        }

        #[test]
        fn texts_that_look_like_amounts_are_read_exactly(yuan in 0_i64..99_999_999, fen in 0_i64..100) {
            prop_assert_eq!(to_fen(&format!("{yuan}.{fen:02}")), Some(yuan * 100 + fen));
        }
    }
}
