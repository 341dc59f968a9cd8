//! The agent of a recording without I/O: lines of a client in, lines for it out.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acp::rpc::{Message, Notification, Request, RequestId, Response, RpcError, codes};
use switchboard_acp::{Correlator, Raw, Side, Wire, WireFormat};
use switchboard_session::{prompt_title, prompt_title_in};

use crate::script::{Action, RecordedAnswer, Script, SessionScript, update_line, wants_history};

/// Maximum number of pending questions; above it, the oldest are dropped.
const MAX_OPEN: usize = 10_000;

/// Error for requests beyond the recording.
const NO_MORE: &str = "the recording ends here; it has no more turns";

/// A recorded agent that plays its script to a client. Times are durations since it was started.
pub struct Player {
    script: Script,
    version: u16,
    /// Speed factor; `None`: without pauses.
    speed: Option<f64>,
    playing: Vec<SessionProgress>,
    ready: VecDeque<String>,
    /// Pending questions to the client.
    questions: Correlator<(usize, usize)>,
    asked: i64,
}

/// Progress of a session.
#[derive(Default)]
struct SessionProgress {
    place: usize,
    due: Duration,
    is_open: bool,
    /// Set if the client requested a new session and does not have its id yet.
    is_new: bool,
    opening: Option<RequestId<'static>>,
    prompts: VecDeque<RequestId<'static>>,
    /// The client's ids of pending requests.
    requests: HashMap<usize, RequestId<'static>>,
    answered: HashSet<usize>,
    /// The ids of the asked questions.
    questions: HashMap<usize, RequestId<'static>>,
    /// Set if the agent has reported that it is running.
    is_running: bool,
    is_deleted: bool,
}

impl Player {
    /// Plays a script in the version of the recorded agent. `speed` is a factor; without it there are no pauses.
    pub fn new(script: Script, version: u16, speed: Option<f64>) -> Self {
        let playing = script.sessions.iter().map(|_| SessionProgress::default()).collect();
        let (ready, questions) = (VecDeque::new(), Correlator::new(MAX_OPEN));
        Player { script, version, speed, playing, ready, questions, asked: 0 }
    }

    /// Takes a line from the client.
    pub fn take(&mut self, line: &str, now: Duration) {
        match Message::decode(line, WireFormat::Any).map(Wire::into_owned) {
            Ok(Message::Request(request)) => self.request(request, now),
            Ok(Message::Notification(notification)) => self.notification(&notification),
            Ok(Message::Response(response)) => self.response(&response),
            Err(error) => {
                let code = if error.is_syntax() { codes::PARSE_ERROR } else { codes::INVALID_REQUEST };
                self.refuse(RequestId::Null, code, &error.to_string());
            }
        }
    }

