//! Dead letters: list them and send them again, as the console does.

pub use store::dead_letters::{Letter, LetterKind, QueueError};

use crate::target::Target;

/// The most letters in one run. The rest are left for the next run.
const MAX_LETTERS: usize = 10_000;

/// All letters of a kind. They stay in their queue.
pub async fn list(target: &Target, kind: LetterKind) -> Result<Vec<Letter>, QueueError> {
    target.dead_letters.list(kind, MAX_LETTERS).await
}

/// Sends letters again, as [`LetterKind::remedy`] says. Calls `show` with each letter before it is removed.
pub async fn redrive(target: &Target, kind: LetterKind, show: impl FnMut(&Letter)) -> Result<usize, QueueError> {
    target.dead_letters.redrive(kind, MAX_LETTERS, show).await
}
