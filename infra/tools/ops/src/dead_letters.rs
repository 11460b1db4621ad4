//! Dead letters: looked at, and sent again, as the console does it too.

pub use store::dead_letters::{Kind, Letter, QueueError};

use crate::target::Target;

/// Letters handled in one run, so that a run ends. More are left for the next.
const MAX_LETTERS: usize = 10_000;

/// All letters of a kind. They are visible again afterwards.
pub async fn list(target: &Target, kind: Kind) -> Result<Vec<Letter>, QueueError> {
    target.dead_letters.list(kind, MAX_LETTERS).await
}

/// Sends letters again, as [`Kind::remedy`] says. Tells each one before it is gone.
pub async fn redrive(target: &Target, kind: Kind, tell: impl FnMut(&Letter)) -> Result<usize, QueueError> {
    target.dead_letters.redrive(kind, MAX_LETTERS, tell).await
}
