//! The whole local cloud from a template: a real process as its function, and every way it refuses to start.
//!
//! This test binary is its own bootstrap, as for the host's tests: a script starts it again with [`bootstrap`].

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use seckill_local::{Options, SeckillLocal};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_tungstenite::tungstenite::Message;

const TEMPLATE: &str = include_str!("../templates/run.yaml");

/// Not a test of its own: the process that the host starts. Without the variable there is nothing to do.
#[test]
fn bootstrap() {
    if std::env::var_os("THINGS_TABLE").is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(lambda_runtime::run(service_fn(handle)));
    std::process::exit(i32::from(done.is_err()));
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let event = event.payload;
    match event["requestContext"]["routeKey"].as_str().unwrap_or_default() {
        // Sends back what a client says, through the Management API.
        "$default" => {
            let id = event["requestContext"]["connectionId"].as_str().unwrap_or_default().replace('=', "%3D");
            let url = format!("{}/live/@connections/{id}", std::env::var("AWS_ENDPOINT_URL")?);
            let key = std::env::var("AWS_ACCESS_KEY_ID")?;
            let authorization = format!("AWS4-HMAC-SHA256 Credential={key}/x, SignedHeaders=host, Signature=x");
            let request = http::Request::post(url).header("authorization", authorization);
            let body = event["body"].as_str().unwrap_or_default().to_owned();
            let client = Client::builder(TokioExecutor::new()).build_http();
            let answer = client.request(request.body(Full::new(Bytes::from(body)))?).await?;
            Ok(json!({"statusCode": answer.status().as_u16()}))
        }
        "$connect" | "$disconnect" => Ok(json!({"statusCode": 200})),
        "POST /admin/sales" => {
            let sale: Value = serde_json::from_str(event["body"].as_str().unwrap_or_default())?;
            println!("a sale with {} items", sale["items"].as_array().map_or(0, Vec::len));
            Ok(json!({"statusCode": 201, "body": json!({"saleId": "s1"}).to_string()}))
        }
        "POST /admin/sales/{saleId}/preheat" => {
            println!("preheated {}", event["pathParameters"]["saleId"]);
            Ok(json!({"statusCode": 200, "body": "{}"}))
        }
        "GET /who" => Ok(event["requestContext"]["authorizer"]["jwt"]["claims"].clone()),
        key => {
            let table = std::env::var(if key == "PUT /secrets" { "SECRETS_TABLE" } else { "THINGS_TABLE" })?;
            let config = aws_config::load_defaults(aws_config::BehaviorVersion::v2026_01_12()).await;
            let put = aws_sdk_dynamodb::Client::new(&config).put_item().table_name(table);
            match put.item("id", AttributeValue::S("1".to_owned())).send().await {
                Ok(_) => Ok(json!({"statusCode": 201, "body": "made"})),
                Err(error) => {
                    let error = error.into_service_error();
                    let text = error.meta().message().unwrap_or_default();
                    Ok(json!({"statusCode": 403, "body": format!("{}: \
                            {text}", error.meta().code().unwrap_or_default())}))
                }
            }
        }
    }
}

/// A directory with a template, a bootstrap and a place for data.
struct Site {
    directory: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(site.path("template.yaml"), TEMPLATE).unwrap();
        let this = std::env::current_exe().unwrap();
        let script = format!("#!/bin/sh\nexec '{}' --exact run::bootstrap --nocapture\n", this.display());
        fs::create_dir(site.path("bin")).unwrap();
        fs::write(site.path("bin/shop"), script).unwrap();
        fs::set_permissions(site.path("bin/shop"), fs::Permissions::from_mode(0o755)).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn options(&self) -> Options {
        Options {
            template: self.path("template.yaml"),
            port: 0,
            data_dir: self.path("data"),
            binaries: self.path("bin"),
            no_demo: true,
            ..Options::default()
        }
    }

    /// The program's own command line for the same thing.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seckill-local"));
        command.current_dir(self.directory.path()).env("PORT", "0").env_remove("DATA_DIR").env_remove("RUST_LOG");
        command.args(["--data-dir", "data", "--binaries", "bin", "--no-demo"]);
        command
    }
}

