//! The providers' sandbox, as a merchant meets it: through the payments crate, over the wire.

mod face;
mod keeping;
mod lives;
mod moods;
mod notices;
mod rules;
