//! China Standard Time (UTC+8, no daylight saving), which Alipay and WeChat Pay use, mostly without naming it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

const CHINA: Offset = Offset::constant(8);

/// `2026-11-11 00:00:00`.
pub(crate) fn with_spaces(time: Timestamp) -> String {
    CHINA.to_datetime(time).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `20261111000000`.
pub(crate) fn digits(time: Timestamp) -> String {
    CHINA.to_datetime(time).strftime("%Y%m%d%H%M%S").to_string()
}

/// `2026-11-11T00:00:00+08:00`.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    time.to_zoned(TimeZone::fixed(CHINA)).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Reads the form of [`with_spaces`].
pub(crate) fn from_spaces(text: &str) -> Option<Timestamp> {
    read(text, "%Y-%m-%d %H:%M:%S")
}

/// Reads the form of [`digits`].
pub(crate) fn from_digits(text: &str) -> Option<Timestamp> {
    read(text, "%Y%m%d%H%M%S")
}

fn read(text: &str, format: &str) -> Option<Timestamp> {
    CHINA.to_timestamp(DateTime::strptime(format, text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midnight_in_china_is_16_00_utc_of_the_day_before() {
        let time: Timestamp = "2026-11-10T16:00:00Z".parse().unwrap();
        assert_eq!(with_spaces(time), "2026-11-11 00:00:00");
        assert_eq!(digits(time), "20261111000000");
        assert_eq!(rfc3339(time), "2026-11-11T00:00:00+08:00");
        assert_eq!(from_spaces("2026-11-11 00:00:00"), Some(time));
        assert_eq!(from_digits("20261111000000"), Some(time));
        for bad in ["", "2026-11-11", "2026-13-11 00:00:00", "2026-11-11 00:00:00.5", "日本"] {
            assert_eq!((from_spaces(bad), from_digits(bad)), (None, None), "{bad}");
        }
    }
}
