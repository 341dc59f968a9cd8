//! A client whose connection breaks at any point, with a server that is killed at any point.

mod model_hub;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::Side;
use switchboard_peer::{Connected, ResumableClient, ResumableOutput};

use model_hub::ModelHub;

/// The next event.
#[derive(Debug, Clone)]
enum Step {
    New,
    Prompt(usize),
    Cancel(usize),
    /// The client requests the history of a session again.
    Replay(usize),
    /// The client answers one of its questions.
    Answer(usize),
    AgentSays(usize),
    AgentAsks(usize),
    AnsweredElsewhere(usize),
    TurnEnds(usize),
    /// Lines arrive at the server and at the client.
    Arrive(usize, usize),
    /// The connection breaks: messages in transit are lost.
    Cut,
    /// A stream inside the connection breaks: the one with the responses, or that of a session.
    LoseAnswers,
    LoseStream(usize),
    /// The server is killed; the flag tells whether the work of its agents ends with it.
    Kill(bool),
    /// A new connection; the number of updates that arrive twice.
    Connect(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::New),
        3 => (0..3_usize).prop_map(Step::Prompt),
        1 => (0..3_usize).prop_map(Step::Cancel),
        1 => (0..3_usize).prop_map(Step::Replay),
        4 => (0..3_usize).prop_map(Step::Answer),
        6 => (0..3_usize).prop_map(Step::AgentSays),
        4 => (0..3_usize).prop_map(Step::AgentAsks),
        2 => (0..3_usize).prop_map(Step::AnsweredElsewhere),
        2 => (0..3_usize).prop_map(Step::TurnEnds),
        12 => (0..6_usize, 0..12_usize).prop_map(|(there, here)| Step::Arrive(there, here)),
        4 => Just(Step::Cut),
        1 => Just(Step::LoseAnswers),
        1 => (0..3_usize).prop_map(Step::LoseStream),
        1 => any::<bool>().prop_map(Step::Kill),
        5 => (0..4_usize).prop_map(Step::Connect),
    ]
}

struct World {
    hub: ModelHub,
    client: ResumableClient,
    /// The current connection, if any, and the previous one.
    link: Option<u64>,
    last_link: Option<u64>,
    again: usize,
    /// Lines in transit to the server.
    sent: VecDeque<String>,
    editor: Editor,
}

/// Everything that the editor has seen.
#[derive(Default)]
struct Editor {
    asked: i64,
    prompts: Vec<String>,
    sessions: Vec<String>,
    answers: BTreeMap<i64, Vec<Value>>,
    updates: BTreeMap<String, Vec<Value>>,
    /// Requests that replay a session from its start, with the session.
    replays: BTreeMap<i64, String>,
    questions: BTreeMap<i64, String>,
    seen: Vec<String>,
    answered: BTreeSet<String>,
}

impl World {
    fn new(counts_questions: bool) -> Self {
        let mut number = 0;
        let client = ResumableClient::new(move || {
            number += 1;
            format!("operation-{number}")
        });
        let mut world = World {
            hub: ModelHub::new(counts_questions),
            client,
            link: None,
            last_link: None,
            again: 0,
            sent: VecDeque::new(),
            editor: Editor::default(),
        };
        world.request("initialize", json!({"protocolVersion": 2}));
        world.request("session/new", json!({"cwd": "/w"}));
        world
    }

