//! Alipay's side.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Asked, Happened, Keys, Payment, Refund, RefundState, Reply, State, text};
use crate::http::{HttpAnswer, HttpCall, Method};
use crate::payment::{Nonce, Way};
use crate::shared::crypto::{SettingsError, SigningKey, VerifyingKey};
use crate::shared::form::{self, Fields};
use crate::shared::{china_time as china, yuan};

#[derive(Debug)]
pub(super) struct Side {
    app_id: String,
    seller_id: String,
    key: SigningKey,
    merchant: VerifyingKey,
}

impl Side {
    pub(super) fn new(keys: &Keys) -> Result<Self, SettingsError> {
        Ok(Self {
            app_id: keys.app_id.clone(),
            seller_id: keys.merchant_id.clone(),
            key: SigningKey::parse("alipay", &keys.alipay.private)?,
            merchant: VerifyingKey::parse("merchant", &keys.merchant.public)?.0,
        })
    }

    pub(super) fn read(&self, call: &HttpCall) -> Result<Asked, HttpAnswer> {
        let (_, query) = call.path_and_query().split_once('?').unwrap_or_default();
        let both = [query.as_bytes(), &call.body].into_iter().filter(|part| !part.is_empty());
        let fields = form::read(&both.collect::<Vec<_>>().join(&b'&')).ok_or_else(|| refuse("isv.invalid-format"))?;
        let get = |name: &str| fields.get(name).cloned().unwrap_or_default();
        if !self.merchant.verify(form::signed_text(&fields, &["sign"]).as_bytes(), &get("sign")) {
            return Err(refuse("isv.invalid-signature"));
        }
        if get("app_id") != self.app_id {
            return Err(refuse("isv.invalid-app-id"));
        }
        let content: Value = serde_json::from_str(&get("biz_content")).map_err(|_| refuse("isv.invalid-parameter"))?;
        let way = match get("method").as_str() {
            "alipay.trade.page.pay" => Way::Page,
            "alipay.trade.precreate" => Way::Qr,
            "alipay.trade.query" => return Ok(Asked::Query(text(&content, "out_trade_no"))),
            "alipay.trade.close" => return Ok(Asked::Close(text(&content, "out_trade_no"))),
            "alipay.trade.fastpay.refund.query" => return Ok(Asked::QueryRefund(text(&content, "out_request_no"))),
            "alipay.trade.refund" => {
                return Ok(Asked::Refund(Refund {
                    transaction: text(&content, "trade_no"),
                    refund: text(&content, "out_request_no"),
                    amount: amount(&content, "refund_amount")?,
                    notify_url: None,
                    state: RefundState::Done,
                }));
            }
            _ => return Err(refuse("isv.invalid-method")),
        };
        let payment = Payment {
            id: String::new(),
            transaction: String::new(),
            number: text(&content, "out_trade_no"),
            order_type: text(&content, "passback_params"),
            title: text(&content, "subject"),
            amount: amount(&content, "total_amount")?,
            currency: "CNY".to_owned(),
            notify_url: get("notify_url"),
            return_url: get("return_url"),
            state: State::NotPaid,
            paid_at: None,
            refunded: 0,
        };
        Ok(Asked::Create { payment, way, expires_at: china::from_spaces(&text(&content, "time_expire")) })
    }

    pub(super) fn answer(&self, asked: &Asked, reply: Reply<'_>) -> HttpAnswer {
        let no = |code: &str| json!({"code": "40004", "msg": "Business Failed", "sub_code": code});
        let yes = |mut fields: Value| {
            if let Some(fields) = fields.as_object_mut() {
                fields.extend([("code".to_owned(), "10000".into()), ("msg".to_owned(), "Success".into())]);
            }
            fields
        };
        let body = match reply {
            Reply::Created(payment, link) => yes(json!({"out_trade_no": payment.number, "qr_code": link})),
            Reply::PaymentStatus(payment) => yes(standing(payment)),
            Reply::Closed(payment) => yes(json!({"out_trade_no": payment.number, "trade_no": payment.transaction})),
            Reply::AlreadyPaid(_) => no("ACQ.REASON_TRADE_STATUS_INVALID"),
            Reply::Missing => no("ACQ.TRADE_NOT_EXIST"),
            Reply::Refunded(payment, refund, now) => yes(json!({
                "out_trade_no": payment.number, "trade_no": payment.transaction, "out_request_no": refund.refund,
                "fund_change": if now && refund.state == RefundState::Done { "Y" } else { "N" },
                "refund_fee": yuan::from_fen(refund.amount),
                "refund_status": match refund.state {
                    RefundState::Done => "REFUND_SUCCESS",
                    RefundState::Pending => "REFUND_PROCESSING",
                    RefundState::Failed | RefundState::Stuck => "",
                },
            })),
            Reply::NoRefund => yes(json!({})),
            Reply::Trouble => json!({"code": "20000", "msg": "Service Currently Unavailable"}),
            Reply::Refused(refusal) => {
                json!({"code": "40004", "msg": "Business Failed", "sub_code": refusal.code, "sub_msg": refusal.message})
            }
        };
        let method = match asked {
            Asked::Create { .. } => "alipay_trade_precreate",
            Asked::Query(_) => "alipay_trade_query",
            Asked::Close(_) => "alipay_trade_close",
            Asked::Refund(_) => "alipay_trade_refund",
            Asked::QueryRefund(_) => "alipay_trade_fastpay_refund_query",
        };
        let body = body.to_string();
        let sign = self.key.sign(body.as_bytes());
        HttpAnswer::new(200, "application/json", format!("{{\"{method}_response\":{body},\"sign\":\"{sign}\"}}"))
    }

