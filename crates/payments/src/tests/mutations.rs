//! Thousands of altered notices and answers, from a seeded generator. None of them is accepted as a payment. An
//! alteration that changes neither a signed value nor the signature (a blank between XML elements, `%2f` for `%2F`)
//! does not count.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::sandbox::{Happened, Reply};
use crate::shared::{form, xml};
use crate::{Headers, HttpAnswer, HttpCall, Notice, PaymentStatus};

/// For each provider: more than ten thousand for the four real ones.
const MUTANTS: usize = 2_600;

/// xorshift64*: small, and with the same sequence on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

fn altered(dice: &mut Dice, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let (at, other) = (dice.below(bytes.len()), dice.below(bytes.len()));
    match dice.below(8) {
        0 => bytes[at] ^= 1 << dice.below(8),
        1 => bytes[at] = dice.byte(),
        2 => bytes.insert(at, dice.byte()),
        3 => {
            bytes.remove(at);
        }
        4 => bytes.truncate(at),
        5 => bytes.swap(at, other),
        6 => {
            let again = bytes[at.min(other)..at.max(other)].to_vec();
            bytes.splice(at..at, again);
        }
        _ => bytes[at] = *dice.pick(b"0123456789"),
    }
    bytes
}

/// Alters a text. The result is ASCII, because an HTTP library refuses other bytes in a header.
fn altered_text(dice: &mut Dice, text: &str) -> String {
    let bytes = altered(dice, text.as_bytes());
    bytes.iter().map(|byte| char::from(byte & 0x7f)).collect()
}

/// Values that a forger would try in a field.
const FORGED_VALUES: [&str; 14] = [
    "0.01",
    "1",
    "6998",
    "69.98",
    "99999999",
    "-6999",
    OTHER_NUMBER,
    "1900000002",
    "wx2",
    "SUCCESS",
    "TRADE_SUCCESS",
    "FAIL",
    "1794355501",
    "",
];

/// Changes, adds or removes one field.
fn forged_fields(dice: &mut Dice, fields: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut fields = fields.clone();
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = dice.pick(&names).clone();
    match dice.below(4) {
        0 => {
            fields.remove(&name);
        }
        1 => {
            fields.insert(format!("{name}x"), (*dice.pick(&FORGED_VALUES)).to_owned());
        }
        2 => {
            let value = altered_text(dice, &fields[&name].clone());
            fields.insert(name, value);
        }
        _ => {
            fields.insert(name, (*dice.pick(&FORGED_VALUES)).to_owned());
        }
    }
    fields
}

/// Changes one text in a JSON body.
fn forged_json(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let parts: Vec<&str> = text.split('"').collect();
    let at = dice.below(parts.len());
    let value = *dice.pick(&FORGED_VALUES);
    let changed = parts.iter().enumerate().map(|(n, part)| if n == at { value } else { part });
    changed.collect::<Vec<_>>().join("\"").into_bytes()
}

/// Whether the signature and everything that it covers are unchanged.
fn same_meaning(kind: ProviderKind, genuine: &HttpCall, headers: &Headers, body: &[u8]) -> bool {
    match kind {
        ProviderKind::Alipay => {
            let read = |body: &[u8]| {
                let mut pairs: Vec<_> = form_urlencoded::parse(body).into_owned().collect();
                pairs.retain(|(_, value)| !value.is_empty());
                pairs.sort();
                pairs
            };
            read(body) == read(&genuine.body)
        }
        ProviderKind::WechatV2 => {
            let read = |body: &[u8]| {
                let mut fields = xml::read("xml", body).unwrap_or_default();
                fields.retain(|_, value| !value.is_empty());
                fields
            };
            read(body) == read(&genuine.body)
        }
        ProviderKind::WechatV3 | ProviderKind::Toy => headers == &genuine.headers && body == genuine.body,
        ProviderKind::Stripe => {
            let parts = |headers: &Headers| -> Vec<String> {
                headers.one("Stripe-Signature").unwrap_or_default().split(',').map(str::to_owned).collect()
            };
            let there = parts(headers);
            body == genuine.body && parts(&genuine.headers).iter().all(|part| there.contains(part))
        }
    }
}

fn mutant(dice: &mut Dice, kind: ProviderKind, genuine: &HttpCall, other: &HttpCall) -> (Headers, Vec<u8>) {
    let signed_headers: &[&str] = match kind {
        ProviderKind::WechatV3 => {
            &["Wechatpay-Timestamp", "Wechatpay-Nonce", "Wechatpay-Serial", "Wechatpay-Signature"]
        }
        ProviderKind::Stripe => &["Stripe-Signature"],
        ProviderKind::Toy => &["Toy-Signature"],
        ProviderKind::Alipay | ProviderKind::WechatV2 => &[],
    };
    match dice.below(if signed_headers.is_empty() { 2 } else { 4 }) {
        0 => (genuine.headers.clone(), altered(dice, &genuine.body)),
        1 => {
            let body = match kind {
                ProviderKind::Alipay => {
                    form::write(forged_fields(dice, &form::read(&genuine.body).unwrap())).into_bytes()
                }
                ProviderKind::WechatV2 => {
                    xml::write("xml", &forged_fields(dice, &xml::read("xml", &genuine.body).unwrap())).into_bytes()
                }
                ProviderKind::WechatV3 | ProviderKind::Stripe | ProviderKind::Toy => forged_json(dice, &genuine.body),
            };
            (genuine.headers.clone(), body)
        }
        2 => {
            let name = *dice.pick(signed_headers);
            let change = |(other, value): (&str, &str)| {
                let value = if other == name { altered_text(dice, value) } else { value.to_owned() };
                (other.to_owned(), value)
            };
            (genuine.headers.iter().map(change).collect(), genuine.body.clone())
        }
        // A header of another genuine notice, or its body, in this one.
        _ => {
            let name = *dice.pick(signed_headers);
            let headers = genuine.headers.iter().map(|(header, value)| {
                (header, if header == name { other.headers.one(name).unwrap_or_default() } else { value })
            });
            let body = if dice.below(2) == 0 { &genuine.body } else { &other.body };
            (headers.collect(), body.clone())
        }
    }
}

