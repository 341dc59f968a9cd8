//! Terminals of the client in a recording of version 1. The agent asks the client to run commands, and the output is in the
//! client's answers to `terminal/output`. Version 2 has no such requests: there, updates tell of terminals. The updates are
//! made here, of the requests and the answers that were recorded.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use switchboard_acp::rpc::{Message, Request, RequestId, Response};
use switchboard_acp::{Base64, Extra, Field, Raw, Text, Wire, WireFormat, v1, v2};

use crate::Side;
use crate::context::session_of;

/// How many requests and terminals are remembered. Beyond that they are treated as any other request.
const MOST: usize = 10_000;

/// What is remembered of the terminals of a recording.
#[derive(Debug, Default)]
pub(crate) struct RecordedTerminals {
    asked: HashMap<RequestId<'static>, Asked>,
    /// A hash of the output that was told last, by session and terminal.
    told: HashMap<(String, String), u64>,
}

/// A request of the agent that the client has not answered yet.
#[derive(Debug)]
struct Asked {
    session: String,
    method: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Create(Box<v1::CreateTerminalRequest<'static>>),
    Output(String),
    Exit(String),
    /// Its answer says nothing.
    Other,
}

/// What comes of a message about terminals.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// What to tell, and in which session.
    pub(crate) update: Option<(String, v2::TerminalUpdate<'static>)>,
    /// What version 2 cannot say: the place in the message, and why.
    pub(crate) losses: Vec<(String, &'static str)>,
    /// The method of the request.
    pub(crate) method: String,
}

/// Why keys that nobody knows are left out.
const BESIDE: &str = "version 2 has no such message, and no place for what it says beside";

impl Told {
    fn of(method: &str) -> Self {
        Told { method: method.to_owned(), ..Told::default() }
    }

    /// Reports the keys of an object that are not among those that are read.
    fn lose_unknown(&mut self, root: &str, object: &Raw<'_>, known: &[&str]) {
        for (key, _) in object.entries().filter(|(key, _)| !known.contains(&&**key)) {
            self.lose_key(root, &key);
        }
    }

    /// Reports the keys beside those of the envelope.
    fn lose_envelope(&mut self, extra: &Extra<'_>) {
        for (key, _) in extra.iter() {
            self.lose_key("", key);
        }
    }

    fn lose_key(&mut self, root: &str, key: &str) {
        let key = key.replace('~', "~0").replace('/', "~1");
        self.losses.push((format!("{root}/{key}"), BESIDE));
    }
}

/// What is read of an exit status.
const EXIT: [&str; 2] = ["exitCode", "signal"];

impl RecordedTerminals {
    /// Takes a message that is about a terminal of the client; `None` for all others.
    pub(crate) fn take(&mut self, from: Side, message: &Message<'_>) -> Option<Told> {
        match message {
            Message::Request(request) if from == Side::Agent => self.request(request),
            Message::Response(response) if from == Side::Client => {
                let asked = self.asked.remove(&response.id.clone().into_owned())?;
                Some(self.answer(asked, response))
            }
            _ => None,
        }
    }

    fn request(&mut self, request: &Request<'_>) -> Option<Told> {
        let params = request.params.as_ref()?;
        let session = session_of(Some(params))?;
        let terminal = params.text("terminalId");
        let mut told = Told::of(&request.method);
        let kind = match &*request.method {
            "terminal/create" => {
                let create = v1::CreateTerminalRequest::decode(params.as_str(), WireFormat::V1).ok()?;
                let reason = "a terminal of version 2 does not tell it";
                let mut lose = |is_there: bool, pointer: &str| {
                    if is_there {
                        told.losses.push((pointer.to_owned(), reason));
                    }
                };
                lose(create.env.as_ref().is_some_and(|env| !env.is_empty()), "/params/env");
                lose(create.output_byte_limit.is_some(), "/params/outputByteLimit");
                Kind::Create(Box::new(create.into_owned()))
            }
            "terminal/output" => Kind::Output(terminal?),
            "terminal/wait_for_exit" => Kind::Exit(terminal?),
            "terminal/kill" | "terminal/release" => Kind::Other,
            _ => return None,
        };
        if self.asked.len() >= MOST {
            return None;
        }
        let create = ["sessionId", "command", "args", "cwd", "env", "outputByteLimit"];
        let known = if matches!(kind, Kind::Create(_)) { &create[..] } else { &["sessionId", "terminalId"] };
        told.lose_unknown("/params", params, known);
        told.lose_envelope(&request.extra);
        let method = told.method.clone();
        self.asked.insert(request.id.clone().into_owned(), Asked { session, method, kind });
        Some(told)
    }

    fn answer(&mut self, Asked { session, method, kind }: Asked, response: &Response<'_>) -> Told {
        let mut told = Told::of(&method);
        told.lose_envelope(&response.extra);
        let Ok(result) = &response.outcome else {
            // There is no terminal, or nothing is told of it.
            told.losses.push(("/error".to_owned(), "version 2 has no such request, and so no refusal of it"));
            return told;
        };
        let known: &[&str] = match &kind {
            Kind::Create(_) => &["terminalId"],
            Kind::Output(_) => &["output", "truncated", "exitStatus"],
            Kind::Exit(_) => &EXIT,
            Kind::Other => &[],
        };
        told.lose_unknown("/result", result, known);
        if let (Kind::Output(_), Some(exit)) = (&kind, result.get("exitStatus")) {
            told.lose_unknown("/result/exitStatus", &exit, &EXIT);
        }
        let update = match kind {
            Kind::Create(create) => result.text("terminalId").map(|id| {
                let mut update = v2::TerminalUpdate::new(id);
                let words =
                    std::iter::once(&create.command).chain(create.args.iter().flatten()).map(|word| &**word);
                update.command = Field::Set(Text::Owned(words.collect::<Vec<_>>().join(" ")));
                update.cwd = create.cwd.map_or(Field::Keep, Field::Set);
                update
            }),
            Kind::Output(id) => match v1::TerminalOutputResponse::decode(result.as_str(), WireFormat::V1) {
                Ok(answer) => {
                    if answer.truncated {
                        let reason = "the client has kept only the end of the output";
                        told.losses.push(("/result/truncated".to_owned(), reason));
                    }
                    self.output(&session, id, answer)
                }
                Err(_) => None,
            },
            Kind::Exit(id) => {
                v1::TerminalExitStatus::decode(result.as_str(), WireFormat::V1).ok().map(|exit| {
                    let mut update = v2::TerminalUpdate::new(id);
                    update.exit_status = Field::Set(exit_status(exit));
                    update
                })
            }
            Kind::Other => None,
        };
        told.update = update.map(|update| (session, update));
        told
    }

    /// The output as a whole, unless it is what was told last.
    fn output(
        &mut self,
        session: &str,
        id: String,
        answer: v1::TerminalOutputResponse<'_>,
    ) -> Option<v2::TerminalUpdate<'static>> {
        let mut hasher = DefaultHasher::new();
        answer.output.hash(&mut hasher);
        let hash = hasher.finish();
        let key = (session.to_owned(), id.clone());
        let is_new = self.told.get(&key) != Some(&hash);
        if self.told.len() < MOST || self.told.contains_key(&key) {
            self.told.insert(key, hash);
        }
        if !is_new && answer.exit_status.is_none() {
            return None;
        }
        let mut update = v2::TerminalUpdate::new(id);
        if is_new {
            let output = v2::TerminalOutput::new(Base64::from_bytes(answer.output.as_bytes()));
            update.output = Field::Set(output);
        }
        if let Some(exit) = answer.exit_status {
            update.exit_status = Field::Set(exit_status(exit));
        }
        Some(update.into_owned())
    }
}

fn exit_status(exit: v1::TerminalExitStatus<'_>) -> v2::TerminalExitStatus<'static> {
    let mut status = v2::TerminalExitStatus::new();
    status.exit_code = exit.exit_code.map(i64::from);
    status.signal = exit.signal.map(|signal| Text::Owned(signal.into_owned()));
    status
}
