//! When a schedule fires: `at(…)` in a time zone, and `rate(…)`. `cron(…)` is not supported.

use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::SchedulerError;

/// An expression, taken apart.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    /// Once.
    At(i64),
    /// Every so many milliseconds, from the schedule's start on.
    Rate(i64),
}

impl Expression {
    /// Reads an expression for a time zone (`None` is UTC).
    pub(super) fn parse(text: &str, zone: Option<&str>) -> Result<Self, SchedulerError> {
        let invalid = || SchedulerError::Validation(format!("Invalid Schedule Expression {text}."));
        let zone = find_zone(zone.unwrap_or("UTC"))?;
        let (kind, inside) = text.strip_suffix(')').and_then(|text| text.split_once('(')).ok_or_else(invalid)?;
        match kind {
            "at" => {
                let at: DateTime = inside.parse().map_err(|_| invalid())?;
                // The one form AWS takes: no fraction, no zone, no space.
                if inside.len() != 19 || inside.as_bytes().get(10) != Some(&b'T') {
                    return Err(invalid());
                }
                let at = zone.to_ambiguous_timestamp(at).compatible().map_err(|_| invalid())?;
                Ok(Self::At(at.as_millisecond()))
            }
            "rate" => parse_rate(inside).map(Self::Rate).ok_or_else(invalid),
            _ => Err(invalid()),
        }
    }

    /// The first time at or after `from_ms`. A rate counts from `anchor_ms`.
    pub(super) fn first_from(&self, anchor_ms: i64, from_ms: i64) -> Option<i64> {
        self.next_after(anchor_ms, from_ms.saturating_sub(1))
    }

    /// The first time after `after_ms`. A rate counts from `anchor_ms`.
    pub(super) fn next_after(&self, anchor_ms: i64, after_ms: i64) -> Option<i64> {
        match self {
            Self::At(at_ms) => Some(*at_ms).filter(|at_ms| *at_ms > after_ms),
            Self::Rate(every_ms) => {
                if anchor_ms > after_ms {
                    return Some(anchor_ms);
                }
                let passed = after_ms.saturating_sub(anchor_ms).checked_div(*every_ms)?;
                passed.checked_add(1)?.checked_mul(*every_ms)?.checked_add(anchor_ms)
            }
        }
    }
}

fn parse_rate(inside: &str) -> Option<i64> {
    let mut words = inside.split_whitespace();
    let (value, unit) = (words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    let value: i64 = value.parse().ok().filter(|value| *value > 0)?;
    let unit_ms = match unit {
        "minute" | "minutes" => 60_000,
        "hour" | "hours" => 3_600_000,
        "day" | "days" => 86_400_000,
        _ => return None,
    };
    value.checked_mul(unit_ms)
}

/// A time zone by its IANA name, from the machine's own zone files.
fn find_zone(name: &str) -> Result<TimeZone, SchedulerError> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    let invalid = || SchedulerError::Validation(format!("Invalid ScheduleExpressionTimezone {name}."));
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '+' | '-');
    if name.is_empty() || name.len() > 50 || !name.chars().all(allowed) || name.starts_with('/') {
        return Err(invalid());
    }
    let folders = ["/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];
    if !folders.iter().any(|folder| Path::new(folder).is_dir()) {
        return Err(SchedulerError::Validation(format!(
            "time zone {name} cannot be looked up, because this machine has no zone files: install tzdata, or use UTC"
        )));
    }
    let data =
        folders.iter().find_map(|folder| std::fs::read(Path::new(folder).join(name)).ok()).ok_or_else(invalid)?;
    TimeZone::tzif(name, &data).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().expect(text).as_millisecond()
    }

    #[test]
    fn a_rate_counts_from_its_anchor() {
        let rate = Expression::parse("rate(5 minutes)", None).expect("a rate");
        assert_eq!(rate.first_from(1_000, 1_000), Some(1_000));
        assert_eq!(rate.next_after(1_000, 1_000), Some(301_000));
        assert_eq!(rate.next_after(1_000, 301_000 * 7), Some(1_000 + 300_000 * 8));
    }

    #[test]
    fn a_time_is_in_the_named_zone() {
        let at = Expression::parse("at(2026-11-16T20:00:00)", Some("Asia/Shanghai")).expect("a time");
        assert_eq!(at.first_from(0, 0), Some(ms("2026-11-16T12:00:00Z")));
    }

    #[test]
    fn refuses_what_is_no_expression() {
        for text in [
            "at(2026-11-16)",
            "at(2026-11-16T20:00:00Z)",
            "at(2026-11-16T20:00)",
            "at(2026-02-30T20:00:00)",
            "rate(0 minutes)",
            "rate(5 seconds)",
            "rate(5)",
            "cron(0 8 * * ? *)",
            "every(5 minutes)",
            "at 5",
        ] {
            assert!(matches!(Expression::parse(text, None), Err(SchedulerError::Validation(_))), "{text}");
        }
        for zone in ["Mars/Phobos", "../passwd", "/etc/passwd", ""] {
            assert!(Expression::parse("rate(1 day)", Some(zone)).is_err(), "{zone}");
        }
    }
}
