//! Cron expressions as Scheduler writes them: minutes, hours, day of month, month, day of week, year.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime, Weekday, date};

/// Years that an expression can name.
const YEARS: std::ops::RangeInclusive<i16> = 1970..=2199;
const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A cron expression, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cron {
    minutes: BTreeSet<i16>,
    hours: BTreeSet<i16>,
    months: BTreeSet<i16>,
    years: BTreeSet<i16>,
    days: Days,
}

#[derive(Clone, Debug, PartialEq)]
enum Days {
    OfMonth(BTreeSet<i16>),
    LastOfMonth,
    LastWeekdayOfMonth,
    /// The working day nearest to this day, in the same month.
    WeekdayNear(i16),
    /// 1 is Sunday.
    OfWeek(BTreeSet<i16>),
    LastOfWeekdayInMonth(i16),
    NthOfWeekdayInMonth(i16, i16),
}

impl Cron {
    /// Reads the six fields. `None` if they make no cron expression.
    pub(super) fn parse(fields: &str) -> Option<Self> {
        let mut fields = fields.split_whitespace();
        let (minutes, hours, of_month, months, of_week, years) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        if fields.next().is_some() {
            return None;
        }
        let days = match (of_month, of_week) {
            ("?", "?") => return None,
            (of_month, "?") => days_of_month(of_month)?,
            ("?", of_week) => days_of_week(of_week)?,
            // AWS wants a `?` in one of the two, because a day cannot be picked by both.
            _ => return None,
        };
        Some(Self {
            minutes: values(minutes, 0, 59, &[])?,
            hours: values(hours, 0, 23, &[])?,
            months: values(months, 1, 12, &MONTHS)?,
            years: values(years, *YEARS.start(), *YEARS.end(), &[])?,
            days,
        })
    }

    /// The first time after `after`, in the schedule's own zone, for which `exists` holds.
    pub(super) fn next(&self, after: DateTime, mut exists: impl FnMut(DateTime) -> bool) -> Option<DateTime> {
        for year in self.years.range(after.year()..) {
            for month in &self.months {
                let first = date_of(*year, *month, 1)?;
                if first.last_of_month() < after.date() {
                    continue;
                }
                for day in self.days.in_month(first) {
                    if day < after.date() {
                        continue;
                    }
                    let times =
                        self.hours.iter().flat_map(|hour| self.minutes.iter().map(move |minute| (hour, minute)));
                    for (hour, minute) in times {
                        let at = day.at(i8::try_from(*hour).ok()?, i8::try_from(*minute).ok()?, 0, 0);
                        if at > after && exists(at) {
                            return Some(at);
                        }
                    }
                }
            }
        }
        None
    }
}

impl Days {
    /// The days of the month that starts at `first`, in order.
    fn in_month(&self, first: Date) -> Vec<Date> {
        let days: Vec<Date> =
            first.series(jiff::Span::new().days(1)).take_while(|day| day.month() == first.month()).collect();
        let on = |weekday: i16| days.iter().copied().filter(move |day| number_of(day.weekday()) == weekday);
        match self {
            Self::OfMonth(numbers) => {
                days.iter().copied().filter(|day| numbers.contains(&i16::from(day.day()))).collect()
            }
            Self::LastOfMonth => vec![first.last_of_month()],
            Self::LastWeekdayOfMonth => days.iter().copied().rev().find(is_working_day).into_iter().collect(),
            Self::WeekdayNear(number) => nearest_working_day(&days, *number).into_iter().collect(),
            Self::OfWeek(numbers) => {
                days.iter().copied().filter(|day| numbers.contains(&number_of(day.weekday()))).collect()
            }
            Self::LastOfWeekdayInMonth(weekday) => on(*weekday).next_back().into_iter().collect(),
            Self::NthOfWeekdayInMonth(weekday, nth) => {
                let before = usize::try_from(nth.saturating_sub(1)).unwrap_or(0);
                on(*weekday).nth(before).into_iter().collect()
            }
        }
    }
}

fn date_of(year: i16, month: i16, day: i8) -> Option<Date> {
    Some(date(year, i8::try_from(month).ok()?, day))
}

fn number_of(weekday: Weekday) -> i16 {
    i16::from(weekday.to_sunday_one_offset())
}

