//! A shop for the tests: the local cloud with the deployed binaries, an operator, and a sale.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use seckill_local::{Options, SeckillLocal};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::http::{Answer, Api, User, sale_form};
use testkit::permissions;

pub(crate) struct Shop {
    pub(crate) cloud: SeckillLocal,
    pub(crate) api: Api,
    pub(crate) operator: User,
    _data: TempDir,
}

/// The directory of the binaries: the parent of this test's own directory.
pub(crate) fn binaries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().to_owned()
}

impl Shop {
    /// The deployed binaries, each in processes of its own.
    pub(crate) async fn open() -> Self {
        Self::open_on("processes").await
    }

    /// The functions on this host.
    pub(crate) async fn open_on(host: &str) -> Self {
        Self::open_with(host, None).await
    }

    /// The same, with another text of the template.
    pub(crate) async fn open_with(host: &str, template_text: Option<&str>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let template = match template_text {
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../template.yaml"),
            Some(text) => {
                let path = data.path().join("template.yaml");
                std::fs::write(&path, text).unwrap();
                path
            }
        };
        let binaries = binaries();
        let arguments = [
            "seckill-local".as_ref(),
            "--template".as_ref(),
            template.as_os_str(),
            "--data-dir".as_ref(),
            data.path().as_os_str(),
            "--binaries".as_ref(),
            binaries.as_os_str(),
            "--host".as_ref(),
            host.as_ref(),
            "--port".as_ref(),
            "0".as_ref(),
        ];
        // Functions in this process log through its subscriber.
        seckill_local::logs::init();
        let options = Options::parse_from(arguments);
        let cloud = SeckillLocal::start(&options).await.unwrap_or_else(|error| panic!("{error}"));
        let api = Api::held_to_contract(cloud.base_url());
        let operator = api.user("operator", "seckill/admin").await;
        Self { cloud, api, operator, _data: data }
    }

    pub(crate) async fn close(self) {
        permissions::keep(self.cloud.policies());
        self.cloud.stop().await;
    }

    /// Creates and preheats a sale of one item that has already started. Returns its id.
    pub(crate) async fn sale(&self, stock: u32, limit: u32, payment_window_s: u32) -> String {
        self.sale_of(&sale(stock, limit, payment_window_s)).await
    }

    /// The same for any sale.
    pub(crate) async fn sale_of(&self, sale: &Value) -> String {
        let created = self.operator.post("/admin/sales", sale).await;
        assert_eq!(created.status, 201, "{created:?}");
        assert_eq!(created.body["status"], "DRAFT");
        let id = created.body["saleId"].as_str().unwrap().to_owned();
        let preheated = self.operator.post(&format!("/admin/sales/{id}/preheat"), &json!({})).await;
        assert_eq!((preheated.status, &preheated.body["status"]), (200, &json!("OPEN")), "{preheated:?}");
        id
    }

    pub(crate) async fn buyer(&self, name: &str) -> User {
        self.api.user(name, "").await
    }

    pub(crate) async fn audit(&self, sale: &str) -> Value {
        let audit = self.operator.get(&format!("/admin/sales/{sale}/audit")).await;
        assert_eq!(audit.status, 200, "{audit:?}");
        audit.body["items"][0].clone()
    }
}

/// A sale that started an hour ago and ends in a day.
#[expect(clippy::disallowed_methods, reason = "the deployed binaries go by the wall clock, so the sale must too")]
pub(crate) fn sale(stock: u32, limit: u32, payment_window_s: u32) -> Value {
    sale_form(jiff::Timestamp::now(), stock, limit, payment_window_s)
}

pub(crate) async fn press(buyer: &User, sale: &str) -> Answer {
    buyer.post("/seckill", &json!({ "saleId": sale, "itemId": "phone", "quantity": 1 })).await
}

/// Repeats `done` until it returns a value, for at most `seconds`.
pub(crate) async fn until<T>(seconds: u64, what: &str, done: impl AsyncFn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = done().await {
            return value;
        }
        assert!(began.elapsed() < Duration::from_secs(seconds), "not within {seconds} s: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until an order has a status.
pub(crate) async fn status(buyer: &User, order: &str, status: &str, seconds: u64) -> Value {
    until(seconds, &format!("{order} is {status}"), async || {
        let answer = buyer.get(&format!("/orders/{order}")).await;
        assert_eq!(answer.status, 200, "an accepted purchase must be visible: {answer:?}");
        (answer.body["status"] == status).then_some(answer.body)
    })
    .await
}
