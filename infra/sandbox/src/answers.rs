//! What a provider decides on a call, and the words in which each of them says no.

use payments::sandbox::{Asked, Payment, Refund, Refusal, Reply};
use payments::{HttpAnswer, Nonce, ProviderKind};

use super::{Now, Side};

/// What a call came to.
#[derive(Debug)]
pub(super) enum Decision {
    /// The payment is there; the link is for the buyer.
    Created(Payment, String),
    PaymentStatus(Payment),
    Closed(Payment),
    /// It cannot be closed, because of what it is already.
    NotOpen(Payment),
    Missing,
    /// The refund was made; whether just now.
    Refunded(Payment, Refund, bool),
    NoRefund,
    No(No),
}

/// What the providers say no to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum No {
    /// The number belongs to a payment that was closed.
    NumberClosed,
    /// The number belongs to a payment that was paid.
    NumberPaid,
    /// The number belongs to a payment of another amount.
    NumberUsed,
    /// The merchant's number is missing or too long.
    BadNumber,
    /// The amount is not one.
    BadAmount,
    /// The payment would end in the past, or outside of what the provider takes.
    BadExpiry,
    ClosedBefore,
    /// Too early to close it.
    TooEarly,
    /// The payment that is to be refunded was not paid.
    NotPaid,
    /// More than is left of the payment.
    TooMuch,
    /// All of it went back before.
    AllRefunded,
    /// The merchant's balance does not cover the refund.
    BalanceTooLow,
    /// The payment is too old to be refunded, or is disputed: only a person can go on.
    NotRefundable,
    /// The refund's number was used for another payment or another amount.
    RefundUsed,
}

