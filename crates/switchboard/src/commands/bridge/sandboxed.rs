//! An agent in a sandbox, behind a bridge.
//!
//! A sandbox has one set of folders, and the client names them only when it opens a session. So the agent is started twice:
//! without any folder, to answer the handshake, and again for the first session, with the same handshake.

use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_acp::Wire;
use switchboard_acp::extensions::{META, V1_FILES, V1_TERMINALS};
use switchboard_acp::rpc::{Outline, RequestId, codes};
use switchboard_transport::{
    Child, ChildInput, ChildOutput, ConfinementNotice, DEFAULT_MESSAGE_LIMIT, Frame, LineReader, Program,
    Spawned,
};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::sandbox::notice_update;

/// Maximum number of lines that the agent may send before it answers the handshake.
const EARLY_LINES: usize = 1000;

/// The state of a sandboxed agent.
pub(super) struct SandboxedAgent {
    program: Program,
    /// The process that serves now.
    child: Child,
    notices: Option<mpsc::Receiver<ConfinementNotice>>,
    /// Notices that wait for a session.
    waiting: Vec<ConfinementNotice>,
    /// The handshake as the agent got it.
    handshake: Option<String>,
    /// The folders of the current process.
    roots: Option<Vec<PathBuf>>,
    /// The client's pending request that opens a session.
    opening: Option<RequestId<'static>>,
    /// The client's id of the last opened session.
    session: Option<String>,
    /// True if the client takes notices; otherwise they become messages.
    takes_notices: bool,
}

/// A process that has answered the handshake.
pub(super) struct StartedAgent {
    pub(super) child: Child,
    pub(super) input: ChildInput,
    pub(super) reader: LineReader<ChildOutput>,
}

/// Treatment of a line of the client.
pub(super) enum ForAgent {
    /// Forward it, perhaps changed.
    Forward(Option<String>),
    /// Start the agent in these folders first.
    Start(Vec<PathBuf>),
    /// Answer it with this line.
    Refuse(String),
}

/// Treatment of a message of the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FromAgent {
    /// Forward it.
    Pass,
    /// Answer it with this line.
    Answer(String),
    /// Neither forward nor answer it: it leads out, or cannot be understood, and has no usable id.
    Drop,
}

/// All entries of an object, also those with the same key.
struct Entries(Vec<(String, Value)>);

impl<'de> serde::Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collector;
        impl<'de> serde::de::Visitor<'de> for Collector {
            type Value = Entries;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: serde::de::MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collector)
    }
}

