//! Live peers in this process: one without faults, and one for each rule that only a live peer can break. The
//! clock is simulated.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_conform::live::{
    AgentOptions, CLIENT_SCENARIOS, ClientChecker, ClientEnd, Launch, Started, check_agent, play_agent,
};
use switchboard_conform::{RULES, Report, Strength, TestKind, Verdict};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

/// Rules that only a live peer can break, with the place of their broken peers.
const BROKEN_AGENTS: &[&str] = &["rpc-alive-after-error", "ext-notification-ignored", "state-idle"];
const BROKEN_CLIENTS: &[&str] =
    &["client-survives", "client-tolerates-faults", "client-answers-questions", "client-transcript"];
/// Needs a process: see the tests of the program.
const BROKEN_PROCESSES: &[&str] = &["process-exits"];

#[test]
fn every_rule_of_running_peers_has_a_broken_one() {
    let mut covered: Vec<_> = [BROKEN_AGENTS, BROKEN_CLIENTS, BROKEN_PROCESSES].concat();
    let mut wanted: Vec<_> = RULES
        .iter()
        .filter(|rule| rule.seen == TestKind::Live && rule.strength != Strength::Recorded)
        .map(|rule| rule.id)
        .collect();
    covered.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(covered, wanted);
}

/// A small version 2 agent with at most one fault.
#[derive(Clone)]
struct SmallAgent {
    fault: &'static str,
}

impl Launch for SmallAgent {
    fn launch(&self) -> Result<Started, String> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (output, input) = tokio::io::split(ours);
        tokio::spawn(serve(self.clone(), theirs));
        Ok(Started { input: Box::new(input), output: Box::new(output), process: None })
    }
}

async fn serve(agent: SmallAgent, stream: DuplexStream) {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    let (mut count, mut is_deaf) = (0_u64, false);
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if agent.fault == "ext-notification-ignored" && message["method"] == "_switchboard/hello" {
            return;
        }
        if is_deaf {
            continue;
        }
        count += 1;
        is_deaf = agent.fault == "rpc-alive-after-error" && message["method"] == "_switchboard/other";
        for reply in agent.replies(&message, count) {
            if output.write_all(format!("{reply}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

impl SmallAgent {
    fn replies(&self, message: &Value, count: u64) -> Vec<Value> {
        let params = &message["params"];
        let session = &params["sessionId"];
        let update = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}});
        let state = |state: &str| update(json!({"sessionUpdate": "state_update", "state": state}));
        let idle = |reason: &str| {
            update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": reason}))
        };
        let Some(id) = message.get("id") else {
            return match message["method"].as_str() {
                Some("session/cancel") => vec![idle("cancelled")],
                None if message.is_array() => {
                    vec![
                        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "No batches"}}),
                    ]
                }
                _ => Vec::new(),
            };
        };
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match message["method"].as_str() {
            Some("initialize") if self.fault == "of the future" => {
                vec![json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "Only 3"}})]
            }
            Some("initialize") => vec![result(json!({
                "protocolVersion": 2, "capabilities": {"session": {}}, "info": {"name": "small", "version": "1"},
            }))],
            Some("session/new") => vec![result(json!({"sessionId": format!("s-{count}")}))],
            Some("session/prompt") if *session == "no-such-session" => {
                vec![
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32002, "message": "No such session"}}),
                ]
            }
            Some("session/prompt") => {
                let user = format!("u-{count}");
                let told = update(
                    json!({"sessionUpdate": "user_message", "messageId": user, "content": params["prompt"]}),
                );
                let mut replies = vec![state("running"), result(json!({"messageId": user})), told];
                let is_long = params["prompt"][0]["text"] == "long";
                if !is_long && self.fault != "state-idle" {
                    replies.push(idle("end_turn"));
                }
                replies
            }
            // Only running work is cancelled; here, that is the second session of its scenario.
            Some("session/close") if count > 3 => vec![idle("cancelled"), result(json!({}))],
            Some("session/close") => vec![result(json!({}))],
            Some("session/resume") => {
                vec![update(json!({"sessionUpdate": "state_update", "state": "idle"})), result(json!({}))]
            }
            Some("session/list") => vec![result(json!({"sessions": []}))],
            _ => vec![
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}),
            ],
        }
    }
}

async fn judged_agent(fault: &'static str) -> Report {
    let options = AgentOptions {
        version: None,
        folder: "/w".into(),
        prompt: "hello".to_owned(),
        cancel_prompt: "long".to_owned(),
        patience: Duration::from_secs(5),
        login: None,
        more: switchboard_acp::More,
    };
    let mut told = 0;
    let (report, transcript) =
        check_agent(&SmallAgent { fault }, "small", &options, |_, place, _| told = place).await;
    assert_eq!(told > 10 && !transcript.is_empty(), report.blocked.is_none());
    report
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_speaks_no_version_of_ours_is_not_judged() {
    let report = judged_agent("of the future").await;
    assert_eq!(
        (report.verdict, report.blocked.as_deref()),
        (Verdict::NotJudged, Some("the agent supports neither version 1 nor version 2: Only 3"))
    );
}

fn broken(report: &Report) -> Vec<&'static str> {
    report.failed().map(|judged| judged.rule.rule().id).collect()
}