    fn request(&mut self, method: &str, params: Value) -> i64 {
        self.editor.asked += 1;
        let id = self.editor.asked;
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn say(&mut self, message: Value) {
        self.client.handle(Side::Client, &message.to_string());
        self.carry();
    }

    /// Sends the output of the client under test.
    fn carry(&mut self) {
        let outputs: Vec<ResumableOutput> = self.client.drain().collect();
        for output in outputs {
            match output {
                ResumableOutput::Line { to: Side::Agent, line } => {
                    assert!(self.link.is_some(), "said into the void: {line}");
                    self.sent.push_back(line);
                }
                ResumableOutput::Line { to: Side::Client, line } => self.editor.take(&line),
                other => panic!("{other:?}"),
            }
        }
    }

    fn arrive(&mut self, there: usize, here: usize) {
        let Some(link) = self.link else { return };
        for _ in 0..there.min(self.sent.len()) {
            let line = self.sent.pop_front().unwrap();
            self.hub.take(link, &line, self.again);
        }
        for line in self.hub.deliver(link, here) {
            self.client.handle(Side::Agent, &line);
            self.carry();
        }
    }

    fn cut(&mut self) {
        if let Some(link) = self.link.take() {
            self.hub.cut(link);
            self.sent.clear();
            self.client.lost();
        }
    }

    fn connect(&mut self, again: usize) {
        if self.link.is_some() {
            return;
        }
        self.again = again;
        let resumed = self.last_link.filter(|link| self.client.is_resumable() && self.hub.take_up(*link));
        let link = resumed.unwrap_or_else(|| self.hub.connect());
        (self.link, self.last_link) = (Some(link), Some(link));
        self.client.connected(if resumed.is_some() { Connected::Resumed } else { Connected::Anew });
        self.carry();
    }

    fn step(&mut self, step: &Step) {
        let session = |which: &usize, sessions: &[String]| {
            (!sessions.is_empty()).then(|| sessions[which % sessions.len()].clone())
        };
        let of_editor = |which: &usize| session(which, &self.editor.sessions);
        let of_hub = |which: &usize| {
            let sessions: Vec<String> = self.hub.logs.keys().cloned().collect();
            session(which, &sessions)
        };
        match step {
            Step::New => drop(self.request("session/new", json!({"cwd": "/w"}))),
            Step::Prompt(which) => {
                if let Some(session) = of_editor(which) {
                    let text = format!("prompt {}", self.editor.prompts.len());
                    self.editor.prompts.push(text.clone());
                    let prompt = json!([{"type": "text", "text": text}]);
                    self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}));
                }
            }
            Step::Cancel(which) => {
                if let Some(session) = of_editor(which) {
                    let params = json!({"sessionId": session});
                    self.say(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
                }
            }
            Step::Replay(which) => {
                // One at a time: two concurrent replays could not be told apart.
                if let Some(session) = of_editor(which).filter(|_| self.editor.replays.is_empty()) {
                    let params = json!({"sessionId": session, "cwd": "/w", "replayFrom": {"type": "start"}});
                    let id = self.editor.asked + 1;
                    self.editor.replays.insert(id, session);
                    self.request("session/resume", params);
                }
            }
            Step::Answer(which) => {
                let open: Vec<i64> = self.editor.questions.keys().copied().collect();
                if !open.is_empty() {
                    let id = open[which % open.len()];
                    let name = self.editor.questions.remove(&id).unwrap();
                    self.editor.answered.insert(name.clone());
                    self.say(json!({"jsonrpc": "2.0", "id": id, "result": {"to": name}}));
                }
            }
            Step::AgentSays(which) => {
                if let Some(session) = of_hub(which) {
                    self.hub.say(&session, "more");
                }
            }
            Step::AgentAsks(which) => {
                if let Some(session) = of_hub(which) {
                    self.hub.ask(&session);
                }
            }
            Step::AnsweredElsewhere(which) => {
                if let Some(session) = of_hub(which) {
                    self.hub.answer_elsewhere(&session);
                }
            }
            Step::TurnEnds(which) => {
                if let Some(session) = of_hub(which) {
                    self.hub.end_turn(&session);
                }
            }
            Step::Arrive(there, here) => self.arrive(*there, *here),
            Step::Cut => self.cut(),
            Step::LoseAnswers => {
                // Those of the handshake arrive with it.
                if let Some(link) = self.link.filter(|_| self.editor.answers.contains_key(&1)) {
                    self.hub.lose_answers(link);
                    self.client.refreshed();
                    self.carry();
                }
            }
            Step::LoseStream(which) => {
                let session = of_editor(which).filter(|_| self.hub.counts_questions && self.sent.is_empty());
                let place =
                    session.as_ref().and_then(|session| self.editor.updates.get(session)).map_or(0, Vec::len);
                if let (Some(link), Some(session)) = (self.link, session.filter(|_| place > 0))
                    && self.editor.replays.is_empty()
                {
                    self.hub.lose_stream(link, &session, place);
                    self.client.refreshed();
                    self.carry();
                }
            }
            Step::Kill(work_is_over) => {
                self.cut();
                self.hub.restart(*work_is_over);
            }
            Step::Connect(again) => self.connect(*again),
        }
    }

    /// Repairs the network and delivers everything.
    fn settle(&mut self) {
        self.connect(0);
        for _ in 0..20 {
            self.arrive(usize::MAX, usize::MAX);
        }
        assert!(self.sent.is_empty());
        if !self.hub.counts_questions {
            // Work continues in each session.
            for session in self.editor.sessions.clone() {
                self.hub.say(&session, "last");
            }
            self.arrive(0, usize::MAX);
        }
    }

    fn check(&self) {
        let Editor { asked, prompts, sessions, answers, updates, replays, questions, seen, answered } =
            &self.editor;
        for id in 1..=*asked {
            let got = answers.get(&id).map_or(0, Vec::len);
            assert_eq!(got, 1, "answers to request {id}");
        }
        assert!(replays.is_empty());
        let mut run = self.hub.runs.clone();
        run.sort();
        let mut wanted = prompts.clone();
        wanted.sort();
        assert_eq!(run, wanted, "each prompt is run once");
        for session in sessions {
            let log = &self.hub.logs[session];
            let got = updates.get(session).cloned().unwrap_or_default();
            assert_eq!(got, log.updates, "the updates of {session}");
            let open: BTreeSet<String> =
                questions.values().filter(|name| name.starts_with(session)).cloned().collect();
            let wanted: BTreeSet<String> = log.open.iter().map(|name| format!("{session}: {name}")).collect();
            assert_eq!(open, wanted, "the open questions of {session}");
        }
        let once: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(once.len(), seen.len(), "a question was seen twice: {seen:?}");
        for (name, answer) in &self.hub.answers {
            if let Some(to) = answer["to"].as_str() {
                assert!(to.ends_with(&format!(": {name}")), "{answer} is no answer to {name}");
                assert!(answered.contains(to));
            }
        }
    }
}

