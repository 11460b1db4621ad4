//! The payment providers' sandbox, as a merchant meets it: through the payments crate, over the wire and over HTTP.

// `cfg(test)` tells clippy that helpers outside `#[test]` functions are tests too.
#[cfg(test)]
mod gateway;
#[cfg(test)]
mod keeping;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod merchant;
#[cfg(test)]
mod moods;
#[cfg(test)]
mod notices;
#[cfg(test)]
mod over_http;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod secret;