async fn call(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut request = http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_through_a_process_to_a_table_under_the_functions_own_permissions() {
    let site = Site::new();
    let cloud = SeckillLocal::start(&site.options()).await.unwrap();
    let url = cloud.base_url();
    assert_eq!(call("PUT", &format!("{url}/things"), &[], "").await, (201, "made".to_owned()));
    let (status, body) = call("PUT", &format!("{url}/secrets"), &[], "").await;
    assert_eq!(status, 403);
    assert!(body.starts_with("AccessDeniedException") && body.contains("dynamodb:PutItem"), "{body}");

    let (_, token) = call("POST", &format!("{url}/_local/token"), &[], r#"{"sub": "buyer-1"}"#).await;
    let token = json_of(&token)["token"].as_str().unwrap().to_owned();
    assert_eq!(call("GET", &format!("{url}/who"), &[], "").await.0, 401);
    let (status, who) = call("GET", &format!("{url}/who"), &[("authorization", &format!("Bearer {token}"))], "").await;
    assert_eq!((status, json_of(&who)["sub"].clone()), (200, json!("buyer-1")));

    let (_, stack) = call("GET", &format!("{url}/_local/stack"), &[], "").await;
    let live = json_of(&stack)["live"].clone();
    assert_eq!(live["queues"]["seckill-Letters"]["visible"], 0, "{live}");
    assert_eq!(live["functions"]["seckill-ShopFunction"]["invocations"], 3, "{live}");
    assert!(site.path("data/logs/seckill-ShopFunction.log").is_file());
    cloud.stop().await;

    // What was written and who signs tokens survive a restart.
    let cloud = SeckillLocal::start(&site.options()).await.unwrap();
    let url = cloud.base_url();
    assert_eq!(call("GET", &format!("{url}/who"), &[("authorization", &format!("Bearer {token}"))], "").await.0, 200);
    cloud.stop().await;
    let cloud = SeckillLocal::start(&Options { fresh: true, ..site.options() }).await.unwrap();
    let url = cloud.base_url();
    assert_eq!(call("GET", &format!("{url}/who"), &[("authorization", &format!("Bearer {token}"))], "").await.0, 401);
    cloud.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_runs_a_function_and_sees_what_it_answers() {
    let site = Site::new();
    let cloud = SeckillLocal::start(&site.options()).await.unwrap();
    let url = cloud.base_url();
    let connect = r#"{"requestContext": {"routeKey": "$connect"}}"#;
    for name in ["shop", "ShopFunction", "seckill-ShopFunction"] {
        let (status, answer) = call("POST", &format!("{url}/_local/invoke/{name}"), &[], connect).await;
        assert_eq!((status, json_of(&answer)), (200, json!({"statusCode": 200})), "{name}");
    }
    let (status, failed) = call("POST", &format!("{url}/_local/invoke/shop"), &[], "no JSON").await;
    assert_eq!(status, 502);
    assert!(json_of(&failed)["errorMessage"].is_string(), "{failed}");
    let (status, unknown) = call("POST", &format!("{url}/_local/invoke/nobody"), &[], "").await;
    assert_eq!(status, 404);
    says(&unknown, &["no function nobody", "shop"]);
    let (_, stack) = call("GET", &format!("{url}/_local/stack"), &[], "").await;
    let waiting = &json_of(&stack)["live"]["asynchronous"]["seckill-ShopFunction"];
    assert_eq!(*waiting, json!({"visible": 0, "inFlight": 0, "delayed": 0}));
    cloud.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_reach_the_engines_and_the_payment_providers_at_an_address_of_their_own() {
    let site = Site::new();
    let options = Options { also_listen: Some(IpAddr::from([127, 0, 0, 2])), ..site.options() };
    let cloud = SeckillLocal::start(&options).await.unwrap();
    let (_, stack) = call("GET", &format!("{}/_local/stack", cloud.base_url()), &[], "").await;
    let live = json_of(&stack)["live"].clone();
    let for_containers = live["containerEndpoint"].as_str().unwrap();
    assert!(for_containers.starts_with("http://127.0.0.2:"), "{live}");
    let target = ("x-amz-target", "DynamoDB_20120810.ListTables");
    let (status, refused) = call("POST", for_containers, &[target], "{}").await;
    assert_eq!(status, 403, "the engines check who calls, there as well: {refused}");
    let root = ("authorization", "AWS4-HMAC-SHA256 Credential=AKIALOCALROOT0000000/x");
    let (status, tables) = call("POST", for_containers, &[target, root], "{}").await;
    assert!(status == 200 && tables.contains("seckill-Things"), "{tables}");
    assert_eq!(call("GET", &format!("{for_containers}/_sandbox"), &[], "").await.0, 200);
    let endpoint = live["endpoint"].as_str().unwrap();
    assert_eq!(call("GET", &format!("{endpoint}/_sandbox"), &[], "").await.0, 403, "the gateway serves it here");
    assert_eq!(call("GET", &format!("{for_containers}/_local/stack"), &[], "").await.0, 403);
    cloud.stop().await;
}

#[test]
fn an_address_that_this_machine_does_not_have_is_told() {
    let site = Site::new();
    says(&refused(site.command().args(["--also-listen", "192.0.2.1"])), &["192.0.2.1", "an address of this machine"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_posts_to_a_websocket() {
    let site = Site::new();
    let cloud = SeckillLocal::start(&site.options()).await.unwrap();
    let url = cloud.base_url().replacen("http", "ws", 1);
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("{url}/ws")).await.unwrap();
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("hello"));
    cloud.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_run_makes_a_demo_sale_and_the_next_one_does_not() {
    let site = Site::new();
    for is_first in [true, false] {
        let cloud = SeckillLocal::start(&site.options()).await.unwrap();
        let demo = cloud.make_demo_sale().await.unwrap();
        assert_eq!((demo.sale_id.as_str(), demo.item_id.as_str(), demo.is_new), ("s1", "phone", is_first));
        let summary = cloud.summary(&site.options(), Some(&demo), false);
        assert!(summary.contains(&format!("{}/sales/s1", cloud.base_url())), "{summary}");
        cloud.stop().await;
    }
    let log = fs::read_to_string(site.path("data/logs/seckill-ShopFunction.log")).unwrap();
    assert_eq!(log.matches("a sale with 2 items").count(), 1, "{log}");
    assert_eq!(log.matches("preheated \"s1\"").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_sale_that_is_refused_is_told_and_tried_again() {
    let site = Site::new();
    let without_sales = TEMPLATE.replace("Path: /admin/sales,", "Path: /elsewhere,");
    fs::write(site.path("template.yaml"), without_sales).unwrap();
    let cloud = SeckillLocal::start(&site.options()).await.unwrap();
    let error = cloud.make_demo_sale().await.unwrap_err().to_string();
    assert_eq!(error, r#"POST /admin/sales answered 404 Not Found: {"message":"Not Found"}"#);
    cloud.stop().await;
    fs::write(site.path("template.yaml"), TEMPLATE).unwrap();
    let cloud = SeckillLocal::start(&site.options()).await.unwrap();
    assert!(cloud.make_demo_sale().await.unwrap().is_new);
    cloud.stop().await;
}

/// Runs the program to its end; gives what it said on stderr.
fn refused(command: &mut Command) -> String {
    let Output { status, stderr, stdout } = command.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}{}", String::from_utf8_lossy(&stdout));
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("seckill-local: "), "{stderr}");
    stderr
}

fn says(stderr: &str, parts: &[&str]) {
    for part in parts {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn a_port_in_use_is_told() {
    let site = Site::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let stderr = refused(site.command().env("PORT", &port));
    says(&stderr, &[&format!("port {port} is in use"), "PORT="]);
}

#[test]
fn a_missing_binary_is_told() {
    let site = Site::new();
    fs::remove_file(site.path("bin/shop")).unwrap();
    says(&refused(&mut site.command()), &["seckill-ShopFunction", "cargo build --bin shop", "make build-local"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_copy_on_the_same_directory_is_told() {
    let site = Site::new();
    let cloud = SeckillLocal::start(&site.options()).await.unwrap();
    says(&refused(&mut site.command()), &["data", "another running copy", "DATA_DIR"]);
    cloud.stop().await;
}

#[test]
fn a_corrupt_data_directory_is_told() {
    for file in ["dynamodb.db", "cloud.db"] {
        let site = Site::new();
        fs::create_dir(site.path("data")).unwrap();
        fs::write(site.path("data").join(file), vec![b'x'; 8192]).unwrap();
        says(&refused(&mut site.command()), &[file, "--fresh"]);
    }
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    fs::write(site.path("data/issuer-key.pem"), "no key").unwrap();
    says(&refused(&mut site.command()), &["issuer-key.pem", "--fresh"]);
    let site = Site::new();
    fs::write(site.path("data"), "a file").unwrap();
    says(&refused(&mut site.command()), &["data", "DATA_DIR"]);
}

#[test]
fn a_wrong_template_is_told_with_its_line() {
    let site = Site::new();
    let wrong = TEMPLATE.replace("AWS::SQS::Queue", "AWS::SQS::Queu");
    let line = TEMPLATE.lines().position(|line| line.trim() == "Letters:").unwrap() + 1;
    fs::write(site.path("template.yaml"), wrong).unwrap();
    says(&refused(&mut site.command()), &[&format!("template.yaml:{line}"), "AWS::SQS::Queu"]);
    fs::remove_file(site.path("template.yaml")).unwrap();
    says(&refused(&mut site.command()), &["template.yaml"]);
    let site = Site::new();
    says(&refused(site.command().args(["--parameter", "Unknown=1"])), &["Unknown"]);
    says(&refused(site.command().args(["--logs", "nobody"])), &["--logs nobody", "shop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_says_where_things_are_and_stops_cleanly() {
    for signal in ["-INT", "-TERM"] {
        let site = Site::new();
        let mut command = tokio::process::Command::from(site.command());
        command.args(["--logs", "all"]).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut program = command.spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let mut url = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some(address) = line.trim().strip_prefix("API ") {
                url = address.trim().to_owned();
            }
            if line.contains("Ctrl-C stops it") {
                break;
            }
        }
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        assert_eq!(call("PUT", &format!("{url}/things"), &[], "").await.0, 201);
        let id = program.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let mut shown = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            shown.push_str(&line);
        }
        assert_eq!(program.wait().await.unwrap().code(), Some(0), "{signal}: {shown}");
        assert!(shown.contains("seckill-ShopFunction | "), "{shown}");
        assert!(is_free(&site.path("data")), "the directory is given back");
    }
}

fn is_free(directory: &Path) -> bool {
    local_cloud::data::DataDir::open(directory, false).is_ok()
}