impl Editor {
    fn take(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap();
        let params = &message["params"];
        let session = params["sessionId"].as_str().unwrap_or_default();
        match message["method"].as_str() {
            Some("session/update") => {
                // The state of a session that is reattached is not part of its log.
                let meta = &params["_meta"];
                let Some(cursor) =
                    meta["acp/cursor"].as_str().filter(|_| meta["switchboard/questions"].is_null())
                else {
                    return;
                };
                let known = self.updates.entry(session.to_owned()).or_default();
                if cursor == format!("{session}.1") && self.replays.values().any(|known| known == session) {
                    known.clear();
                }
                known.push(params["update"].clone());
                assert_eq!(cursor, format!("{session}.{}", known.len()), "in order");
            }
            Some("session/request_permission") => {
                let name = format!("{session}: {}", params["title"].as_str().unwrap());
                self.seen.push(name.clone());
                self.questions.insert(message["id"].as_i64().unwrap(), name);
            }
            Some("$/cancel_request") => {
                let id = params["requestId"].as_i64().unwrap();
                assert!(self.questions.remove(&id).is_some(), "{line} takes back what is not asked");
            }
            Some(other) => panic!("{other}"),
            None => {
                let id = message["id"].as_i64().unwrap();
                self.answers.entry(id).or_default().push(message["result"].clone());
                self.replays.remove(&id);
                if let Some(session) = message["result"]["sessionId"].as_str() {
                    self.sessions.push(session.to_owned());
                }
            }
        }
    }
}

/// `PROPTEST_CASES=100000` runs more cases.
#[test]
fn an_array_of_messages_is_refused_as_a_hub_refuses_it() {
    for line in ["[]", r#"[{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}]"#] {
        let mut client = ResumableClient::new(|| "operation".to_owned());
        client.handle(Side::Client, line);
        let Some(ResumableOutput::Line { to: Side::Client, line }) = client.drain().next() else {
            panic!("no answer")
        };
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)), "{answer}");
    }
}

fn cases() -> u32 {
    if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 400 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_update_arrives_once_and_in_order_despite_any_interruption(
        counts_questions: bool,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        go(counts_questions, &steps);
    }
}

fn go(counts_questions: bool, steps: &[Step]) {
    let mut world = World::new(counts_questions);
    world.connect(0);
    for step in steps {
        world.step(step);
    }
    world.settle();
    world.check();
}

/// A question that is asked on a resumed connection and cancelled is not repeated when the stream breaks
/// again.
#[test]
fn questions_before_the_state_end_unless_they_are_repeated() {
    use Step::{AgentAsks, Arrive, Connect, Cut, LoseStream, TurnEnds};
    let before = [Arrive(1, 1), Arrive(1, 0), AgentAsks(0), Arrive(0, 3), Cut, Connect(0)];
    let after = [AgentAsks(0), AgentAsks(0), TurnEnds(0), Arrive(1, 1), LoseStream(0)];
    go(true, &[&before[..], &after].concat());
}

/// A history whose response is lost is not sent twice: the second would be taken for the next one.
#[test]
fn a_history_whose_answer_is_lost_comes_once() {
    use Step::{AgentSays, Arrive, LoseAnswers, Prompt, Replay};
    let before = [Arrive(1, 1), Arrive(1, 1), Prompt(0), AgentSays(0), AgentSays(0), Arrive(1, 3), Replay(0)];
    let after = [AgentSays(0), LoseAnswers, Arrive(1, 2), Arrive(2, 8), Replay(0)];
    go(false, &[&before[..], &after].concat());
}
