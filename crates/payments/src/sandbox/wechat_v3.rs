//! WeChat Pay v3's side.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Asked, Happened, Keys, Payment, Refund, RefundState, Reply, State, text};
use crate::MAX_SKEW_S;
use crate::http::{Headers, HttpAnswer, HttpCall, Method};
use crate::payment::{Nonce, Way};
use crate::shared::china_time as china;
use crate::shared::crypto::{ContentKey, SettingsError, SigningKey, VerifyingKey};
use crate::wechat_v3::{SCHEME, platform_text, request_text};

#[derive(Debug)]
pub(super) struct Side {
    app_id: String,
    mch_id: String,
    merchant_serial: String,
    serial: String,
    key: SigningKey,
    merchant: VerifyingKey,
    content_key: ContentKey,
}

impl Side {
    pub(super) fn new(keys: &Keys) -> Result<Self, SettingsError> {
        Ok(Self {
            app_id: keys.app_id.clone(),
            mch_id: keys.merchant_id.clone(),
            merchant_serial: keys.merchant_serial.clone(),
            serial: keys.wechat_serial.clone(),
            key: SigningKey::parse("wechat", &keys.wechat.private)?,
            merchant: VerifyingKey::parse("merchant", &keys.merchant.public)?.0,
            content_key: ContentKey::parse("apiV3Key", &keys.api_v3_key)?,
        })
    }

    pub(super) fn read(&self, call: &HttpCall, now: Timestamp) -> Result<Asked, HttpAnswer> {
        if !self.is_merchants(call, now) {
            return Err(refuse(401, "SIGN_ERROR"));
        }
        let (_, path) = call.path_and_query().split_once("/v3/").unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let body = if call.body.is_empty() { b"{}" } else { call.body.as_slice() };
        let body: Value = serde_json::from_slice(body).map_err(|_| refuse(400, "PARAM_ERROR"))?;
        match (call.method, path.split('/').collect::<Vec<_>>().as_slice()) {
            (Method::Post, ["pay", "transactions", "native"]) => self.create(&body),
            (Method::Get, ["pay", "transactions", "out-trade-no", number]) => Ok(Asked::Query((*number).to_owned())),
            (Method::Post, ["pay", "transactions", "out-trade-no", number, "close"]) => {
                Ok(Asked::Close((*number).to_owned()))
            }
            (Method::Post, ["refund", "domestic", "refunds"]) => Ok(Asked::Refund(Refund {
                transaction: text(&body, "transaction_id"),
                refund: text(&body, "out_refund_no"),
                amount: body.pointer("/amount/refund").and_then(Value::as_i64).unwrap_or_default(),
                notify_url: Some(text(&body, "notify_url")).filter(|url| !url.is_empty()),
                state: RefundState::Done,
            })),
            (Method::Get, ["refund", "domestic", "refunds", refund]) => Ok(Asked::QueryRefund((*refund).to_owned())),
            _ => Err(refuse(404, "RESOURCE_NOT_EXISTS")),
        }
    }

    fn create(&self, body: &Value) -> Result<Asked, HttpAnswer> {
        if text(body, "appid") != self.app_id || text(body, "mchid") != self.mch_id {
            return Err(refuse(400, "APPID_MCHID_NOT_MATCH"));
        }
        let total = body.pointer("/amount/total").and_then(Value::as_i64);
        let payment = Payment {
            id: String::new(),
            transaction: String::new(),
            number: text(body, "out_trade_no"),
            order_type: text(body, "attach"),
            title: text(body, "description"),
            amount: total.filter(|total| *total > 0).ok_or_else(|| refuse(400, "PARAM_ERROR"))?,
            currency: "CNY".to_owned(),
            notify_url: text(body, "notify_url"),
            return_url: String::new(),
            state: State::NotPaid,
            paid_at: None,
            refunded: 0,
        };
        Ok(Asked::Create { payment, way: Way::Qr, expires_at: text(body, "time_expire").parse().ok() })
    }

    fn is_merchants(&self, call: &HttpCall, now: Timestamp) -> bool {
        let read = || {
            let header = call.headers.one("Authorization")?.strip_prefix(SCHEME)?.trim_start();
            let part = |name: &str| {
                let mut parts = header.split(',').filter_map(|part| part.split_once('='));
                parts.find(|(other, _)| *other == name).map(|(_, value)| value.trim_matches('"'))
            };
            let time: i64 = part("timestamp")?.parse().ok()?;
            let fresh = now.as_second().saturating_sub(time).saturating_abs() < MAX_SKEW_S;
            let ours = part("mchid")? == self.mch_id && part("serial_no")? == self.merchant_serial;
            let body = std::str::from_utf8(&call.body).ok()?;
            let signed = request_text(call.method, call.path_and_query(), time, part("nonce_str")?, body);
            Some(fresh && ours && self.merchant.verify(signed.as_bytes(), part("signature")?))
        };
        read().unwrap_or(false)
    }