    /// Returns the next line for the client that is due.
    pub fn next(&mut self, now: Duration) -> Option<String> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            let due = (0..self.playing.len())
                .filter(|&session| self.can_move(session) && self.playing[session].due <= now)
                .min_by_key(|&session| self.playing[session].due)?;
            self.step(due, now);
        }
    }

    /// Returns when the next line is due; `None` until the client sends something.
    pub fn next_due(&self) -> Option<Duration> {
        let moving = (0..self.playing.len()).filter(|&session| self.can_move(session));
        moving.map(|session| self.playing[session].due).min()
    }

    /// Returns whether a session only waits for its time.
    fn can_move(&self, session: usize) -> bool {
        let playing = &self.playing[session];
        match self.script.sessions[session].steps.get(playing.place).map(|step| &step.action) {
            // A client that prompts without opening the session again already has it open.
            Some(Action::AwaitOpening { .. }) => {
                playing.opening.is_some() || (playing.is_open && !playing.prompts.is_empty())
            }
            Some(Action::AwaitPrompt { .. }) => !playing.prompts.is_empty(),
            Some(Action::AwaitAnswer { question, .. }) => {
                playing.answered.contains(question) || !playing.questions.contains_key(question)
            }
            Some(_) => true,
            None => !playing.prompts.is_empty() || !playing.requests.is_empty() || playing.is_running,
        }
    }

    fn step(&mut self, session: usize, now: Duration) {
        let playing = &mut self.playing[session];
        let steps = &self.script.sessions[session].steps;
        let Some(step) = steps.get(playing.place) else { return self.at_the_end(session) };
        match &step.action {
            Action::AwaitOpening { request, .. } => {
                if let Some(id) = playing.opening.take() {
                    playing.requests.insert(*request, id);
                    playing.is_open = true;
                }
                playing.due = now;
            }
            Action::AwaitPrompt { request, .. } => {
                if let Some(id) = playing.prompts.pop_front() {
                    playing.requests.insert(*request, id);
                }
                playing.due = now;
            }
            Action::AwaitAnswer { .. } => playing.due = now,
            Action::Answer { request, outcome } => {
                if let Some(id) = playing.requests.remove(request) {
                    let is_opening = std::mem::take(&mut playing.is_new);
                    let session = &self.script.sessions[session].id;
                    self.ready.push_back(match outcome {
                        // A session that was loaded in the recording is new now.
                        Ok(result) if is_opening && result.get("sessionId").is_none() => {
                            let mut result = result.to_value();
                            result["sessionId"] = Value::from(session.as_str());
                            answer(id, Ok(result.into()))
                        }
                        outcome => answer(id, outcome.clone()),
                    });
                }
            }
            Action::Notify(notification) => {
                let is_own = self.script.sessions[session].is_own(notification);
                if let Some(state) = state(notification).filter(|_| is_own) {
                    playing.is_running = state != "idle";
                }
                self.ready.push_back(Message::Notification(notification.clone()).encode(WireFormat::Any));
            }
            Action::Ask { question, request } => {
                self.asked += 1;
                let id = RequestId::Number(self.asked);
                drop(self.questions.open_or_evict(Side::Agent, &id, (session, *question)));
                playing.questions.insert(*question, id.clone());
                let request = Request { id, ..request.clone() };
                self.ready.push_back(Message::Request(request).encode(WireFormat::Any));
            }
            Action::Withdraw { question } => {
                if let Some(id) =
                    playing.questions.get(question).filter(|id| self.questions.contains(Side::Agent, id))
                {
                    let id = id.encode(WireFormat::Any);
                    self.ready.push_back(format!(
                        r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
                    ));
                }
            }
        }
        playing.place += 1;
        let pause = steps.get(playing.place).map_or(Duration::ZERO, |step| step.pause);
        playing.due += match self.speed {
            Some(speed) => Duration::try_from_secs_f64(pause.as_secs_f64() / speed).unwrap_or(Duration::MAX),
            None => Duration::ZERO,
        };
    }

    /// Ends requests that were not recorded.
    fn at_the_end(&mut self, session: usize) {
        let playing = &mut self.playing[session];
        let waiting: Vec<_> =
            playing.requests.drain().map(|(_, id)| id).chain(playing.prompts.drain(..)).collect();
        let was_running = std::mem::take(&mut playing.is_running);
        if was_running && self.version != 1 {
            let error = json!({"code": codes::INTERNAL_ERROR, "message": NO_MORE});
            self.say_state(session, &json!({"state": "idle", "stopReason": "error", "error": error}));
        }
        for id in waiting {
            self.refuse(id, codes::INTERNAL_ERROR, NO_MORE);
        }
    }

    fn request(&mut self, request: Request<'static>, now: Duration) {
        let params = request.params.as_ref();
        let text = |key: &str| params?.text(key);
        let named = text("sessionId");
        let session = named.as_ref().and_then(|id| self.script.sessions.iter().position(|s| s.id == *id));
        let session = session.filter(|session| !self.playing[*session].is_deleted);
        match (&*request.method, session) {
            ("initialize", _) => {
                let introduction =
                    self.script.introduction.clone().unwrap_or_else(|| Ok(introduction(self.version)));
                self.ready.push_back(answer(request.id, introduction));
                let greetings = std::mem::take(&mut self.script.greetings);
                let greetings = greetings.into_iter().map(Message::Notification);
                self.ready.extend(greetings.map(|greeting| greeting.encode(WireFormat::Any)));
            }
            ("session/new", _) => {
                let unopened =
                    self.playing.iter().position(|playing| !playing.is_open && playing.opening.is_none());
                match (unopened, self.recorded_answer("session/new")) {
                    (Some(session), _) => {
                        self.playing[session].is_new = true;
                        self.open(session, request.id, now);
                    }
                    // A recorded refusal.
                    (None, Some(outcome)) => self.ready.push_back(answer(request.id, outcome)),
                    (None, None) => {
                        let message = "the recording has no more sessions";
                        self.refuse(request.id, codes::INTERNAL_ERROR, message);
                    }
                }
            }
            ("session/list", _) => {
                let cwd = text("cwd");
                let there = self.script.sessions.iter().zip(&self.playing);
                let there = there.filter(|(_, playing)| !playing.is_deleted);
                let sessions: Vec<Value> =
                    there.filter_map(|(session, _)| listed(session, cwd.as_deref())).collect();
                self.ready.push_back(answer(request.id, Ok(json!({ "sessions": sessions }).into())));
            }
            ("session/load" | "session/resume", Some(session)) => {
                let is_replayed = wants_history(&request);
                let playing = &self.playing[session];
                let steps = &self.script.sessions[session].steps;
                // As recorded if possible; otherwise like an agent that keeps its sessions.
                let was_new = steps.iter().find_map(|step| match &step.action {
                    Action::Answer { outcome, .. } => {
                        Some(outcome.as_ref().is_ok_and(|result| result.get("sessionId").is_some()))
                    }
                    _ => None,
                });
                let is_recorded = matches!(
                    steps.get(playing.place).map(|step| &step.action),
                    Some(Action::AwaitOpening { .. }) if playing.place > 0 || was_new == Some(false)
                );
                if is_recorded {
                    self.open(session, request.id, now);
                } else {
                    self.remember(session, request.id, is_replayed);
                }
            }
            ("session/prompt", Some(session)) => {
                let playing = &mut self.playing[session];
                playing.due = playing.due.max(now);
                playing.prompts.push_back(request.id);
            }
            // Clients close sessions even if the recorded one did not.
            ("session/close", Some(session)) => {
                self.cancel(session);
                self.ready.push_back(answer(request.id, Ok(json!({}).into())));
            }
            // Advertised methods work, even if they were not used in the recording.
            ("session/delete", _) if self.can_delete() => {
                if let Some(session) = session {
                    self.cancel(session);
                    self.playing[session].is_deleted = true;
                }
                self.ready.push_back(answer(request.id, Ok(json!({}).into())));
            }
            ("session/load" | "session/resume" | "session/prompt", None) => {
                let message = format!("the recording has no session {}", named.unwrap_or_default());
                self.refuse(request.id, codes::RESOURCE_NOT_FOUND, &message);
            }
            (method, _) => match self.recorded_answer(method) {
                Some(outcome) => self.ready.push_back(answer(request.id, outcome)),
                None => {
                    let message = format!("the recording has no answer to {method}");
                    self.refuse(request.id, codes::METHOD_NOT_FOUND, &message);
                }
            },
        }
    }

    /// Returns whether the recorded agent supports deleting sessions.
    fn can_delete(&self) -> bool {
        let Some(Ok(introduction)) = &self.script.introduction else { return false };
        let introduction = introduction.to_value();
        ["/agentCapabilities/sessionCapabilities/delete", "/capabilities/session/delete"]
            .iter()
            .any(|pointer| introduction.pointer(pointer).is_some_and(Value::is_object))
    }

    /// Returns the recorded response to a method; the last one is reused.
    fn recorded_answer(&mut self, method: &str) -> Option<RecordedAnswer> {
        let answers = self.script.answers.get_mut(method)?;
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
    }

    fn open(&mut self, session: usize, id: RequestId<'static>, now: Duration) {
        let playing = &mut self.playing[session];
        playing.opening = Some(id);
        playing.due = playing.due.max(now);
    }

    /// Opens a session again: one that was played up to now, or one whose whole recording counts as history.
    fn remember(&mut self, session: usize, id: RequestId<'static>, is_replayed: bool) {
        let playing = &mut self.playing[session];
        let script = &self.script.sessions[session];
        if !playing.is_open {
            *playing =
                SessionProgress { is_open: true, place: script.steps.len(), ..SessionProgress::default() };
        }
        let is_running = playing.is_running;
        if is_replayed {
            self.ready.extend(script.history_until(playing.place, self.version, true));
        }
        if self.version != 1 {
            self.say_state(session, &json!({"state": if is_running { "running" } else { "idle" }}));
        }
        self.ready.push_back(answer(id, Ok(json!({}).into())));
    }

    fn notification(&mut self, notification: &Notification<'_>) {
        if notification.method != "session/cancel" {
            return;
        }
        let id = notification.params.as_ref().and_then(|params| params.text("sessionId"));
        let Some(session) = self.script.sessions.iter().position(|session| Some(&session.id) == id.as_ref())
        else {
            return;
        };
        self.cancel(session);
    }

    /// Skips the rest of a turn.
    fn cancel(&mut self, session: usize) {
        let playing = &mut self.playing[session];
        let steps = &self.script.sessions[session].steps;
        let is_busy = playing.is_running || !playing.requests.is_empty();
        if !is_busy {
            return;
        }
        let rest = &steps[playing.place.min(steps.len())..];
        let left_out = rest.iter().take_while(|step| !step.action.is_gate());
        let mut answers = Vec::new();
        for step in left_out {
            playing.place += 1;
            if let Action::Answer { request, outcome } = &step.action
                && let Some(id) = playing.requests.remove(request)
            {
                answers.push((id, outcome.clone()));
            }
        }
        let was_running = std::mem::take(&mut playing.is_running);
        for (id, recorded) in answers {
            let cancelled = Ok(json!({"stopReason": "cancelled"}).into());
            self.ready.push_back(answer(id, if self.version == 1 { cancelled } else { recorded }));
        }
        if was_running && self.version != 1 {
            self.say_state(session, &json!({"state": "idle", "stopReason": "cancelled"}));
        }
    }

    fn response(&mut self, response: &Response<'static>) {
        if let Some((session, question)) = self.questions.answered(Side::Client, &response.id) {
            self.playing[session].answered.insert(question);
        }
    }

    fn refuse(&mut self, id: RequestId<'static>, code: i32, message: &str) {
        self.ready.push_back(answer(id, Err(RpcError::new(code, message.to_owned()))));
    }

    fn say_state(&mut self, session: usize, state: &Value) {
        let mut update = json!({"sessionUpdate": "state_update"});
        if let (Some(update), Some(state)) = (update.as_object_mut(), state.as_object()) {
            update.extend(state.clone());
        }
        let id = &self.script.sessions[session].id;
        self.ready.push_back(update_line(id, &update));
    }
}

