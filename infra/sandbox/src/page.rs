//! The buyer's page of a payment, and the list of the latest ones: plain HTML and forms, for any browser and any
//! phone.

use std::fmt::Write as _;

use payments::sandbox::State;

use super::view::PaymentView;
use crate::html::escape;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8883; --soft: #8881; --bad: #d6336c; --good: #0a8f4f; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; min-height: 100vh; background: var(--soft); }
header { background: var(--brand); color: #fff; padding: 1rem 1.25rem; font-weight: 600; }
header small { font-weight: 400; opacity: .85; float: right; line-height: 1.5rem; }
main { max-width: 26rem; width: calc(100% - 1.5rem); margin: 1.5rem auto; padding: 1.5rem 1.25rem;
  background: Canvas; border-radius: 1rem;
  box-shadow: 0 2px 16px #0002; }
main.wide { max-width: 60rem; overflow-x: auto; }
h1 { font-size: 1.05rem; font-weight: 500; margin: 0; overflow-wrap: anywhere; }
.amount { font-size: 2.4rem; font-weight: 700; margin: .25rem 0 1rem; font-variant-numeric: tabular-nums; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .35rem 1rem; margin: 0 0 1.25rem; padding-top: 1rem;
  border-top: 1px solid var(--line); font-size: .9rem; }
dt { opacity: .65; } dd { margin: 0; text-align: right; overflow-wrap: anywhere; }
dd.number { font: .8rem/1.7 ui-monospace, monospace; }
.state { font-weight: 600; padding: .75rem 1rem; border-radius: .6rem; background: var(--soft); margin: 0 0 1rem; }
.PAID { color: var(--good); } .CLOSED, .REFUNDED { color: var(--bad); }
button, .back { display: block; width: 100%; padding: .85rem; border-radius: .6rem; border: 1px solid var(--line);
  background: transparent; color: inherit; font: inherit; font-weight: 600; text-align: center; text-decoration: none;
  cursor: pointer; margin-top: .6rem; }
button.main, .state ~ .back { background: var(--brand); border-color: var(--brand); color: #fff; }
details { margin-top: 1.25rem; font-size: .9rem; } summary { opacity: .65; cursor: pointer; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td, th { text-align: left; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
.money { text-align: right; font-variant-numeric: tabular-nums; }
";

/// A provider's name and colour.
fn brand(provider: &str) -> (&'static str, &'static str) {
    match provider {
        "alipay" => ("Alipay 支付宝", "#1677ff"),
        "wechat" => ("WeChat Pay 微信支付", "#07a152"),
        "wechat-v2" => ("WeChat Pay 微信支付 (v2)", "#07a152"),
        "stripe" => ("Stripe", "#635bff"),
        _ => ("Payments", "#444"),
    }
}

/// The page of a payment.
pub(super) fn payment(view: &PaymentView) -> String {
    let (provider, colour) = brand(&view.provider);
    let mut body = format!(
        "<h1>{}</h1>\n<div class=\"amount\">{}</div>\n<dl><dt>Order number</dt><dd class=\"number\">{}</dd>\n<dt>Pay \
         until</dt><dd>{}</dd>",
        escape(&view.title),
        escape(&money(view.amount, &view.currency)),
        escape(&view.number),
        view.expires_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
    );
    // Writing to a String cannot fail.
    if let Some(transaction) = &view.transaction {
        let _ = write!(body, "\n<dt>Transaction</dt><dd class=\"number\">{}</dd>", escape(transaction));
    }
    let _ = write!(body, "</dl>\n{}", standing(view));
    if let Some(url) = view.return_url.as_deref().filter(|url| is_web(url)) {
        let _ = write!(body, "\n<a class=\"back\" id=\"back\" href=\"{}\">Back to the shop</a>", escape(url));
    } else if view.state != State::NotPaid {
        body.push_str("\n<p>You can close this page and go back to the shop.</p>");
    }
    let _ = write!(
        body,
        "\n<details><summary>For testers</summary>\n{}{}\n<p>Notices sent: {}</p></details>",
        button("pay-late", "Money arrives late", ""),
        button("notify-again", "Send the last notice again", ""),
        told(view),
    );
    whole(provider, colour, "", &body)
}

fn standing(view: &PaymentView) -> String {
    let text = match (view.state, view.ended) {
        (State::NotPaid, _) => {
            return format!("{}{}", button("pay", "Pay", "main"), button("fail", "Let the payment fail", ""));
        }
        (State::Processing, _) => "Confirmed. The money is on its way.",
        (State::Paid, _) => "Paid. Thank you!",
        (State::Refunded, _) => "Paid, and refunded since.",
        (State::Closed, Some("expired")) => "The time to pay is over.",
        (State::Closed, Some("failed")) => "The payment failed.",
        (State::Closed, _) => "The shop has closed this payment.",
    };
    format!("<p class=\"state {}\" id=\"state\">{text}</p>", state_name(view.state))
}

fn state_name(state: State) -> &'static str {
    match state {
        State::NotPaid => "NOT_PAID",
        State::Processing => "PROCESSING",
        State::Paid => "PAID",
        State::Closed => "CLOSED",
        State::Refunded => "REFUNDED",
    }
}

fn told(view: &PaymentView) -> String {
    let each = view.notices.iter().map(|notice| {
        let became = match (notice.accepted_at, notice.next_at) {
            (Some(_), _) => "accepted".to_owned(),
            (None, Some(next)) => format!("next at {}", next.strftime("%H:%M:%S UTC")),
            (None, None) => "given up".to_owned(),
        };
        escape(&format!("{} ({} tries, {became})", notice.happened, notice.tries))
    });
    let all: Vec<String> = each.collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn button(action: &str, text: &str, class: &str) -> String {
    format!(
        "<form method=\"post\"><button class=\"{class}\" id=\"{action}\" name=\"action\" \
         value=\"{action}\">{text}</button></form>"
    )
}

/// The latest payments.
pub(super) fn overview(all: &[PaymentView]) -> String {
    let mut body = String::from(
        "<h1>The payment providers of this local cloud. Nothing here is real money.</h1>\n\
         <p>As JSON: <a href=\"/_sandbox/payments\">payments</a>, <a href=\"/_sandbox/money\">the providers' \
         books</a>.</p>\n\
         <table><thead><tr><th>Started</th><th>Provider</th><th>Order number</th><th \
         class=\"money\">Amount</th><th>State</th></tr>\
         </thead><tbody>\n",
    );
    for view in all {
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td>{}</td><td><a href=\"/_sandbox/payments/{}\">{}</a></td><td class=\"money\">{}</td>\
             <td class=\"{state}\">{state}</td></tr>",
            view.created_at.strftime("%m-%d %H:%M:%S"),
            escape(&view.provider),
            escape(&view.id),
            escape(&view.number),
            escape(&money(view.amount, &view.currency)),
            state = state_name(view.state),
        );
    }
    body.push_str("</tbody></table>");
    if all.is_empty() {
        body.push_str("\n<p>No payment was started yet.</p>");
    }
    whole("Payments", "#444", "wide", &body)
}

/// A page that says no.
pub(super) fn problem(text: &str) -> String {
    whole("Payments", "#444", "", &format!("<p class=\"state CLOSED\" id=\"problem\">{}</p>", escape(text)))
}

fn whole(name: &str, colour: &str, class: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}, sandbox</title>\n<style>:root {{ --brand: {colour}; }}{STYLE}</style></head>\n\
         <body>\n<header>{name}<small>sandbox</small></header>\n<main \
         class=\"{class}\">\n{body}\n</main>\n</body>\n</html>\n"
    )
}

fn is_web(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// An amount as people write it, by the currency's own number of decimals.
fn money(amount: i64, currency: &str) -> String {
    let decimals = match currency {
        "JPY" | "KRW" | "VND" | "CLP" | "PYG" | "XAF" | "XOF" | "XPF" | "BIF" | "DJF" | "GNF" | "KMF" | "RWF"
        | "VUV" => 0,
        "BHD" | "JOD" | "KWD" | "OMR" | "TND" => 3,
        _ => 2,
    };
    let unit = 10_i64.pow(decimals);
    let (whole, rest) = (amount / unit, (amount % unit).abs());
    let width = usize::try_from(decimals).unwrap_or(0);
    let number = if decimals == 0 { whole.to_string() } else { format!("{whole}.{rest:0width$}") };
    match currency {
        "CNY" => format!("¥{number}"),
        "USD" => format!("${number}"),
        "EUR" => format!("€{number}"),
        _ => format!("{currency} {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_their_currencys_decimals() {
        assert_eq!(money(6999, "CNY"), "¥69.99");
        assert_eq!(money(5, "USD"), "$0.05");
        assert_eq!(money(500, "JPY"), "JPY 500");
        assert_eq!(money(1234, "KWD"), "KWD 1.234");
    }

    #[test]
    fn what_a_merchant_wrote_cannot_write_into_the_page() {
        let at = jiff::Timestamp::UNIX_EPOCH;
        let bad = "<script>alert(1)</script>\"'".to_owned();
        let mut view = PaymentView {
            provider: bad.clone(),
            id: bad.clone(),
            number: bad.clone(),
            transaction: Some(bad.clone()),
            title: bad.clone(),
            amount: 1,
            currency: bad.clone(),
            state: State::Paid,
            ended: None,
            refunded: 0,
            created_at: at,
            expires_at: at,
            paid_at: Some(at),
            notify_url: bad.clone(),
            return_url: Some(format!("http://shop.example/{bad}")),
            notices: Vec::new(),
        };
        for page in [payment(&view), overview(&[view.clone()]), problem(&bad)] {
            assert!(!page.contains("<script") && !page.contains("\"'"), "{page}");
        }
        view.return_url = Some("javascript:alert(1)".to_owned());
        assert!(!payment(&view).contains("javascript:"));
    }
}
