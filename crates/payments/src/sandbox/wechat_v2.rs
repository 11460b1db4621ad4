//! WeChat Pay v2's side.

use jiff::Timestamp;

use super::{Asked, Happened, Keys, Payment, Refund, RefundState, Reply, State};
use crate::http::{HttpAnswer, HttpCall, Method};
use crate::payment::{Nonce, Way};
use crate::shared::crypto::Secret;
use crate::shared::form::Fields;
use crate::shared::{china_time as china, xml};
use crate::wechat_v2::{SignType, is_signed, seal_with_digest, sign};

/// What [`Keys::settings`] tells the merchant.
const SIGN_TYPE: SignType = SignType::HmacSha256;

#[derive(Debug)]
pub(super) struct Side {
    app_id: String,
    mch_id: String,
    key: Secret,
}

impl Side {
    pub(super) fn new(keys: &Keys) -> Self {
        let key = Secret::new(keys.api_v2_key.clone());
        Self { app_id: keys.app_id.clone(), mch_id: keys.merchant_id.clone(), key }
    }

    pub(super) fn read(&self, call: &HttpCall) -> Result<Asked, HttpAnswer> {
        let fields = xml::read("xml", &call.body).ok_or_else(|| refuse("XML格式错误"))?;
        if !is_signed(&fields, &self.key, SIGN_TYPE) {
            return Err(refuse("签名错误"));
        }
        let get = |name: &str| fields.get(name).cloned().unwrap_or_default();
        if get("appid") != self.app_id || get("mch_id") != self.mch_id {
            return Err(refuse("appid和mch_id不匹配"));
        }
        let number = |name: &str| get(name).parse::<i64>().map_err(|_| refuse("参数格式错误"));
        let path = call.path_and_query();
        if path.ends_with("/pay/orderquery") {
            return Ok(Asked::Query(get("out_trade_no")));
        }
        if path.ends_with("/pay/closeorder") {
            return Ok(Asked::Close(get("out_trade_no")));
        }
        if path.ends_with("/pay/refundquery") {
            return Ok(Asked::QueryRefund(get("out_refund_no")));
        }
        if path.ends_with("/secapi/pay/refund") {
            let (transaction, refund) = (get("transaction_id"), get("out_refund_no"));
            let notify_url = fields.get("notify_url").cloned();
            let (amount, state) = (number("refund_fee")?, RefundState::Done);
            return Ok(Asked::Refund(Refund { transaction, refund, amount, notify_url, state }));
        }
        if !path.ends_with("/pay/unifiedorder") {
            return Err(refuse("no such call"));
        }
        let payment = Payment {
            id: String::new(),
            transaction: String::new(),
            number: get("out_trade_no"),
            order_type: get("attach"),
            title: get("body"),
            amount: number("total_fee")?,
            currency: "CNY".to_owned(),
            notify_url: get("notify_url"),
            return_url: String::new(),
            state: State::NotPaid,
            paid_at: None,
            refunded: 0,
        };
        Ok(Asked::Create { payment, way: Way::Qr, expires_at: china::from_digits(&get("time_expire")) })
    }

    pub(super) fn answer(&self, asked: &Asked, reply: Reply<'_>, nonce: &Nonce) -> HttpAnswer {
        let ok = ("result_code", "SUCCESS".to_owned());
        let no = |code: &str| vec![("result_code", "FAIL".to_owned()), ("err_code", code.to_owned())];
        let fields = match reply {
            Reply::Created(_, link) => vec![ok, ("trade_type", "NATIVE".to_owned()), ("code_url", link.to_owned())],
            Reply::PaymentStatus(payment) => [vec![ok], standing(payment)].concat(),
            Reply::Closed(_) => vec![ok],
            Reply::AlreadyPaid(_) => no("ORDERPAID"),
            Reply::Missing => no("ORDERNOTEXIST"),
            Reply::Refunded(payment, refund, _) => {
                // The answer to a query numbers the refunds.
                let (number, amount, status) = match asked {
                    Asked::QueryRefund(_) => ("out_refund_no_0", "refund_fee_0", "refund_status_0"),
                    _ => ("out_refund_no", "refund_fee", ""),
                };
                let fields = [
                    (number, refund.refund.clone()),
                    (amount, refund.amount.to_string()),
                    (status, refund_status(refund.state).to_owned()),
                    ("transaction_id", payment.transaction.clone()),
                    ("out_trade_no", payment.number.clone()),
                ];
                [vec![ok], fields.into_iter().filter(|(name, _)| !name.is_empty()).collect()].concat()
            }
            Reply::NoRefund => no("REFUNDNOTEXIST"),
            Reply::Trouble => no("SYSTEMERROR"),
            Reply::Refused(refusal) => [no(refusal.code), vec![("err_code_des", refusal.message.to_owned())]].concat(),
        };
        HttpAnswer::new(200, "text/xml", self.signed(fields, nonce))
    }