    pub(super) fn answer(&self, reply: Reply<'_>, now: Timestamp, nonce: &Nonce) -> HttpAnswer {
        let no = |status, code: &str| (status, json!({"code": code, "message": code}).to_string());
        let (status, body) = match reply {
            Reply::Created(_, link) => (200, json!({"code_url": link}).to_string()),
            Reply::PaymentStatus(payment) => (200, self.transaction(payment).to_string()),
            Reply::Closed(_) => (204, String::new()),
            Reply::AlreadyPaid(_) => no(400, "ORDERPAID"),
            Reply::Missing => no(404, "ORDER_NOT_EXIST"),
            Reply::Refunded(payment, refund, _) => (200, refunded(payment, refund).to_string()),
            Reply::NoRefund => no(404, "RESOURCE_NOT_EXISTS"),
            Reply::Trouble => no(500, "SYSTEM_ERROR"),
            Reply::Refused(refusal) => {
                (refusal.status, json!({"code": refusal.code, "message": refusal.message}).to_string())
            }
        };
        let mut headers = self.signed(body.as_bytes(), now, nonce);
        headers.push("Content-Type", "application/json");
        HttpAnswer { status, headers, body: body.into_bytes() }
    }

    pub(super) fn notice(
        &self,
        payment: &Payment,
        happened: Happened,
        now: Timestamp,
        nonce: &Nonce,
    ) -> Option<HttpCall> {
        let (event_type, kind, content) = match happened {
            Happened::Paid => ("TRANSACTION.SUCCESS", "transaction", self.transaction(payment)),
            Happened::Refunded => ("REFUND.SUCCESS", "refund", self.refund(payment, now)),
            _ => return None,
        };
        let content_nonce = nonce.as_str().get(..12)?;
        let ciphertext = self.content_key.seal(content_nonce, kind, content.to_string().as_bytes())?;
        let body = json!({
            "id": nonce.as_str(), "create_time": china::rfc3339(now), "resource_type": "encrypt-resource",
            "event_type": event_type, "summary": event_type,
            "resource": {
                "original_type": kind, "algorithm": "AEAD_AES_256_GCM", "ciphertext": ciphertext,
                "associated_data": kind, "nonce": content_nonce,
            },
        });
        let body = body.to_string().into_bytes();
        let mut headers = self.signed(&body, now, nonce);
        headers.push("Content-Type", "application/json");
        let url = payment.notify_url.clone();
        Some(HttpCall { method: Method::Post, url, headers, body, client_certificate: false })
    }

    fn signed(&self, body: &[u8], now: Timestamp, nonce: &Nonce) -> Headers {
        let time = now.as_second().to_string();
        let signature = self.key.sign(&platform_text(&time, nonce.as_str(), body));
        [
            ("Wechatpay-Timestamp", time.as_str()),
            ("Wechatpay-Nonce", nonce.as_str()),
            ("Wechatpay-Serial", &self.serial),
            ("Wechatpay-Signature", &signature),
        ]
        .into()
    }

    fn transaction(&self, payment: &Payment) -> Value {
        let paid = payment.paid_at.map(china::rfc3339);
        json!({
            "appid": self.app_id, "mchid": self.mch_id, "out_trade_no": payment.number,
            "transaction_id": paid.as_ref().map(|_| &payment.transaction), "trade_type": "NATIVE",
            "trade_state": match payment.state {
                State::NotPaid => "NOTPAY",
                State::Processing => "USERPAYING",
                State::Paid => "SUCCESS",
                State::Closed => "CLOSED",
                State::Refunded => "REFUND",
            },
            "attach": payment.order_type, "success_time": paid,
            "amount": {
                "total": payment.amount, "payer_total": payment.amount,
                "currency": payment.currency, "payer_currency": payment.currency,
            },
        })
    }

    fn refund(&self, payment: &Payment, now: Timestamp) -> Value {
        json!({
            "mchid": self.mch_id, "out_trade_no": payment.number, "transaction_id": payment.transaction,
            "out_refund_no": payment.number, "refund_id": payment.transaction, "refund_status": "SUCCESS",
            "success_time": china::rfc3339(now),
            "amount": {"total": payment.amount, "refund": payment.amount, "payer_total": payment.amount},
        })
    }
}

fn refunded(payment: &Payment, refund: &Refund) -> Value {
    json!({
        "out_trade_no": payment.number, "transaction_id": payment.transaction, "out_refund_no": refund.refund,
        "refund_id": payment.transaction,
        "status": match refund.state {
            RefundState::Done => "SUCCESS",
            RefundState::Pending => "PROCESSING",
            RefundState::Failed => "CLOSED",
            RefundState::Stuck => "ABNORMAL",
        },
        "amount": {"total": payment.amount, "refund": refund.amount},
    })
}

fn refuse(status: u16, code: &str) -> HttpAnswer {
    HttpAnswer::new(status, "application/json", json!({"code": code, "message": code}).to_string())
}