#[test]
fn no_altered_notice_is_accepted() {
    let sandbox = sandbox();
    let mut refused = 0;
    for kind in ProviderKind::ALL {
        let provider = provider(kind);
        let notice =
            |payment: &Payment, nonce: &Nonce| sandbox.notice(kind, payment, Happened::Paid, now(), nonce).unwrap();
        let genuine = notice(&paid_payment(kind), &nonce());
        let cheap = Payment { number: OTHER_NUMBER.to_owned(), amount: 1, ..paid_payment(kind) };
        let other = notice(&cheap, &Nonce::new([7; 16]));
        let accepted: Notice = provider.notice(&genuine.headers, &genuine.body, now()).unwrap();
        let other_accepted = provider.notice(&other.headers, &other.body, now()).unwrap();
        let mut dice = Dice(0x5EC_0111);
        let (mut counted, mut tried) = (0, 0);
        while counted < MUTANTS {
            tried += 1;
            assert!(tried < 2 * MUTANTS, "{kind}: too many mutants change nothing");
            let (headers, body) = mutant(&mut dice, kind, &genuine, &other);
            let verdict = provider.notice(&headers, &body, now());
            if same_meaning(kind, &genuine, &headers, &body) {
                assert!(verdict.is_err() || verdict.as_ref() == Ok(&accepted), "{kind}: {verdict:?}");
                continue;
            }
            if same_meaning(kind, &other, &headers, &body) {
                assert!(verdict.is_err() || verdict.as_ref() == Ok(&other_accepted), "{kind}: {verdict:?}");
                continue;
            }
            assert!(verdict.is_err(), "{kind}: {verdict:?}\n{headers:?}\n{}", String::from_utf8_lossy(&body));
            counted += 1;
        }
        refused += counted;
    }
    assert!(refused >= 10_000, "{refused}");
}

#[test]
fn no_altered_answer_says_paid() {
    // Stripe does not sign its answers.
    for kind in ProviderKind::ALL.into_iter().filter(|kind| *kind != ProviderKind::Stripe) {
        let (provider, sandbox) = (provider(kind), sandbox());
        let payment = Payment { amount: 1, ..paid_payment(kind) };
        let reference = reference(&payment);
        let call = provider.query(&reference, now(), &nonce()).unwrap();
        let asked = sandbox.read(kind, &call, now()).unwrap();
        let genuine = sandbox.answer(kind, &asked, Reply::PaymentStatus(&payment), now(), &nonce());
        let standing = provider.interpret_query(&reference, &genuine, now()).unwrap();
        assert!(matches!(&standing, PaymentStatus::Paid(paid) if paid.amount == 1), "{kind}");
        let mut dice = Dice(0xA115_0E45);
        for _ in 0..1_000 {
            let body = altered(&mut dice, &genuine.body);
            let answer = HttpAnswer { body, ..genuine.clone() };
            if let Ok(said) = provider.interpret_query(&reference, &answer, now()) {
                assert_eq!(said, standing, "{kind}: {}", String::from_utf8_lossy(&answer.body));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), status in 0_u16..600, text in "\\PC{0,40}") {
        let names = [
            "Wechatpay-Timestamp", "Wechatpay-Nonce", "Wechatpay-Serial", "Wechatpay-Signature", "Stripe-Signature",
            "Toy-Signature",
        ];
        let headers: Headers = names.map(|name| (name, text.clone())).into();
        let answer = HttpAnswer { status, headers: headers.clone(), body: bytes.clone() };
        for kind in ProviderKind::ALL {
            let (provider, payment) = (provider(kind), reference(&paid_payment(kind)));
            prop_assert!(provider.notice(&headers, &bytes, now()).is_err());
            prop_assert!(provider.read_return(&text).is_err());
            let _ = provider.interpret_create(&answer, now());
            let _ = provider.interpret_query(&payment, &answer, now());
            let _ = provider.interpret_close(&payment, &answer, now());
            let _ = provider.interpret_refund(&refund(kind), &answer, now());
            let call = HttpCall {
                method: crate::Method::Post,
                url: text.clone(),
                headers: headers.clone(),
                body: bytes.clone(),
                client_certificate: false,
            };
            let _ = sandbox().read(kind, &call, now());
        }
    }
}
