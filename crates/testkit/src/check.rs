//! The result of checking one property, and how it is reported.

/// Violations that a report lists; the rest are counted.
const NAMED: usize = 10;

/// One property and its violations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The property, as a sentence.
    pub says: String,
    /// The violations, with the orders concerned.
    pub wrong: Vec<String>,
    /// Whether a violation may go away by itself because something is still in flight.
    pub may_settle: bool,
}

impl Check {
    fn new(says: impl Into<String>, may_settle: bool, wrong: Vec<String>) -> Self {
        Self { says: says.into(), wrong, may_settle }
    }

    /// A property that must hold at every moment.
    pub fn never(says: impl Into<String>, wrong: Vec<String>) -> Self {
        Self::new(says, false, wrong)
    }

    /// A property that must hold once nothing is in flight.
    pub fn in_the_end(says: impl Into<String>, wrong: Vec<String>) -> Self {
        Self::new(says, true, wrong)
    }

    /// The report for a person.
    pub fn line(&self) -> String {
        if self.wrong.is_empty() {
            return format!("  ok    {}", self.says);
        }
        let mut lines = vec![format!("  WRONG {}", self.says)];
        lines.extend(self.wrong.iter().take(NAMED).map(|wrong| format!("          {wrong}")));
        if self.wrong.len() > NAMED {
            lines.push(format!("          and {} more", self.wrong.len() - NAMED));
        }
        lines.join("\n")
    }
}
