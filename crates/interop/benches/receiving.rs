//! Receives a flood of updates from the same agent process, with our client and with the official one.
//!
//! `cargo bench --manifest-path crates/interop/Cargo.toml -- PROGRAM [COUNT]`, where the program is `switchboard`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v2::{ConnectionTo, schema};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, on_receive_notification};
use switchboard_acp::v2;
use switchboard_peer::{Client, ClientOptions, Event};
use switchboard_transport::Program;
use tokio::sync::Notify;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let program = words.next().unwrap_or_else(|| "switchboard".to_owned());
    let count = words.next().and_then(|word| word.parse().ok()).unwrap_or(300_000);
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be made");
    for _ in 0..3 {
        let ours = runtime().block_on(ours(&program, count));
        let bare = runtime().block_on(transport(&program, count));
        let theirs = runtime().block_on(theirs(&program, count)).expect("the connection holds");
        let rate = |time: Duration| count as f64 / time.as_secs_f64();
        println!(
            "{count} updates: peer {:.0}/s, transport alone {:.0}/s, official SDK {:.0}/s, ratio {:.1}",
            rate(ours),
            rate(bare),
            rate(theirs),
            theirs.as_secs_f64() / ours.as_secs_f64()
        );
    }
}

/// Our client, which keeps the whole session.
async fn ours(program: &str, count: u64) -> Duration {
    let program = Program::new(program).args(["demo-agent"]);
    let (child, client) = Client::start(&program, ClientOptions::new("bench", "1")).await.expect("it starts");
    let Client { agent, mut feed } = client;
    let request =
        v2::NewSessionRequest::new(switchboard_acp::AbsolutePath::parse("/").expect("an absolute path"));
    let session =
        feed.until(agent.new_session(&request), drop).await.expect("answer").expect("session").session_id;
    let begun = Instant::now();
    let prompt = vec![v2::ContentBlock::text(format!("flood {count}"))];
    let mut turn = feed.until(agent.prompt(&session, prompt), drop).await.expect("answer").expect("turn");
    let mut seen = 0;
    feed.until(turn.ended(), |event| seen += u64::from(matches!(event, Event::Update(_))))
        .await
        .expect("end");
    let time = begun.elapsed();
    assert!(seen >= count, "{seen}");
    drop(feed);
    child.shut_down().await;
    time
}

/// Lines only: the agent's maximum rate.
async fn transport(program: &str, count: u64) -> Duration {
    use switchboard_transport::{ConnectionOptions, Json, Received};
    let program = Program::new(program).args(["demo-agent"]);
    let (child, mut connection) = program.connect(ConnectionOptions::default()).expect("it starts");
    let json = |value: serde_json::Value| Json::from(value);
    for (method, params) in [
        ("initialize", serde_json::json!({"protocolVersion": 2, "info": {"name": "b", "version": "1"}})),
        ("session/new", serde_json::json!({"cwd": "/"})),
    ] {
        connection.inbox.until(connection.caller.call(method, json(params)), drop).await.expect("answer");
    }
    let begun = Instant::now();
    let prompt = serde_json::json!({"sessionId": "demo-1", "prompt": [{"type": "text", "text": format!("flood {count}")}]});
    let _call = connection
        .caller
        .begin("session/prompt", json(prompt), switchboard_transport::Deadline::Never)
        .await
        .expect("sent");
    let mut seen = 0;
    while seen < count {
        if let Some(Received::Taken(())) = connection.inbox.next_or(|_| Some(())).await {
            seen += 1;
        }
    }
    let time = begun.elapsed();
    drop(connection);
    child.shut_down().await;
    time
}

/// The official client, which counts and drops updates.
async fn theirs(program: &str, count: u64) -> Result<Duration, agent_client_protocol::Error> {
    let agent = AcpAgent::new(AcpAgentConfig::new(program).args(["demo-agent"]));
    let seen = Arc::new(AtomicU64::new(0));
    let all_seen = Arc::new(Notify::new());
    let (counter, done) = (Arc::clone(&seen), Arc::clone(&all_seen));
    agent_client_protocol::Client
        .v2()
        .on_receive_notification(
            async move |notification: schema::UpdateSessionNotification, _: ConnectionTo<Agent>| {
                std::hint::black_box(notification);
                if counter.fetch_add(1, Ordering::Relaxed) + 1 == count {
                    done.notify_one();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_with(agent, async move |connection| {
            let info = schema::Implementation::new("bench", "1");
            connection
                .send_request(schema::InitializeRequest::new(ProtocolVersion::V2, info))
                .block_task()
                .await?;
            let session = connection.build_session_cwd()?.start_session().block_task().await?.session;
            let begun = Instant::now();
            session.send_prompt(&format!("flood {count}")).block_task().await?;
            all_seen.notified().await;
            Ok(begun.elapsed())
        })
        .await
}
