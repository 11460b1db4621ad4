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
    let letters = name.chars().count();
    let most = (letters / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(far, _)| *far <= most && *far < letters)
        .min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| format!(", did you mean {candidate}?"))
        .unwrap_or_default()
}

/// Edit distance: insert, delete, replace, or swap two neighbours.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    let at =
        |rows: &[Vec<usize>], i: usize, j: usize| rows.get(i).and_then(|row| row.get(j)).copied().unwrap_or(usize::MAX);
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = at(&rows, i, j) + usize::from(a != b);
            let deleted = at(&rows, i, j + 1) + 1;
            let inserted = row.last().copied().unwrap_or_default() + 1;
            let mut least = replaced.min(deleted).min(inserted);
            let before = |chars: &[char], at: usize| at.checked_sub(1).and_then(|at| chars.get(at).copied());
            if before(&one, i) == Some(*b) && before(&other, j) == Some(*a) {
                least = least.min(at(&rows, i - 1, j - 1) + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    at(&rows, one.len(), other.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_does_not() {
        let known = ["TableName", "KeySchema", "BillingMode"];
        assert_eq!(did_you_mean("TabelName", known), ", did you mean TableName?");
        assert_eq!(did_you_mean("GTE", ["PUT", "GET"]), ", did you mean GET?");
        assert_eq!(did_you_mean("keyschema", known), ", did you mean KeySchema?");
        assert_eq!(did_you_mean("Encryption", known), "");
    }
}
