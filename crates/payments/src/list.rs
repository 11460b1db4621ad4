//! The list of payment providers: one line each. ARCHITECTURE.md says what else a new provider needs.

use std::fmt;

use domain::payment::Method;

use crate::provider::{FromSettings, PaymentProvider, ReturnPage};
use crate::shared::crypto::SettingsError;

/// Makes [`ProviderKind`] from lines of the form `Variant(implementation) = method;`. Everything that depends on which
/// provider it is follows from the line: the name in URLs and in the payment secret (it is the method's), the method
/// of an order, and how the provider is built from its settings.
macro_rules! providers {
    ($($(#[$attribute:meta])* $kind:ident($implementation:ty) = $method:path;)+) => {
        /// Identifies a payment provider.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProviderKind {
            $($(#[$attribute])* $kind,)+
        }

        impl ProviderKind {
            const COUNT: usize = [$($(#[$attribute])* stringify!($kind),)+].len();

            pub const ALL: [Self; Self::COUNT] = [$($(#[$attribute])* Self::$kind,)+];

            /// The method of payment that this provider carries out.
            pub const fn method(self) -> Method {
                match self {
                    $($(#[$attribute])* Self::$kind => $method,)+
                }
            }

            /// What is known from the address with which a buyer's browser returns from this provider.
            pub const fn return_page(self) -> ReturnPage {
                match self {
                    $($(#[$attribute])* Self::$kind => <$implementation as FromSettings>::RETURN_PAGE,)+
                }
            }

            /// Builds the provider from its settings; see [`FromSettings::from_json`].
            pub(crate) fn configure(self, json: &str) -> Result<Box<dyn PaymentProvider>, SettingsError> {
                Ok(match self {
                    $($(#[$attribute])* Self::$kind => Box::new(<$implementation as FromSettings>::from_json(json)?),)+
                })
            }
        }
    };
}

providers! {
    Alipay(crate::alipay::Alipay) = Method::Alipay;
    WechatV3(crate::wechat_v3::WechatV3) = Method::Wechat;
    WechatV2(crate::wechat_v2::WechatV2) = Method::WechatV2;
    Stripe(crate::stripe::Stripe) = Method::Stripe;
    // A toy, for the tests of this crate: `tests/toy.rs`. No real provider stands behind points.
    #[cfg(test)]
    Toy(crate::tests::toy::Toy) = Method::Points;
}

impl ProviderKind {
    /// The provider that carries out a method of payment. Points have none.
    pub fn of(method: Method) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// The name in URLs, in records and in the payment secret.
    pub fn as_str(self) -> &'static str {
        self.method().as_str()
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_found_by_its_name_and_by_its_method() {
        for kind in ProviderKind::ALL {
            assert_eq!(ProviderKind::parse(kind.as_str()), Some(kind));
            assert_eq!(ProviderKind::of(kind.method()), Some(kind));
        }
        assert_eq!(ProviderKind::parse("paypal"), None);
    }

    /// The names are part of the public addresses and of the payment secret.
    #[test]
    fn the_names_are_stable() {
        let names = [ProviderKind::Alipay, ProviderKind::WechatV3, ProviderKind::WechatV2, ProviderKind::Stripe]
            .map(ProviderKind::as_str);
        assert_eq!(names, ["alipay", "wechat", "wechat-v2", "stripe"]);
    }
}
