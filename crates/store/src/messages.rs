//! The queue of accepted purchases.

use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName};
use domain::message::OrderMessage;

use crate::{Store, StoreError};

impl Store {
    /// Sends an order message.
    pub async fn send_order(&self, message: &OrderMessage) -> Result<(), StoreError> {
        const OPERATION: &str = "send an order message";
        let body = serde_json::to_string(message).map_err(|error| StoreError::unreadable(OPERATION, error))?;
        self.sqs
            .send_message()
            .queue_url(&self.names.orders_queue_url)
            .message_body(body)
            .send()
            .await
            .map(|_| ())
            .map_err(|error| StoreError::of(OPERATION, &error))
    }

    /// Lets SQS deliver a received order message again after so many seconds.
    pub async fn deliver_again_after(&self, receipt_handle: &str, seconds: i32) -> Result<(), StoreError> {
        self.sqs
            .change_message_visibility()
            .queue_url(&self.names.orders_queue_url)
            .receipt_handle(receipt_handle)
            .visibility_timeout(seconds)
            .send()
            .await
            .map(|_| ())
            .map_err(|error| StoreError::of("deliver a message again soon", &error))
    }

    /// About how many order messages wait to be received.
    pub async fn orders_waiting(&self) -> Result<u64, StoreError> {
        const OPERATION: &str = "look at the orders queue";
        let name = QueueAttributeName::ApproximateNumberOfMessages;
        let output = self
            .sqs
            .get_queue_attributes()
            .queue_url(&self.names.orders_queue_url)
            .attribute_names(name.clone())
            .send()
            .await
            .map_err(|error| StoreError::of(OPERATION, &error))?;
        let waiting = output.attributes.as_ref().and_then(|attributes| attributes.get(&name)?.parse().ok());
        waiting.ok_or_else(|| StoreError::unreadable(OPERATION, "the number of messages"))
    }

    /// Forwards a notice about one of the shop's ordinary orders to the shop's queue. `None`: the shop has no queue.
    pub async fn forward_to_shop(&self, body: &str) -> Result<Option<()>, StoreError> {
        let Some(url) = self.names.shop_queue_url.as_deref() else { return Ok(None) };
        let sent = self.sqs.send_message().queue_url(url).message_body(body).send().await;
        sent.map(|_| Some(())).map_err(|error| StoreError::of("forward a notice to the shop", &error))
    }

    /// Moves a message that can never be handled to the dead letters, with the reason.
    pub async fn move_to_dead_letters(&self, body: &str, reason: &str) -> Result<(), StoreError> {
        const OPERATION: &str = "keep a dead letter";
        let url = self.names.orders_dead_letters_url.as_deref();
        let url = url.ok_or_else(|| StoreError::unreadable(OPERATION, "ORDERS_DEAD_LETTERS_URL is not set"))?;
        let reason = MessageAttributeValue::builder()
            .data_type("String")
            .string_value(reason)
            .build()
            .map_err(|error| StoreError::unreadable(OPERATION, error))?;
        self.sqs
            .send_message()
            .queue_url(url)
            .message_body(body)
            .message_attributes("reason", reason)
            .send()
            .await
            .map(|_| ())
            .map_err(|error| StoreError::of(OPERATION, &error))
    }
}