fn answer(id: RequestId<'static>, outcome: RecordedAnswer) -> String {
    Message::response(id, outcome).encode(WireFormat::Any)
}

/// Returns a handshake response for recordings without one.
fn introduction(version: u16) -> Raw<'static> {
    let info = json!({"name": "recording", "version": env!("CARGO_PKG_VERSION")});
    let introduction = if version == 1 {
        json!({"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {}, "authMethods": []})
    } else {
        json!({"protocolVersion": 2, "info": info, "capabilities": {"session": {}}})
    };
    introduction.into()
}

/// Returns the state in an update.
fn state(notification: &Notification<'_>) -> Option<String> {
    let update = notification.params.as_ref()?.get("update")?;
    if update.text("sessionUpdate")? == "state_update" { update.text("state") } else { None }
}

/// Returns a session for the list; `None` for another folder or without a prompt.
fn listed(session: &SessionScript, cwd: Option<&str>) -> Option<Value> {
    let own = session.cwd.as_deref().unwrap_or("/");
    let title = session.steps.iter().find_map(|step| match &step.action {
        Action::AwaitPrompt { prompt, .. } => Some(prompt.as_ref().and_then(prompt_title)),
        // A session that was opened again begins with its earlier prompts.
        Action::Notify(notification) if session.is_own(notification) => {
            prompt_title_in(&Message::Notification(notification.clone())).map(|(_, title)| Some(title))
        }
        _ => None,
    })?;
    let mut info = json!({"sessionId": session.id, "cwd": own});
    if let Some(title) = title {
        info["title"] = title.into();
    }
    cwd.is_none_or(|cwd| cwd == own).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptReader;
    use switchboard_store::{Channel, Moment, parse_line};

    fn script() -> Script {
        let mut reader = ScriptReader::default();
        for line in [
            r#"{"t":0,"dir":"client->agent","msg":{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/p"}}}"#,
            r#"{"t":2,"dir":"agent->client","msg":{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}}"#,
            r#"{"t":60,"dir":"client->agent","msg":{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}}"#,
            r#"{"t":61,"dir":"agent->client","msg":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"running"}}}}"#,
            r#"{"t":64,"dir":"agent->client","msg":{"jsonrpc":"2.0","id":2,"result":{}}}"#,
        ] {
            let record = parse_line(line, Moment(0)).unwrap().unwrap();
            assert!(matches!(record.channel, Channel::ToAgent | Channel::ToClient));
            reader.take(&record);
        }
        reader.finish()
    }

    #[test]
    fn the_agents_pauses_are_kept_and_the_clients_are_not() {
        let at = Duration::from_secs;
        let mut player = Player::new(script(), 2, Some(2.0));
        assert_eq!((player.next(at(5)), player.next_due()), (None, None));
        player.take(r#"{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":"/q"}}"#, at(10));
        assert_eq!((player.next(at(10)), player.next_due()), (None, Some(at(11))));
        assert_eq!(
            player.next(at(11)).as_deref(),
            Some(r#"{"jsonrpc":"2.0","id":"n","result":{"sessionId":"s"}}"#)
        );
        assert_eq!((player.next(at(50)), player.next_due()), (None, None));
        let prompt =
            r#"{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
        player.take(prompt, at(100));
        assert_eq!(player.next(at(100)), None);
        assert_eq!(player.next_due(), Some(Duration::from_millis(100_500)));
        assert!(player.next(at(101)).unwrap().contains("running"));
        assert_eq!(player.next_due(), Some(at(102)));
        assert_eq!(player.next(at(102)).as_deref(), Some(r#"{"jsonrpc":"2.0","id":"p","result":{}}"#));
        // The recording was cut in the middle of the turn.
        assert!(player.next(at(102)).unwrap().contains(r#""stopReason":"error""#));
        player.take(prompt, at(103));
        assert!(player.next(at(103)).unwrap().contains(NO_MORE));
        assert_eq!((player.next(at(103)), player.next_due()), (None, None));
    }

    /// Returns the messages for a client that repeats the recorded one: each session's notifications, and the
    /// number of responses.
    fn played(messages: &[(bool, Message<'static>)]) -> (Vec<String>, usize) {
        let mut reader = ScriptReader::default();
        for (from_agent, message) in messages {
            let channel = if *from_agent { Channel::ToClient } else { Channel::ToAgent };
            reader.take(&switchboard_store::Record::new(channel, message.encode(WireFormat::Any)));
        }
        let mut player = Player::new(reader.finish(), 1, None);
        let (mut said, mut answers) = (Vec::new(), 0);
        for (_, message) in messages.iter().filter(|(from_agent, _)| !from_agent) {
            let Message::Request(request) = message else { continue };
            player.take(&Message::Request(request.clone()).encode(WireFormat::Any), Duration::ZERO);
            while let Some(line) = player.next(Duration::ZERO) {
                match Message::decode(&line, WireFormat::Any).unwrap() {
                    Message::Notification(_) => said.push(line),
                    Message::Response(response) => answers += usize::from(response.id == request.id),
                    Message::Request(question) => {
                        let id = question.id.into_owned();
                        player.take(&answer(id, Ok(json!({}).into())), Duration::ZERO);
                    }
                }
            }
        }
        (said, answers)
    }

    #[test]
    fn real_recordings_are_played_as_they_were() {
        for recording in switchboard_testkit::recordings() {
            let messages: Vec<(bool, Message<'static>)> = recording
                .lines
                .iter()
                .filter_map(|line| {
                    let message = Message::decode(&line.message, WireFormat::Any).ok()?.into_owned();
                    Some((line.from_agent, message))
                })
                .collect();
            let session = |line: &str| {
                let value: Value = serde_json::from_str(line).unwrap();
                value["params"]["sessionId"].as_str().unwrap_or_default().to_owned()
            };
            let by_session = |lines: Vec<String>| {
                let mut lines: Vec<_> = lines.into_iter().map(|line| (session(&line), line)).collect();
                lines.sort_by(|left, right| left.0.cmp(&right.0));
                lines
            };
            let mut recorded = Vec::new();
            for (_, message) in messages.iter().filter(|(from_agent, _)| *from_agent) {
                if let Message::Notification(notification) = message
                    && notification.method != "$/cancel_request"
                {
                    recorded.push(message.encode(WireFormat::Any));
                }
            }
            let (said, answers) = played(&messages);
            let asked = messages
                .iter()
                .filter(|(from_agent, message)| !from_agent && matches!(message, Message::Request(_)));
            assert_eq!(by_session(said), by_session(recorded), "{}", recording.name);
            assert!(answers <= asked.count() && answers > 0, "{}", recording.name);
        }
    }
}