/// Returns an error response.
fn refusal(id: &RequestId<'_>, code: i32, message: &str) -> String {
    let id = serde_json::from_str::<Value>(&id.to_string()).unwrap_or(Value::Null);
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

impl SandboxedAgent {
    pub(super) fn new(program: Program, child: Child) -> Self {
        SandboxedAgent {
            notices: None,
            waiting: Vec::new(),
            program,
            child,
            handshake: None,
            roots: None,
            opening: None,
            session: None,
            takes_notices: false,
        }
    }

    /// Returns the process that serves now.
    pub(super) fn child(&self) -> &Child {
        &self.child
    }

    /// Inspects a line of the client.
    pub(super) fn look_at_client(&mut self, line: &str) -> ForAgent {
        let Some(Outline::Request { id, method }) = Outline::of(line) else { return ForAgent::Forward(None) };
        let opens = ["session/new", "session/load", "session/resume", "session/fork"].contains(&&*method);
        if method != "initialize" && !opens {
            return ForAgent::Forward(None);
        }
        let Ok(mut message) = serde_json::from_str::<Value>(line) else { return ForAgent::Forward(None) };
        if !opens {
            let notices = message.pointer("/params/clientCapabilities/session/notices");
            let is_version_2 = message.pointer("/params/protocolVersion").and_then(Value::as_u64) >= Some(2);
            self.takes_notices = is_version_2 || notices.is_some_and(Value::is_object);
            return ForAgent::Forward(without_services(&mut message).then(|| message.to_string()));
        }
        let id = id.into_owned();
        let roots = match roots_of(&message) {
            Ok(roots) => roots,
            Err(reason) => return ForAgent::Refuse(refusal(&id, codes::INVALID_PARAMS, &reason)),
        };
        self.opening = Some(id.clone());
        self.session = message.pointer("/params/sessionId").and_then(Value::as_str).map(str::to_owned);
        match &self.roots {
            None => ForAgent::Start(roots),
            Some(known) if *known == roots => ForAgent::Forward(None),
            Some(known) => {
                let known: Vec<String> = known.iter().map(|root| root.display().to_string()).collect();
                let message = format!(
                    "the sandbox of this agent has other folders ({}); start another `switchboard bridge` for this session",
                    known.join(", ")
                );
                ForAgent::Refuse(refusal(&id, codes::INTERNAL_ERROR, &message))
            }
        }
    }

    /// Keeps the handshake as the agent gets it.
    pub(super) fn note_for_agent(&mut self, line: &str) {
        if self.handshake.is_none()
            && matches!(Outline::of(line), Some(Outline::Request { method, .. }) if method == "initialize")
        {
            self.handshake = Some(line.to_owned());
        }
    }

    /// Inspects a message of the agent, which may ask for something that would lead out.
    pub(super) fn look_at_agent(line: &str) -> FromAgent {
        if SandboxedAgent::passes(line.as_bytes()) {
            return FromAgent::Pass;
        }
        // All entries: of two methods in one message, some clients take the first and some the last.
        let Ok(Entries(entries)) = serde_json::from_str::<Entries>(line) else { return FromAgent::Drop };
        let leads_out = entries.iter().any(|(key, value)| {
            key == "method"
                && value
                    .as_str()
                    .is_none_or(|method| method.starts_with("fs/") || method.starts_with("terminal/"))
        });
        if !leads_out {
            return FromAgent::Pass;
        }
        let reason = "the agent runs in a sandbox: it works with files and commands itself";
        let id = entries.into_iter().rev().find_map(|(key, id)| (key == "id").then_some(id));
        match id {
            Some(id @ (Value::String(_) | Value::Number(_))) => FromAgent::Answer(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": codes::METHOD_NOT_FOUND, "message": reason}})
                    .to_string(),
            ),
            _ => FromAgent::Drop,
        }
    }

    /// Returns whether a line of the agent needs no inspection.
    pub(super) fn passes(line: &[u8]) -> bool {
        let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        !(has(b"\"fs/") || has(b"\"terminal/") || has(b"fs\\/") || has(b"terminal\\/") || has(b"\\u00"))
    }

    /// Starts the agent again, in these folders. Returns its process after the handshake.
    pub(super) async fn start(&mut self, roots: Vec<PathBuf>) -> Result<StartedAgent, String> {
        let handshake = self.handshake.clone().ok_or("the client has not sent a handshake")?;
        let mut program = self.program.clone().roots(roots.clone());
        if let Some(first) = roots.first() {
            program = program.working_directory(first);
        }
        let spawning = tokio::task::spawn_blocking(move || program.spawn()).await;
        let spawned = spawning.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let Spawned { child, mut input, output } = spawned;
        let mut reader = LineReader::new(output, DEFAULT_MESSAGE_LIMIT);
        let failed = |error: std::io::Error| format!("the agent does not read its handshake: {error}");
        input.write_all(handshake.as_bytes()).await.map_err(failed)?;
        input.write_all(b"\n").await.map_err(failed)?;
        input.flush().await.map_err(failed)?;
        let wanted = match Outline::of(&handshake) {
            Some(Outline::Request { id, .. }) => id.into_owned(),
            _ => return Err("the handshake is not a request".to_owned()),
        };
        for _ in 0..EARLY_LINES {
            let Ok(Some(frame)) = reader.next().await else {
                let known = child.describe_end().await;
                let end = known.exit.map_or_else(|| "closed its output".to_owned(), |exit| exit.to_string());
                return Err(format!("the agent {} {end} in its sandbox", known.program));
            };
            if let Frame::Message(line) = frame
                && let Some(Outline::Response { id }) = Outline::of(&line)
                && id == wanted
            {
                self.child = child.clone();
                self.notices = child.confinement_notices();
                self.roots = Some(roots);
                return Ok(StartedAgent { child, input, reader });
            }
        }
        Err("the agent did not answer its handshake in the sandbox".to_owned())
    }

    /// Waits for the next notice. Never returns without any.
    pub(super) async fn next_notice(&mut self) {
        let notice = match &mut self.notices {
            Some(notices) => notices.recv().await,
            None => None,
        };
        match notice {
            Some(notice) => self.waiting.push(notice),
            None => std::future::pending().await,
        }
    }

    /// Inspects a line for the client, which may be the response with the id of a session.
    pub(super) fn note_for_client(&mut self, line: &str) {
        let Some(opening) = &self.opening else { return };
        let Some(Outline::Response { id }) = Outline::of(line) else { return };
        if id != *opening {
            return;
        }
        self.opening = None;
        let message = serde_json::from_str::<Value>(line).unwrap_or_default();
        if let Some(session) = message.pointer("/result/sessionId").and_then(Value::as_str) {
            self.session = Some(session.to_owned());
        }
    }

    /// Returns the updates for the client about everything that waits, once it knows a session.
    pub(super) fn updates(&mut self) -> Vec<String> {
        let Some(session) = self.session.clone().filter(|_| self.opening.is_none()) else {
            return Vec::new();
        };
        let takes_notices = self.takes_notices;
        let line = |notice: &ConfinementNotice| {
            let mut update = notice_update(notice);
            if !takes_notices {
                let mut text = notice.title.clone();
                if let Some(description) = &notice.description {
                    text = format!("{text}\n{description}");
                }
                let content = json!({"type": "text", "text": format!("[{text}]\n\n")});
                update =
                    json!({"sessionUpdate": "agent_message_chunk", "content": content, META: update[META]});
            }
            let params = json!({"sessionId": session, "update": update});
            json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
        };
        self.waiting.drain(..).map(|notice| line(&notice)).collect()
    }
}

/// Returns the folders that a request names.
fn roots_of(message: &Value) -> Result<Vec<PathBuf>, String> {
    let cwd = message.pointer("/params/cwd").and_then(Value::as_str).ok_or("the request has no cwd")?;
    let mut roots = vec![PathBuf::from(cwd)];
    match message.pointer("/params/additionalDirectories") {
        None | Some(Value::Null) => {}
        Some(Value::Array(more)) => {
            for folder in more {
                roots.push(folder.as_str().ok_or("additionalDirectories is not a list of paths")?.into());
            }
        }
        Some(_) => return Err("additionalDirectories is not a list of paths".to_owned()),
    }
    match roots.iter().find(|root| !root.is_absolute()) {
        Some(root) => Err(format!("{} is not an absolute path", root.display())),
        None => Ok(roots),
    }
}

/// Removes the client's files and commands from its handshake. Returns whether there were any.
fn without_services(message: &mut Value) -> bool {
    let mut is_changed = false;
    let mut remove = |pointer: &str, keys: &[&str]| {
        if let Some(Value::Object(object)) = message.pointer_mut(pointer) {
            for key in keys {
                is_changed |= object.remove(*key).is_some();
            }
        }
    };
    remove("/params/clientCapabilities", &["fs", "terminal"]);
    for capabilities in ["clientCapabilities", "capabilities"] {
        remove(
            &format!("/params/{capabilities}/{META}"),
            &[V1_FILES.name(), V1_TERMINALS.name(), "terminal_output"],
        );
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_not_offered_the_clients_files_and_commands() {
        let mut message = json!({"params": {"clientCapabilities": {
            "fs": {"readTextFile": true}, "terminal": true, "elicitation": {}}}});
        assert!(without_services(&mut message));
        assert_eq!(message, json!({"params": {"clientCapabilities": {"elicitation": {}}}}));
        assert!(!without_services(&mut message));
    }

    #[test]
    fn folders_are_absolute_paths() {
        let roots = |params: Value| roots_of(&json!({"params": params}));
        assert_eq!(
            roots(json!({"cwd": "/a", "additionalDirectories": ["/b"]})),
            Ok(vec!["/a".into(), "/b".into()])
        );
        assert_eq!(roots(json!({"cwd": "/a", "additionalDirectories": null})), Ok(vec!["/a".into()]));
        for odd in [
            json!({}),
            json!({"cwd": 1}),
            json!({"cwd": "a"}),
            json!({"cwd": "/a", "additionalDirectories": [1]}),
            json!({"cwd": "/a", "additionalDirectories": "/b"}),
            json!({"cwd": "/a", "additionalDirectories": ["b"]}),
        ] {
            assert!(roots(odd.clone()).is_err(), "{odd}");
        }
    }

    #[test]
    fn requests_that_lead_out_are_refused() {
        let request =
            |method: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{}}}}"#);
        for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "f\\u0073/x", "fs\\/x"] {
            let FromAgent::Answer(answer) = SandboxedAgent::look_at_agent(&request(method)) else {
                panic!("{method}")
            };
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32601)), "{method}");
        }
        for passes in ["session/request_permission", "session/update"] {
            assert_eq!(SandboxedAgent::look_at_agent(&request(passes)), FromAgent::Pass);
        }
        let about = r#"{"method":"session/update","params":{"path":"fs/x","note":"terminal/create"}}"#;
        assert_eq!(SandboxedAgent::look_at_agent(about), FromAgent::Pass);
    }

    #[test]
    fn a_request_that_leads_out_is_refused_in_any_disguise() {
        // Clients differ in what they make of these.
        for (line, has_answer) in [
            (r#"{"id":1,"method":"session/update","params":{},"method":"fs/write_text_file"}"#, true),
            (r#"{"id":1,"method":"fs/write_text_file","method":"session/update"}"#, true),
            (r#"{"id":1.5,"method":"fs/write_text_file"}"#, true),
            (r#"{"id":"x","id":2,"method":"terminal/create"}"#, true),
            (r#"{"id":true,"method":"fs/write_text_file"}"#, false),
            (r#"{"id":null,"method":"fs/write_text_file"}"#, false),
            (r#"{"method":"fs/write_text_file"}"#, false),
            (r#"{"id":1,"method":["fs/write_text_file"]}"#, true),
            (r#"{"id":"\ud800","method":"fs/write_text_file"}"#, false),
            (r#"{"id":1,"method":"fs/write_text_file""#, false),
        ] {
            match SandboxedAgent::look_at_agent(line) {
                FromAgent::Answer(_) => assert!(has_answer, "{line}"),
                FromAgent::Drop => assert!(!has_answer, "{line}"),
                FromAgent::Pass => panic!("{line}"),
            }
        }
    }
}
