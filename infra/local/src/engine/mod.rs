//! The services that functions call: DynamoDB, SQS and EventBridge Scheduler.
