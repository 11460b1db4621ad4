//! What the implementations of the providers share: wire formats, money and time as the providers write them, keys and
//! signatures, and checks of settings and amounts.

pub(crate) mod checks;
pub(crate) mod china_time;
pub(crate) mod crypto;
pub(crate) mod form;
pub(crate) mod qr;
pub(crate) mod wechat;
pub(crate) mod xml;
pub(crate) mod yuan;
