//! A property that is checked, and how it is told.

/// Things named in a failed check; the rest are counted.
const NAMED: usize = 10;

/// One property, and what speaks against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What must be true.
    pub says: String,
    /// What is not so, with the orders concerned.
    pub wrong: Vec<String>,
    /// Whether time may put it right: something is under way.
    pub may_settle: bool,
}

impl Check {
    fn new(says: impl Into<String>, may_settle: bool, wrong: Vec<String>) -> Self {
        Self { says: says.into(), wrong, may_settle }
    }

    /// What must not have happened at all.
    pub fn never(says: impl Into<String>, wrong: Vec<String>) -> Self {
        Self::new(says, false, wrong)
    }

    /// What must be true once everything has come to its end.
    pub fn in_the_end(says: impl Into<String>, wrong: Vec<String>) -> Self {
        Self::new(says, true, wrong)
    }

    /// For a person.
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
