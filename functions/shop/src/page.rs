//! The page to which a buyer's browser returns: in English or Chinese, fit for a phone, without any external resource.
//!
//! Its content security policy allows no script, image, frame or form, and one style by its digest. Values from
//! an order are escaped.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Timestamp;
use domain::money::Currency;
use domain::order::{Order, Status};
use edge::{Body, Request, Response};
use jiff::SignedDuration;
use lambda_http::http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use lambda_http::http::{HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page.css");

/// How often a page about a payment that is being confirmed reloads.
const RELOAD_AFTER_S: u32 = 2;
/// How long after the deadline it stops reloading: by then reconcile has closed the order.
const RELOAD_UNTIL: SignedDuration = SignedDuration::from_mins(10);

static POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// The languages of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Chinese,
}

impl Language {
    /// The one that the browser prefers; English if it accepts neither.
    pub(crate) fn of(request: &Request) -> Self {
        let header = request.headers().get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut best = (Self::English, 0.0);
        for part in header.split(',').take(32) {
            let mut words = part.split(';').map(str::trim);
            let name = words.next().unwrap_or_default().to_ascii_lowercase();
            let weight = words.find_map(|word| word.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
            let language = match name.split('-').next() {
                Some("zh") => Self::Chinese,
                Some("en") => Self::English,
                _ => continue,
            };
            if weight > best.1 {
                best = (language, weight);
            }
        }
        best.0
    }

    fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    fn say(self, english: &'static str, chinese: &'static str) -> &'static str {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}

/// The content of a page.
struct Said {
    /// The CSS class.
    tone: &'static str,
    mark: &'static str,
    title: &'static str,
    text: &'static str,
}

/// How the buyer left the provider's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// After paying, or unknown.
    PerhapsPaid,
    /// By the back link, without paying.
    Unpaid,
}

/// The page about an order.
pub(crate) fn order(order: &Order, left: Left, language: Language, now: Timestamp) -> Response<Body> {
    let is_left_unpaid = order.status == Status::PendingPayment && left == Left::Unpaid;
    let said = if is_left_unpaid { not_paid(language) } else { about(order.status, language) };
    let facts = [
        (language.say("Item", "商品"), escaped(&order.item_name)),
        (language.say("Quantity", "数量"), order.quantity.to_string()),
        (language.say("Amount", "金额"), money(order.amount, &order.currency)),
        (language.say("Order", "订单号"), escaped(order.id.as_str())),
    ];
    let is_pending = order.status == Status::PendingPayment && now.duration_since(order.pay_by) < RELOAD_UNTIL;
    let is_waiting = is_pending && !is_left_unpaid;
    respond(StatusCode::OK, language, &said, &facts, is_waiting)
}

/// The page for a URL that is not signed, or that names no payment of this provider.
pub(crate) fn nothing(status: StatusCode, language: Language) -> Response<Body> {
    let said = Said {
        tone: "none",
        mark: "?",
        title: language.say("Nothing to show", "没有可显示的内容"),
        text: language.say(
            "This address belongs to no payment here. If you have paid, look at your orders in the shop.",
            "此链接不对应任何付款。如果您已付款，请在商店中查看您的订单。",
        ),
    };
    respond(status, language, &said, &[], false)
}

fn not_paid(language: Language) -> Said {
    Said {
        tone: "wait",
        mark: "",
        title: language.say("Not paid yet", "尚未付款"),
        text: language.say("Not paid yet: go back to the shop to pay.", "尚未付款，请返回商店继续支付。"),
    }
}

fn about(status: Status, language: Language) -> Said {
    let (tone, mark, title, text) = match status {
        Status::PendingPayment => (
            "wait",
            "",
            language.say("Your payment is being confirmed", "正在确认您的付款"),
            language.say(
                "This takes a few seconds. You may stay here, or close this page: nothing is lost.",
                "通常只需几秒钟。您可以停留在此页，也可以关闭它，付款不会丢失。",
            ),
        ),
        Status::Paid => (
            "good",
            "✓",
            language.say("Paid", "付款成功"),
            language.say("Thank you. The order is yours.", "感谢您的购买，订单已成立。"),
        ),
        Status::Closed => (
            "over",
            "×",
            language.say("The order is closed", "订单已关闭"),
            language.say(
                "It was not paid in time, or was cancelled. Money that still arrives goes back by itself, or the \
                 order is opened again.",
                "订单未在规定时间内付款或已取消。若之后仍有款项到账，将自动退回，或订单将恢复。",
            ),
        ),
        Status::Failed => (
            "over",
            "×",
            language.say("The order could not be made", "下单失败"),
            language.say("Money that was paid for it goes back by itself.", "已支付的款项将自动退回。"),
        ),
        Status::Refunding => (
            "back",
            "↩",
            language.say("Your refund is under way", "退款处理中"),
            language.say("The money is going back to where it came from.", "款项正在原路退回。"),
        ),
        Status::Refunded => (
            "back",
            "↩",
            language.say("Refunded", "已退款"),
            language.say("The money went back to where it came from.", "款项已原路退回。"),
        ),
    };
    Said { tone, mark, title, text }
}

fn respond(
    status: StatusCode,
    language: Language,
    said: &Said,
    facts: &[(&str, String)],
    reloads: bool,
) -> Response<Body> {
    let Said { tone, mark, title, text } = said;
    let mut rows = String::new();
    for (name, value) in facts {
        // Writing to a string does not fail.
        let _ = write!(rows, "<dt>{name}</dt><dd>{value}</dd>");
    }
    let rows = if rows.is_empty() { rows } else { format!("<dl>{rows}</dl>") };
    let refresh =
        if reloads { format!("<meta http-equiv=\"refresh\" content=\"{RELOAD_AFTER_S}\">") } else { String::new() };
    let html = format!(
        "<!doctype html><html lang=\"{}\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"robots\" content=\"noindex\">\
         {refresh}<title>{title}</title><style>{STYLE}</style></head>\
         <body><main class=\"{tone}\"><div class=\"mark\" aria-hidden=\"true\">{mark}</div>\
         <h1>{title}</h1><p>{text}</p>{rows}</main></body></html>",
        language.tag(),
    );
    let mut response = Response::new(Body::Text(html));
    *response.status_mut() = status;
    let fixed: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_LANGUAGE, language.tag()),
        (VARY, "accept-language"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// An amount as people write it. Most currencies have two decimals; ISO 4217 lists the exceptions.
fn money(minor: i64, currency: &Currency) -> String {
    let decimals = match currency.as_str() {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "VND" | "VUV"
        | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        _ => 2,
    };
    let digits = format!("{:0>width$}", minor.max(0), width = decimals + 1);
    match digits.split_at_checked(digits.len() - decimals) {
        Some((whole, part)) if !part.is_empty() => format!("{currency} {whole}.{part}"),
        _ => format!("{currency} {digits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn made(status: Status) -> Order {
        Order { item_name: "<b>Phone & \"Co\"</b>".into(), ..crate::view::tests::order(status) }
    }

    fn html(response: &Response<Body>) -> &str {
        match response.body() {
            Body::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_page_says_what_the_order_says() {
        let now = at("2026-11-11T00:05:00Z");
        for (status, english, chinese) in [
            (Status::PendingPayment, "being confirmed", "正在确认"),
            (Status::Paid, "Paid", "付款成功"),
            (Status::Closed, "closed", "已关闭"),
            (Status::Failed, "could not be made", "下单失败"),
            (Status::Refunding, "under way", "退款处理中"),
            (Status::Refunded, "Refunded", "已退款"),
        ] {
            let page = order(&made(status), Left::PerhapsPaid, Language::English, now);
            assert!(page.status() == 200 && html(&page).contains(english), "{status:?}");
            assert_eq!(html(&page).contains("http-equiv=\"refresh\""), status == Status::PendingPayment, "{status:?}");
            let page = order(&made(status), Left::PerhapsPaid, Language::Chinese, now);
            assert!(html(&page).contains(chinese) && html(&page).contains("lang=\"zh-CN\""), "{status:?}");
        }
        let late =
            order(&made(Status::PendingPayment), Left::PerhapsPaid, Language::English, at("2026-11-11T00:25:01Z"));
        assert!(!html(&late).contains("refresh"), "a page that was left open does not ask for ever");
    }

    #[test]
    fn a_buyer_who_left_without_paying_does_not_wait() {
        let now = at("2026-11-11T00:05:00Z");
        for (language, words) in [(Language::English, "go back to the shop"), (Language::Chinese, "请返回商店继续支付")]
        {
            let page = order(&made(Status::PendingPayment), Left::Unpaid, language, now);
            assert!(html(&page).contains(words) && !html(&page).contains("refresh"), "{language:?}");
        }
        let page = order(&made(Status::Paid), Left::Unpaid, Language::English, now);
        assert!(html(&page).contains("<h1>Paid</h1>"), "what the order says counts more");
    }

    #[test]
    fn nothing_of_an_order_is_markup_and_nothing_comes_from_elsewhere() {
        let page = order(&made(Status::Paid), Left::PerhapsPaid, Language::English, at("2026-11-11T00:05:00Z"));
        let text = html(&page);
        assert!(text.contains("&lt;b&gt;Phone &amp; &quot;Co&quot;&lt;/b&gt;") && !text.contains("<b>"), "{text}");
        assert!(
            !text.contains("<script")
                && !text.contains("http://")
                && !text.contains("https://")
                && !text.contains(" style=")
        );
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
        let style = text.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert!(policy.contains(&STANDARD.encode(Sha256::digest(style))), "the style is the one that the policy names");
        assert_eq!(page.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    }

    #[test]
    fn a_browser_gets_its_preferred_language() {
        let of = |header: &str| {
            let request = lambda_http::http::Request::get("/").header(ACCEPT_LANGUAGE, header).body(Body::Empty);
            Language::of(&request.unwrap())
        };
        for chinese in ["zh", "zh-CN,zh;q=0.9,en;q=0.8", "ZH-Hant-TW", "fr, zh;q=0.5, en;q=0.4"] {
            assert_eq!(of(chinese), Language::Chinese, "{chinese}");
        }
        for english in ["", "en-GB", "fr", "*", "en, zh", "zh;q=0.2,en;q=0.3", "zh;q=x;", ";;,,", "zh;q=0"] {
            let wanted = if english.starts_with("zh;q=x") { Language::Chinese } else { Language::English };
            assert_eq!(of(english), wanted, "{english}");
        }
    }

    #[test]
    fn amounts_have_their_currencys_decimals() {
        let shown = |minor, currency: &str| money(minor, &Currency::parse(currency).unwrap());
        assert_eq!(shown(69_900, "CNY"), "CNY 699.00");
        assert_eq!(shown(5, "USD"), "USD 0.05");
        assert_eq!(shown(0, "EUR"), "EUR 0.00");
        assert_eq!(shown(500, "JPY"), "JPY 500");
        assert_eq!(shown(1, "KWD"), "KWD 0.001");
    }

    #[test]
    fn a_page_without_an_order_says_so() {
        let page = nothing(StatusCode::NOT_FOUND, Language::English);
        assert_eq!(page.status(), 404);
        assert!(html(&page).contains("Nothing to show") && !html(&page).contains("<dl>"));
    }
}