fn is_working_day(day: &Date) -> bool {
    !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

fn nearest_working_day(days: &[Date], number: i16) -> Option<Date> {
    let wanted = days.iter().find(|day| i16::from(day.day()) == number)?;
    days.iter()
        .copied()
        .filter(is_working_day)
        .min_by_key(|day| (i16::from(day.day()) - number).abs().saturating_mul(2) + i16::from(day > wanted))
}

fn days_of_month(field: &str) -> Option<Days> {
    match field {
        "L" => Some(Days::LastOfMonth),
        "LW" => Some(Days::LastWeekdayOfMonth),
        _ => match field.strip_suffix('W') {
            Some(day) => number(day, 1, 31, &[]).map(Days::WeekdayNear),
            None => values(field, 1, 31, &[]).map(Days::OfMonth),
        },
    }
}

fn days_of_week(field: &str) -> Option<Days> {
    if field == "L" {
        return Some(Days::OfWeek(BTreeSet::from([7])));
    }
    if let Some(day) = field.strip_suffix('L') {
        return number(day, 1, 7, &DAYS).map(Days::LastOfWeekdayInMonth);
    }
    if let Some((day, nth)) = field.split_once('#') {
        return Some(Days::NthOfWeekdayInMonth(number(day, 1, 7, &DAYS)?, number(nth, 1, 5, &[])?));
    }
    values(field, 1, 7, &DAYS).map(Days::OfWeek)
}

/// `*`, `5`, `1-5`, `0/15`, `MON-FRI`, and lists of these.
fn values(field: &str, lowest: i16, highest: i16, names: &[&str]) -> Option<BTreeSet<i16>> {
    let mut found = BTreeSet::new();
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<i16>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (lowest, highest),
            Some((from, to)) => (number(from, lowest, highest, names)?, number(to, lowest, highest, names)?),
            None => {
                let only = number(range, lowest, highest, names)?;
                (only, if step.is_some() { highest } else { only })
            }
        };
        if from > to {
            return None;
        }
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        found.extend((from..=to).step_by(step));
    }
    Some(found)
}

/// A number, or a name that stands for one.
fn number(text: &str, lowest: i16, highest: i16, names: &[&str]) -> Option<i16> {
    let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let value = match named {
        Some(position) => i16::try_from(position).ok()?.checked_add(lowest)?,
        None => text.parse().ok()?,
    };
    (lowest..=highest).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_next_time() {
        // expression, after, next
        let cases = [
            ("0/15 * * * ? *", "2026-11-16T10:07:30", Some("2026-11-16T10:15:00")),
            ("0 10 * * ? *", "2026-11-16T10:00:00", Some("2026-11-17T10:00:00")),
            ("15 12 ? * MON-FRI *", "2026-11-20T12:15:00", Some("2026-11-23T12:15:00")),
            ("0 8 1 * ? *", "2026-12-15T00:00:00", Some("2027-01-01T08:00:00")),
            ("0 8 L * ? *", "2027-02-01T00:00:00", Some("2027-02-28T08:00:00")),
            ("0 8 LW * ? *", "2027-02-01T00:00:00", Some("2027-02-26T08:00:00")),
            ("0 8 1W 5 ? 2027", "2027-01-01T00:00:00", Some("2027-05-03T08:00:00")),
            ("0 8 ? * 6L *", "2026-11-16T00:00:00", Some("2026-11-27T08:00:00")),
            ("0 8 ? * 3#2 *", "2026-11-16T00:00:00", Some("2026-12-08T08:00:00")),
            ("0 8 29 2 ? *", "2026-11-16T00:00:00", Some("2028-02-29T08:00:00")),
            ("0 8 1 1 ? 2026", "2026-11-16T00:00:00", None),
            ("5,35 14 * * ? *", "2026-11-16T14:05:00", Some("2026-11-16T14:35:00")),
        ];
        for (expression, after, next) in cases {
            let cron = Cron::parse(expression).expect(expression);
            let found = cron.next(after.parse().expect(after), |_| true);
            assert_eq!(found.map(|at| at.to_string()).as_deref(), next, "{expression} after {after}");
        }
    }

    #[test]
    fn refuses_what_aws_refuses() {
        for expression in [
            "* * * * *",
            "0 8 1 * MON *",
            "0 8 ? * ? *",
            "60 8 * * ? *",
            "0 8 * * ? 1969",
            "0 8 5-1 * ? *",
            "0/0 8 * * ? *",
        ] {
            assert_eq!(Cron::parse(expression), None, "{expression}");
        }
    }
}
