//! `hub status`, with the metrics of a hub and with servers that have none.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::agent_program::Place;
use crate::program::Run;

const METRICS: &str = "\
# HELP switchboard_sessions Sessions by activity.
# TYPE switchboard_sessions gauge
switchboard_sessions{state=\"working\"} 2
switchboard_sessions{state=\"waiting\"} 1
switchboard_sessions{state=\"idle\"} 0
switchboard_sessions{state=\"rest\"} 9
switchboard_hosts 3
switchboard_connections 5
switchboard_attachments 4
switchboard_messages_total{direction=\"to_agent\"} 7
switchboard_messages_total{direction=\"from_agent\"} 70
switchboard_attachment_lag_seconds 0.25
switchboard_append_seconds_bucket{le=\"+Inf\"} 4
switchboard_append_seconds_sum 0.002
switchboard_append_seconds_count 4
";

/// A server with metrics that requires a token. It is stopped on drop.
struct Served {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    fn start(text: &'static str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(text.to_owned());
        let answer = move |headers: HeaderMap| {
            let metrics = Arc::clone(&metrics);
            async move {
                match headers.get("authorization").map(axum::http::HeaderValue::as_bytes) {
                    Some(b"Bearer sb_right") => (*metrics).clone().into_response(),
                    _ => (StatusCode::UNAUTHORIZED, "no such token").into_response(),
                }
            }
        };
        let router = axum::Router::new().route("/metrics", get(answer));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Served { address, _runtime: runtime }
    }

    fn status(&self, scheme: &str, path: &str, token: &str) -> Run {
        let place = Place::new();
        let url = format!("{scheme}://{}{path}", self.address);
        let mut command = place.command(&["hub", "status", &url]);
        command.env("SWITCHBOARD_TOKEN", token);
        place.run_command(command)
    }
}

#[test]
fn a_person_sees_how_a_hub_is() {
    let served = Served::start(METRICS);
    let shown = served.status("http", "", "sb_right").stdout;
    insta::assert_snapshot!(shown, @"
    sessions    12: 2 working, 1 waiting for an answer, 0 idle, 9 dormant
    agents      3 running
    clients     5 connected
    attachments 4, the slowest 250 ms behind
    messages    7 to agents, 70 from agents
    log         4 appends, 500 µs each
    ");
    for (scheme, path) in [("http", ""), ("http", "/"), ("ws", "/acp"), ("http", "/acp/claude")] {
        let run = served.status(scheme, path, "sb_right");
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{scheme} {path}");
        assert_eq!(run.stdout, shown, "{scheme} {path}");
    }
    let place = Place::new();
    place.write(place.work().join("token"), "sb_right\n");
    let file = place.work().join("token").display().to_string();
    let run = place.run(&["hub", "status", &served.address.to_string(), "--token-file", &file]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn why_a_hub_cannot_be_seen_is_told() {
    let served = Served::start(METRICS);
    for token in ["sb_wrong", ""] {
        let refused = served.status("http", "", token);
        assert_eq!((refused.code, refused.stdout.as_str()), (5, ""), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("401") && refused.stderr.contains("--token-file"),
            "{}",
            refused.stderr
        );
        assert!(!refused.stderr.contains("sb_wrong"), "{}", refused.stderr);
    }
    for text in ["", "process_cpu_seconds 1\n", "<html>hello</html>"] {
        let other = Served::start(text).status("http", "", "sb_right");
        assert_eq!(other.code, 1);
        assert!(other.stderr.contains("is not a hub"), "{}", other.stderr);
    }
    let place = Place::new();
    let nobody = place.run(&["hub", "status", "http://127.0.0.1:9"]);
    assert_eq!(nobody.code, 1);
    assert!(
        nobody.stderr.contains("127.0.0.1:9/metrics") && nobody.stderr.contains("serve"),
        "{}",
        nobody.stderr
    );
    assert_eq!(place.run(&["hub", "status", "ftp://here"]).code, 2);
}