    pub(super) fn notice(
        &self,
        payment: &Payment,
        happened: Happened,
        now: Timestamp,
        nonce: &Nonce,
    ) -> Option<HttpCall> {
        let body = match happened {
            Happened::Paid => self.payment_notice(payment, "SUCCESS", nonce),
            Happened::Failed => self.payment_notice(payment, "FAIL", nonce),
            Happened::Refunded => self.refund_notice(payment, now, nonce)?,
            _ => return None,
        };
        Some(HttpCall {
            method: Method::Post,
            url: payment.notify_url.clone(),
            headers: [("Content-Type", "text/xml")].into(),
            body: body.into_bytes(),
            client_certificate: false,
        })
    }

    fn payment_notice(&self, payment: &Payment, code: &str, nonce: &Nonce) -> String {
        let mut fields = paid_fields(payment);
        fields.extend([
            ("result_code", code.to_owned()),
            ("bank_type", "OTHERS".to_owned()),
            ("openid", "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o".to_owned()),
            ("trade_type", "NATIVE".to_owned()),
        ]);
        self.signed(fields, nonce)
    }

    /// Encrypted, and not signed.
    fn refund_notice(&self, payment: &Payment, now: Timestamp, nonce: &Nonce) -> Option<String> {
        let (amount, time) = (payment.amount.to_string(), china::with_spaces(now));
        let content = [
            ("out_refund_no", payment.number.as_str()),
            ("out_trade_no", &payment.number),
            ("refund_account", "REFUND_SOURCE_RECHARGE_FUNDS"),
            ("refund_fee", &amount),
            ("refund_id", &payment.transaction),
            ("refund_recv_accout", "用户零钱"),
            ("refund_request_source", "API"),
            ("refund_status", "SUCCESS"),
            ("settlement_refund_fee", &amount),
            ("settlement_total_fee", &amount),
            ("success_time", &time),
            ("total_fee", &amount),
            ("transaction_id", &payment.transaction),
        ];
        let sealed = seal_with_digest(&self.key, xml::write("root", &texts(content)).as_bytes())?;
        let fields = [
            ("return_code", "SUCCESS"),
            ("appid", &self.app_id),
            ("mch_id", &self.mch_id),
            ("nonce_str", nonce.as_str()),
            ("req_info", &sealed),
        ];
        Some(xml::write("xml", &texts(fields)))
    }

    fn signed(&self, fields: Vec<(&str, String)>, nonce: &Nonce) -> String {
        let mut fields: Fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let common = [
            ("return_code", "SUCCESS"),
            ("appid", &self.app_id),
            ("mch_id", &self.mch_id),
            ("nonce_str", nonce.as_str()),
        ];
        fields.extend(texts(common));
        fields.insert("sign".to_owned(), sign(&fields, &self.key, SIGN_TYPE));
        xml::write("xml", &fields)
    }
}

fn paid_fields(payment: &Payment) -> Vec<(&'static str, String)> {
    vec![
        ("out_trade_no", payment.number.clone()),
        ("attach", payment.order_type.clone()),
        ("total_fee", payment.amount.to_string()),
        ("fee_type", payment.currency.clone()),
        ("transaction_id", payment.transaction.clone()),
        ("time_end", payment.paid_at.map(china::digits).unwrap_or_default()),
    ]
}

fn refund_status(state: RefundState) -> &'static str {
    match state {
        RefundState::Done => "SUCCESS",
        RefundState::Pending => "PROCESSING",
        RefundState::Failed => "REFUNDCLOSE",
        RefundState::Stuck => "CHANGE",
    }
}

fn standing(payment: &Payment) -> Vec<(&'static str, String)> {
    let state = match payment.state {
        State::NotPaid => "NOTPAY",
        State::Processing => "USERPAYING",
        State::Paid => "SUCCESS",
        State::Closed => "CLOSED",
        State::Refunded => "REFUND",
    };
    let mut fields = vec![("out_trade_no", payment.number.clone())];
    if payment.paid_at.is_some() {
        fields = paid_fields(payment);
    }
    fields.push(("trade_state", state.to_owned()));
    fields
}

/// What WeChat Pay could not take for the merchant's is answered without a signature.
fn refuse(message: &str) -> HttpAnswer {
    let fields = [("return_code", "FAIL"), ("return_msg", message)];
    HttpAnswer::new(200, "text/xml", xml::write("xml", &texts(fields)))
}

fn texts<const L: usize>(fields: [(&str, &str); L]) -> Fields {
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
