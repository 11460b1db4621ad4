//! What is wrong with a template, where, and what to do about it.

use std::path::PathBuf;

/// Why a template was refused.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The file could not be read.
    #[error("{}: cannot be read: {source}; give the path of a template", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something in the template is wrong, or is not known here. The message ends with what to do.
    #[error("{file}:{line}: {message}")]
    Wrong {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong; what to do.
        message: String,
    },
    /// A value was given for a parameter that the template does not have.
    #[error("{file}: there is no parameter {name}{hint}; give values only for parameters that the template declares")]
    UnknownParameter {
        /// The file's name.
        file: String,
        /// The parameter.
        name: String,
        /// `, did you mean …?`, or nothing.
        hint: String,
    },
}

/// A fault at a line, before the file's name is put to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) line: usize,
    pub(super) message: String,
}

pub(super) type Read<T> = Result<T, Problem>;

/// Shorthand for a failed read: `wrong(line, "what is wrong; what to do")`.
pub(super) fn wrong<T>(line: usize, message: impl Into<String>) -> Read<T> {
    Err(Problem { line, message: message.into() })
}

impl Problem {
    pub(super) fn in_file(self, file: &str) -> TemplateError {
        TemplateError::Wrong { file: file.to_owned(), line: self.line, message: self.message }
    }
}

/// `, did you mean X?` for the known name that `name` most likely was meant to be, or nothing.
pub(super) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    // A third of the letters wrong is no longer a slip of the finger.
    let most = (name.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(far, _)| *far <= most)
        .min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| format!(", did you mean {candidate}?"))
        .unwrap_or_default()
}

/// Edit distance (insert, delete, replace).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (pair, b) in row.windows(2).zip(&other) {
            let &[diagonal, above] = pair else { continue };
            left = (diagonal + usize::from(a != *b)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_does_not() {
        let known = ["TableName", "KeySchema", "BillingMode"];
        assert_eq!(did_you_mean("TabelName", known), ", did you mean TableName?");
        assert_eq!(did_you_mean("keyschema", known), ", did you mean KeySchema?");
        assert_eq!(did_you_mean("Encryption", known), "");
    }
}
