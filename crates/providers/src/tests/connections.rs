//! The deployed connections, to real sockets on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use payments::{HttpCall, Method, PaymentRef, ProviderError, RefundNumber, RefundRequest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::calls::send;
use crate::connection::{Connection, Limits, Roots, https, identity};

/// Short enough for a test, long enough for a busy machine.
const LIMITS: Limits = Limits { connect: Duration::from_millis(500), call: Duration::from_millis(500) };
/// For calls that must not fail on a slow machine.
const PATIENT: Limits = Limits { connect: Duration::from_secs(20), call: Duration::from_secs(20) };

fn connection(limits: Limits) -> SharedHttpConnector {
    SharedHttpConnector::new(Connection::new(Roots::System, None, limits))
}

fn call(method: Method, url: String, body: &str) -> HttpCall {
    HttpCall { method, url, headers: [("X-Test", "1")].into(), body: body.into(), client_certificate: false }
}

/// Reads one request: its head, and a body of the length that the head names.
fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut reader = BufReader::with_capacity(1, stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8(body).ok()?)
}

/// Starts a server whose connections `serve` handles, one thread each. Returns the address without the scheme.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream.unwrap()));
        }
    });
    address
}

/// A server that answers every request with `answer`, and reports each request with the number of its connection.
fn answering(answer: &'static str) -> (String, Receiver<(usize, String)>) {
    let (tell, told) = channel();
    let connections = Mutex::new(0);
    let address = server(move |mut stream| {
        let number = {
            let mut connections = connections.lock().unwrap();
            *connections += 1;
            *connections
        };
        while let Some(request) = read_request(&mut stream) {
            let _ = tell.send((number, request));
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, told)
}

fn unavailable<T: fmt::Debug>(result: Result<T, ProviderError>) -> String {
    match result {
        Err(ProviderError::Unavailable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_is_sent_unchanged_and_a_connection_is_reused() {
    let (address, told) = answering("HTTP/1.1 201 Created\r\nX-Answer: yes\r\nContent-Length: 2\r\n\r\nok");
    let https = https();
    let post = call(Method::Post, format!("http://{address}/v1/x?expand[]=a.b"), "a=1");
    let answer = send(&https, post).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice(), answer.headers.one("x-answer")), (201, &b"ok"[..], Some("yes")));
    let (first, request) = told.recv().unwrap();
    assert!(request.starts_with("POST /v1/x?expand[]=a.b HTTP/1.1\r\n"), "{request}");
    let lower = request.to_ascii_lowercase();
    assert!(lower.contains("\r\nx-test: 1\r\n") && lower.contains(&format!("\r\nhost: {address}\r\n")), "{request}");
    assert!(lower.contains("\r\ncontent-length: 3\r\n") && request.ends_with("\r\n\r\na=1"), "{request}");

    send(&https, call(Method::Post, format!("http://{address}/expire"), "")).await.unwrap();
    let (second, request) = told.recv().unwrap();
    assert!(
        request.to_ascii_lowercase().contains("\r\ncontent-length: 0\r\n"),
        "an empty POST has a length: {request}"
    );
    send(&https, call(Method::Get, format!("http://{address}/x"), "")).await.unwrap();
    let (third, request) = told.recv().unwrap();
    assert!(request.starts_with("GET /x HTTP/1.1\r\n") && !request.contains("ontent-"), "{request}");
    assert_eq!((first, second, third), (1, 1, 1), "one connection");
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_not_an_error() {
    let (tell, told) = channel();
    let address = server(move |mut stream| {
        let request = read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        drop(stream);
        tell.send(request).unwrap();
    });
    let https = connection(PATIENT);
    for _ in 0..3 {
        let answer = send(&https, call(Method::Get, format!("http://{address}/"), "")).await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(
            told.recv().unwrap().is_some(),
            "the connection is closed now, as unnoticed as by a frozen environment"
        );
    }
}

#[tokio::test]
async fn a_slow_provider_times_out() {
    let silent = server(|stream| {
        let _ = stream.try_clone().map(|mut stream| stream.read_to_end(&mut Vec::new()));
    });
    let halting = server(|mut stream| {
        let _ = read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    for address in [silent, halting] {
        let began = Instant::now();
        let why = unavailable(send(&connection(LIMITS), call(Method::Get, format!("http://{address}/"), "")).await);
        assert!(why.contains("no complete answer within 500ms"), "{why}");
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let address = server(|mut stream| {
        let _ = read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let why = unavailable(send(&connection(PATIENT), call(Method::Get, format!("http://{address}/"), "")).await);
    assert!(why.contains("length limit exceeded"), "{why}");
}

#[tokio::test]
async fn a_server_that_is_down_or_does_not_speak_http_is_unavailable() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let why =
        unavailable(send(&connection(PATIENT), call(Method::Get, format!("http://{gone}/secret?key=1"), "")).await);
    assert!(why.contains("onnect") && !why.contains("secret"), "{why}");
    for nonsense in
        ["", "hello", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"]
    {
        let address = server(move |mut stream| {
            let _ = read_request(&mut stream);
            let _ = stream.write_all(nonsense.as_bytes());
        });
        unavailable(send(&connection(PATIENT), call(Method::Get, format!("http://{address}/"), "")).await);
    }
}

#[test]
fn nothing_is_created_before_the_first_call() {
    let connection = Connection::new(Roots::System, None, PATIENT);
    assert!(!connection.is_created());
    assert_eq!(format!("{connection:?}"), "Connection { certified: false, .. }");
}

fn authority() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(include_bytes!("certificates/ca.pem")).unwrap()).unwrap();
    roots
}

const CLIENT: (&str, &str) = (include_str!("certificates/client.pem"), include_str!("certificates/client.key"));

/// A TLS server that asks for a client certificate of the test's authority, and reports the one that it received.
fn tls_server() -> (String, Receiver<Option<CertificateDer<'static>>>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authority()), provider.clone());
    let chain = vec![CertificateDer::from_pem_slice(include_bytes!("certificates/server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certificates/server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let (tell, told) = channel();
    let address = server(move |stream| {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
        if read_request(&mut stream).is_some() {
            let shown = stream.conn.peer_certificates().and_then(|chain| chain.first()).cloned();
            tell.send(shown.map(CertificateDer::into_owned)).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
        let _ = stream.flush();
    });
    (address, told)
}

#[tokio::test]
async fn a_certified_connection_presents_its_certificate() {
    let (address, told) = tls_server();
    let certified = || Some(identity(CLIENT.0, CLIENT.1).unwrap());
    for (identity, shown) in
        [(None, None), (certified(), Some(CertificateDer::from_pem_slice(CLIENT.0.as_bytes()).unwrap()))]
    {
        let connection = SharedHttpConnector::new(Connection::new(Roots::These(authority()), identity, PATIENT));
        let answer = send(&connection, call(Method::Post, format!("https://{address}/secapi/pay/refund"), "x")).await;
        assert_eq!(answer.unwrap().body, b"ok");
        assert_eq!(told.recv().unwrap(), shown);
    }
}

#[tokio::test]
async fn a_server_with_an_untrusted_certificate_is_not_called() {
    let (address, told) = tls_server();
    let why = unavailable(send(&connection(PATIENT), call(Method::Post, format!("https://{address}/"), "x")).await);
    assert!(why.contains("certificate"), "{why}");
    assert!(told.try_recv().is_err());
}

/// WeChat Pay v2 at this address, with a client certificate for refunds.
fn wechat(base_url: &str) -> Secrets {
    let settings = serde_json::json!({
        "appId": "a", "mchId": "1", "key": "0123456789abcdef0123456789abcdef", "signType": "MD5",
        "clientCertificate": CLIENT.0, "clientKey": CLIENT.1, "baseUrl": base_url,
    });
    Secrets::holding(secret([(ProviderKind::WechatV2, settings.to_string())]))
}

#[tokio::test]
async fn only_a_refund_over_tls_presents_the_client_certificate() {
    let (number, transaction) = ("01K9PZ0000ABCDEFGHJKMNPQRS000001".parse().unwrap(), "42".to_owned());
    let refund = RefundRequest {
        refund: RefundNumber::of(&number, &transaction),
        attempt: 0,
        number,
        transaction,
        amount: 1,
        total: 1,
        currency: domain::money::Currency::parse("CNY").unwrap(),
        reason: "sold out".to_owned(),
        notify_url: None,
    };
    let payment = PaymentRef { number: refund.number.clone(), payment: None, transaction: None };
    let (address, _told) = tls_server();
    let ordinary = || Scripted::shared(|_| Err(ConnectorError::io("the ordinary one".into())));
    let tls = wechat(&format!("https://{address}")).providers(ordinary());
    let why = tls.refund(ProviderKind::WechatV2, &refund, at(0)).await.unwrap_err().to_string();
    assert!(
        why.contains("certificate") && !why.contains("the ordinary one"),
        "the system does not trust the test's authority: {why}"
    );
    let why = tls.query(ProviderKind::WechatV2, &payment, at(0)).await.unwrap_err().to_string();
    assert!(why.contains("the ordinary one"), "{why}");
    let local = wechat(&format!("http://{address}")).providers(ordinary());
    let why = local.refund(ProviderKind::WechatV2, &refund, at(0)).await.unwrap_err().to_string();
    assert!(why.contains("the ordinary one"), "{why}");
}