impl No {
    /// In the provider's own words.
    pub(super) fn words(self, kind: ProviderKind) -> Refusal<'static> {
        let (status, code, message) = match kind {
            ProviderKind::Alipay => self.alipay(),
            ProviderKind::WechatV3 => self.wechat_v3(),
            ProviderKind::WechatV2 => self.wechat_v2(),
            ProviderKind::Stripe => self.stripe(),
        };
        Refusal { status, code, message }
    }

    fn alipay(self) -> (u16, &'static str, &'static str) {
        let (code, message) = match self {
            Self::NumberClosed => ("ACQ.TRADE_HAS_CLOSE", "交易已经关闭"),
            Self::NumberPaid => ("ACQ.TRADE_HAS_SUCCESS", "交易已被支付"),
            Self::NumberUsed => ("ACQ.CONTEXT_INCONSISTENT", "交易信息被篡改"),
            Self::BadNumber | Self::BadAmount | Self::BadExpiry => ("ACQ.INVALID_PARAMETER", "参数无效"),
            Self::ClosedBefore | Self::TooEarly => ("ACQ.REASON_TRADE_STATUS_INVALID", "交易状态不合法"),
            Self::NotPaid => ("ACQ.TRADE_STATUS_ERROR", "交易状态非法"),
            Self::TooMuch => ("ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", "退款金额超限"),
            Self::AllRefunded => ("ACQ.TRADE_HAS_CLOSE", "交易已经关闭"),
            Self::BalanceTooLow => ("ACQ.SELLER_BALANCE_NOT_ENOUGH", "卖家余额不足"),
            Self::NotRefundable => ("ACQ.TRADE_HAS_FINISHED", "交易已完结"),
            Self::RefundUsed => ("ACQ.DISCORDANT_REPEAT_REQUEST", "同一笔退款的金额不一致"),
        };
        (200, code, message)
    }

    fn wechat_v3(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::NumberClosed | Self::ClosedBefore => (400, "ORDER_CLOSED", "订单已关闭"),
            Self::NumberPaid => (400, "ORDERPAID", "该订单已支付"),
            Self::NumberUsed => (403, "OUT_TRADE_NO_USED", "商户订单号重复"),
            Self::BadNumber | Self::BadAmount | Self::BadExpiry => (400, "PARAM_ERROR", "参数错误"),
            Self::TooEarly | Self::NotPaid => (400, "INVALID_REQUEST", "订单状态不允许此操作"),
            Self::TooMuch => (400, "INVALID_REQUEST", "退款金额大于可退金额"),
            Self::AllRefunded => (400, "INVALID_REQUEST", "订单已全额退款"),
            Self::BalanceTooLow => (403, "NOT_ENOUGH", "账户余额不足"),
            Self::NotRefundable => (400, "INVALID_REQUEST", "订单已超过退款期限"),
            Self::RefundUsed => (400, "INVALID_REQUEST", "订单金额或退款金额与之前请求不一致，请核实后再试"),
        }
    }

    fn wechat_v2(self) -> (u16, &'static str, &'static str) {
        let (code, message) = match self {
            Self::NumberClosed | Self::ClosedBefore => ("ORDERCLOSED", "订单已关闭"),
            Self::NumberPaid => ("ORDERPAID", "该订单已支付"),
            Self::NumberUsed => ("OUT_TRADE_NO_USED", "商户订单号重复"),
            Self::BadNumber | Self::BadAmount | Self::BadExpiry => ("PARAM_ERROR", "参数错误"),
            Self::TooEarly => ("INVALID_REQUEST", "订单生成后不能马上关单，最短间隔为5分钟"),
            Self::NotPaid => ("TRADE_STATE_ERROR", "订单状态错误"),
            Self::TooMuch => ("INVALID_REQUEST", "refund_fee大于可退金额"),
            Self::AllRefunded => ("ERROR", "订单已全额退款"),
            Self::BalanceTooLow => ("NOTENOUGH", "余额不足"),
            Self::NotRefundable => ("TRADE_OVERDUE", "订单已经超过退款期限"),
            Self::RefundUsed => ("REFUND_FEE_MISMATCH", "订单金额或退款金额与之前请求不一致，请核实后再试"),
        };
        (200, code, message)
    }

    fn stripe(self) -> (u16, &'static str, &'static str) {
        let (code, message) = match self {
            Self::BadNumber => ("parameter_invalid_string_blank", "client_reference_id must have 1 to 200 characters"),
            Self::BadAmount => ("parameter_invalid_integer", "The amount must be greater than or equal to 1"),
            Self::BadExpiry => (
                "parameter_invalid_integer",
                "The `expires_at` timestamp must be at least 30 minutes and at most 24 hours from Checkout Session \
                 creation.",
            ),
            Self::NotPaid => {
                ("payment_intent_unexpected_state", "This PaymentIntent does not have a successful charge to refund.")
            }
            Self::TooMuch => ("amount_too_large", "Refund amount is greater than unrefunded amount on charge"),
            Self::AllRefunded => ("charge_already_refunded", "The charge has already been refunded."),
            Self::BalanceTooLow => {
                ("balance_insufficient", "Insufficient funds in your Stripe balance to refund this amount.")
            }
            Self::NotRefundable => ("charge_disputed", "The charge has been charged back, and cannot be refunded."),
            // Stripe knows payments by its own numbers: these it never says.
            Self::NumberClosed
            | Self::NumberPaid
            | Self::NumberUsed
            | Self::ClosedBefore
            | Self::TooEarly
            | Self::RefundUsed => ("resource_conflict", "The request conflicts with an earlier one"),
        };
        (400, code, message)
    }
}

impl Decision {
    /// The signed answer.
    pub(super) fn answer(&self, side: &Side, kind: ProviderKind, asked: &Asked, now: Now, nonce: &Nonce) -> HttpAnswer {
        let reply = match self {
            Self::Created(payment, link) => Reply::Created(payment, link),
            Self::PaymentStatus(payment) => Reply::PaymentStatus(payment),
            Self::Closed(payment) => Reply::Closed(payment),
            Self::NotOpen(payment) => Reply::AlreadyPaid(payment),
            Self::Missing => Reply::Missing,
            Self::Refunded(payment, refund, just_now) => Reply::Refunded(payment, refund, *just_now),
            Self::NoRefund => Reply::NoRefund,
            Self::No(no) => Reply::Refused(no.words(kind)),
        };
        side.protocols.answer(kind, asked, reply, now.at, nonce)
    }
}