    pub(super) fn notice(
        &self,
        payment: &Payment,
        happened: Happened,
        now: Timestamp,
        nonce: &Nonce,
    ) -> Option<HttpCall> {
        let status = match happened {
            Happened::Paid => "TRADE_SUCCESS",
            Happened::Closed | Happened::Refunded => "TRADE_CLOSED",
            Happened::PartlyRefunded => "TRADE_SUCCESS",
            _ => return None,
        };
        let mut fields = self.common(payment);
        fields.extend([
            ("notify_type".to_owned(), "trade_status_sync".to_owned()),
            ("notify_id".to_owned(), nonce.as_str().to_owned()),
            ("notify_time".to_owned(), china::with_spaces(now)),
            ("trade_status".to_owned(), status.to_owned()),
            ("subject".to_owned(), payment.title.clone()),
            ("passback_params".to_owned(), payment.order_type.clone()),
        ]);
        if let Some(paid_at) = payment.paid_at {
            fields.insert("gmt_payment".to_owned(), china::with_spaces(paid_at));
        }
        if matches!(happened, Happened::Refunded | Happened::PartlyRefunded) {
            let refunded = if happened == Happened::Refunded { payment.amount } else { payment.refunded };
            fields.insert("refund_fee".to_owned(), yuan::from_fen(refunded));
            fields.insert("gmt_refund".to_owned(), china::with_spaces(now));
        }
        Some(HttpCall {
            method: Method::Post,
            url: payment.notify_url.clone(),
            headers: [("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")].into(),
            body: form::write(self.signed(fields)).into_bytes(),
            client_certificate: false,
        })
    }

    pub(super) fn return_url(&self, payment: &Payment, now: Timestamp) -> String {
        let mut fields = self.common(payment);
        fields.insert("method".to_owned(), "alipay.trade.page.pay.return".to_owned());
        fields.insert("timestamp".to_owned(), china::with_spaces(now));
        format!("{}?{}", payment.return_url, form::write(self.signed(fields)))
    }

    fn common(&self, payment: &Payment) -> Fields {
        let amount = yuan::from_fen(payment.amount);
        let fields = [
            ("app_id", self.app_id.as_str()),
            ("seller_id", &self.seller_id),
            ("charset", "utf-8"),
            ("version", "1.0"),
            ("out_trade_no", &payment.number),
            ("trade_no", &payment.transaction),
            ("total_amount", &amount),
        ];
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn signed(&self, mut fields: Fields) -> Fields {
        let sign = self.key.sign(form::signed_text(&fields, &["sign", "sign_type"]).as_bytes());
        fields.extend([("sign".to_owned(), sign), ("sign_type".to_owned(), "RSA2".to_owned())]);
        fields
    }
}

fn standing(payment: &Payment) -> Value {
    let mut body = json!({
        "out_trade_no": payment.number, "trade_no": payment.transaction, "total_amount": yuan::from_fen(payment.amount),
        "trade_status": match payment.state {
            State::NotPaid | State::Processing => "WAIT_BUYER_PAY",
            State::Paid => "TRADE_SUCCESS",
            State::Closed | State::Refunded => "TRADE_CLOSED",
        },
    });
    if let (Some(body), Some(paid_at)) = (body.as_object_mut(), payment.paid_at) {
        body.insert("send_pay_date".to_owned(), china::with_spaces(paid_at).into());
        if payment.refunded > 0 {
            body.insert("refund_fee".to_owned(), yuan::from_fen(payment.refunded).into());
        }
    }
    body
}

fn amount(content: &Value, name: &str) -> Result<i64, HttpAnswer> {
    yuan::to_fen(&text(content, name)).ok_or_else(|| refuse("isv.invalid-parameter"))
}

/// Alipay does not sign what it could not take for the merchant's.
fn refuse(code: &str) -> HttpAnswer {
    let body = json!({"error_response": {"code": "40002", "msg": "Invalid Arguments", "sub_code": code}});
    HttpAnswer::new(200, "application/json", body.to_string())
}