#[track_caller]
fn keeps_everything(report: &Report) {
    assert_eq!(
        (report.verdict, broken(report)),
        (Verdict::Conformant, Vec::new()),
        "{:?}",
        report.failed().collect::<Vec<_>>()
    );
}

#[tokio::test(start_paused = true)]
async fn a_small_agent_keeps_everything() {
    let report = judged_agent("").await;
    keeps_everything(&report);
}

#[tokio::test(start_paused = true)]
async fn broken_agents_break_exactly_their_rule() {
    for fault in BROKEN_AGENTS {
        let report = judged_agent(fault).await;
        assert_eq!(broken(&report), [*fault], "{:?}", report.failed().collect::<Vec<_>>());
    }
}

/// A small version 2 client: one prompt, and an answer to each question. Returns the log.
async fn client(scenario: &str, fault: &'static str) -> String {
    let scenario = CLIENT_SCENARIOS.iter().find(|known| known.id == scenario).unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (agent_input, agent_output) = tokio::io::split(theirs);
    let client = tokio::spawn(async move {
        let (input, mut output) = tokio::io::split(ours);
        let mut lines = BufReader::new(input);
        let initialize = match fault {
            "init-client-info-2" => {
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}"#
            }
            _ => {
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"c","version":"1"}}}"#
            }
        };
        let begin = [
            initialize,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"conform-1","prompt":[{"type":"text","text":"hi"}]}}"#,
        ];
        let mut next = begin.iter().skip(usize::from(fault == "init-first"));
        if let Some(line) = next.next() {
            output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).await.is_ok_and(|count| count > 0) {
            let message = serde_json::from_slice::<Value>(&line).unwrap_or_default();
            if fault == "client-tolerates-faults" && message.is_null() {
                return;
            }
            line.clear();
            if fault == "client-survives" && message["params"]["update"]["sessionUpdate"] == "weather_update"
            {
                return;
            }
            let has_ended = message["result"]["stopReason"].is_string();
            if has_ended || message["params"]["update"]["state"] == "idle" {
                return;
            }
            let reply = if message["method"] == "session/request_permission" {
                if fault == "client-answers-questions" && message["params"]["title"] == "Second?" {
                    continue;
                }
                Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}).to_string())
            } else if fault == "rpc-unknown-method" && message["method"] == "_switchboard/what" {
                Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": {}}).to_string())
            } else if message.get("method").is_some() && message.get("id").is_some() {
                Some(json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}).to_string())
            } else if message.get("result").is_some() {
                next.next().map(|line| (*line).to_owned())
            } else {
                None
            };
            if let Some(reply) = reply {
                output.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
            }
        }
    });
    let mut log = String::new();
    play_agent(scenario, agent_input, agent_output, Duration::from_secs(5), |line| {
        log.push_str(line);
        log.push('\n');
    })
    .await;
    client.await.unwrap();
    log
}

async fn judged_client(fault: &'static str) -> Report {
    let mut judge = ClientChecker::new();
    // The large scenario is for a separate program.
    for scenario in CLIENT_SCENARIOS.iter().filter(|scenario| scenario.id != "large") {
        let log = client(scenario.id, fault).await;
        let shown = match fault {
            "client-transcript" => "conform-kept-one conform-replaced conform-kept-two",
            _ => "conform-kept-one conform-whole conform-kept-two",
        };
        judge.scenario(scenario, &log, ClientEnd::Regular, Some(shown));
    }
    judge.report("small").0
}

#[tokio::test(start_paused = true)]
async fn a_small_client_keeps_everything() {
    let report = judged_client("").await;
    keeps_everything(&report);
}

#[tokio::test(start_paused = true)]
async fn broken_clients_break_exactly_their_rule() {
    for fault in BROKEN_CLIENTS {
        let report = judged_client(fault).await;
        assert_eq!(broken(&report), [*fault], "{:?}", report.failed().collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn clients_are_judged_by_how_they_begin_and_what_they_answer() {
    for fault in ["init-client-info-2", "init-first", "rpc-unknown-method"] {
        let report = judged_client(fault).await;
        assert_eq!(broken(&report), [fault], "{:?}", report.failed().collect::<Vec<_>>());
        let is_broken = fault != "rpc-unknown-method";
        assert_eq!(report.verdict == Verdict::NotConformant, is_broken, "{fault}: {:?}", report.verdict);
    }
}

#[test]
fn a_client_that_never_speaks_is_not_judged() {
    let mut judge = ClientChecker::new();
    judge.scenario(&CLIENT_SCENARIOS[0], "", ClientEnd::Crashed, None);
    assert_eq!(judge.report("nobody").0.verdict, Verdict::NotJudged);
}

#[test]
fn a_client_may_write_spaces_between_its_words() {
    let mut judge = ClientChecker::new();
    let log = r#"{"dir":"client->agent","msg":{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}}"#;
    judge.scenario(&CLIENT_SCENARIOS[0], log, ClientEnd::Regular, None);
    assert!(judge.has_begun());
}
