//! Network connections: idle ones, ones that do not read, HTTP/2 and TLS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use switchboard_transport::server::{Admission, ListenerLimits, ServerLimits, Tls, TlsError, serve};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::support::{TestServer, initialize, message};
use crate::support::bounded;

async fn serving(limits: ListenerLimits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let large = "x".repeat(32 << 20);
    let admit = |axum::Extension(admission): axum::Extension<Admission>| async move {
        admission.grant();
        "here"
    };
    let router = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/admitted", get(admit))
        .route("/large", get(|| async { large }));
    tokio::spawn(async move { serve(&listener, &router, None, limits).await });
    address
}

fn limits(strangers: usize, life: Duration) -> ListenerLimits {
    ListenerLimits::default().of_strangers(strangers, life)
}

async fn begin(address: SocketAddr, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    stream
}

/// Reads until the peer closes the connection.
async fn rest(mut stream: impl AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    let _ = bounded(stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads the start of a response.
async fn answered(stream: &mut (impl AsyncRead + Unpin)) {
    let mut answer = [0; 15];
    bounded(stream.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn silence_half_a_head_and_idleness_have_an_end() {
    let address = serving(limits(100, Duration::from_millis(100))).await;
    for sent in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM", REQUEST] {
        let answer = rest(begin(address, sent).await).await;
        assert_eq!(answer.ends_with("here"), sent == REQUEST, "{answer}");
    }
}

#[tokio::test]
async fn an_admitted_connection_lasts_until_it_is_idle() {
    const ADMITTED: &str = "GET /admitted HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut limits = limits(1, Duration::from_secs(3600));
    let address = serving(limits).await;
    let mut admitted = begin(address, ADMITTED).await;
    answered(&mut admitted).await;
    // Unauthenticated connections only evict each other.
    let stranger = begin(address, "GET / HT").await;
    let _second = begin(address, "GET / HT").await;
    assert_eq!(rest(stranger).await, "");
    admitted.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let answer = rest(admitted).await;
    assert_eq!(answer.matches("here").count(), 2, "{answer}");
    limits.idle = Duration::from_millis(100);
    let answer = rest(begin(serving(limits).await, ADMITTED).await).await;
    assert!(answer.ends_with("here"), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_awaited() {
    let stranger = limits(100, Duration::from_millis(100));
    let mut stalled = limits(100, Duration::from_secs(3600));
    stalled.stalled = Duration::from_millis(100);
    for limits in [stranger, stalled] {
        let address = serving(limits).await;
        let mut stream = begin(address, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await;
        // The first byte has arrived; the rest does not fit into the buffers, and the client does not read
        // it.
        assert_eq!(stream.read_u8().await.unwrap(), b'H');
        bounded(async {
            while stream.write_all(b"x").await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn thousands_of_silent_connections_keep_nobody_out() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let (mut socket, mut connection) = server.open_socket("owner").await;
    let http = server.open_http("owner").await;
    let mut events = server.stream(&http.id, None, None).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..2000 {
        silent.push(begin(server.address, "POST /acp HT").await);
    }
    // Existing connections are not affected, and new ones are accepted.
    socket.send(r#"{"jsonrpc":"2.0","id":2,"method":"a"}"#).await;
    assert_eq!(message(&mut connection).await["id"], 2);
    http.outgoing.send(super::support::line(1, None, None));
    assert_eq!(events.next().await.0["params"], 1);
    server.open_http("other").await;
    // The oldest were evicted.
    assert_eq!(rest(silent.remove(0)).await, "");
}

/// Sends a request over HTTP/2. Returns the status and the start of the body.
async fn ask_by_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    server: &mut TestServer,
) -> (http::StatusCode, bool) {
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post("http://localhost/acp/known")
        .header("authorization", "Bearer owner")
        .header("content-type", "application/json")
        .body(initialize(1))
        .unwrap();
    let program = async {
        let mut opened = server.opened().await;
        assert_eq!(message(&mut opened.connection).await["id"], 1);
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        opened.connection.outgoing.send(switchboard_transport::server::OutgoingLine::new(answer));
        opened.connection
    };
    let (response, _connection) = tokio::join!(bounded(client.send_request(request)), program);
    let response = response.unwrap();
    (response.status(), response.headers().contains_key("acp-connection-id"))
}

#[tokio::test]
async fn http2_is_spoken_to_who_begins_with_it() {
    let mut server = TestServer::start(ServerLimits::default()).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(ask_by_http2(stream, &mut server).await, (http::StatusCode::OK, true));
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tls").join(name)
}

/// Connects a client that trusts the test's authority.
async fn encrypted(address: SocketAddr, protocol: &[u8]) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("authority.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = bounded(TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
    stream
}

#[tokio::test]
async fn encrypted_by_either_protocol_and_not_otherwise() {
    let tls = Tls::from_files(&file("certificate.pem"), &file("key.pem")).unwrap();
    let start = |limits| TestServer::start_with(ServerLimits::default(), limits, Some(tls.clone()));
    let mut server = start(ListenerLimits::default()).await;
    let stream = encrypted(server.address, b"h2").await;
    assert_eq!(ask_by_http2(stream, &mut server).await, (http::StatusCode::OK, true));
    let mut stream = encrypted(server.address, b"http/1.1").await;
    stream.write_all(b"GET /acp HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(stream).await.starts_with("HTTP/1.1 401 "));
    let server = start(limits(100, Duration::from_millis(200))).await;
    // Plain text and an unfinished handshake are closed.
    for sent in ["GET /acp HTTP/1.1\r\nhost: x\r\n\r\n", "\u{16}\u{3}\u{1}"] {
        assert!(!rest(begin(server.address, sent).await).await.contains("HTTP"));
    }
}

#[test]
fn certificates_that_cannot_be_used_are_told_by_name() {
    let said = |certificate: &Path, key: &Path| Tls::from_files(certificate, key).unwrap_err();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    assert!(matches!(said(Path::new("no/such"), &key), TlsError::File { what: "certificates", .. }));
    assert!(matches!(said(&certificate, Path::new("no/such")), TlsError::File { what: "a private key", .. }));
    assert!(matches!(said(&certificate, &certificate), TlsError::File { what: "a private key", .. }));
    assert!(matches!(said(&key, &key), TlsError::NoCertificate { .. }));
    assert!(matches!(said(&file("authority.pem"), &key), TlsError::Unusable { .. }));
}
