//! What every machine works with: what is known of the peers, and where lines for them and losses go.

use switchboard_acp::rpc::{
    CancelRequestNotification, Expected, Message, Notification, Params, Request, RequestId, Response,
    RpcError, codes, encode_answer, encode_call,
};
use switchboard_acp::{
    AbsolutePath, DecodeError, Diagnostic, Extra, Meta, Raw, Text, Wire, WireFormat, extensions, v1, v2,
};
use switchboard_diff::FileAtHand;

use crate::calls::Calls;
use crate::convert::{Conversion, Losses, permission};
use crate::host::{Host, NoHost, is_inside};
use crate::loss::{Severity, element_of};
use crate::native::NativeLines;
use crate::peers::Peers;
use crate::sessions::{Remember, Sessions};
use crate::terminals_as_text::TerminalsAsText;
use crate::{BridgeOptions, Dialect, Error, Loss, LossReport, Moment, Side};

/// Something that comes out of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A message for one side, without its line end.
    Line {
        /// Who gets it.
        to: Side,
        /// The message.
        line: String,
    },
    /// Something that could not be carried over.
    Loss(Loss),
}

/// Returns the metadata of an update unless only a hub wrote it. A hub marks every update with its cursor, which says
/// nothing about the update: dropping it loses nothing.
pub(crate) fn without_cursor(meta: Option<Meta<'_>>) -> Option<Meta<'_>> {
    meta.filter(|meta| meta.entries().any(|(key, _)| !extensions::is_connection_key(&key)))
}

/// What a bridge has whatever its peers speak. The machine that is at work owns it.
pub(crate) struct Context {
    pub(crate) options: BridgeOptions,
    pub(crate) peers: Peers,
    pub(crate) host: Box<dyn Host + Send>,
    pub(crate) output: Vec<Output>,
    pub(crate) losses: LossReport,
    pub(crate) now: Moment,
    /// The beginning of the variable part of every id that is made here.
    pub(crate) salt: String,
    /// How many messages of the bridge's own the client has been shown.
    pub(crate) minted: u64,
    /// Bytes that have come since what is held was counted.
    pub(crate) received: usize,
    /// How long the line is that is handled: what is said because of it is about as long.
    pub(crate) at_hand: usize,
    /// Terminals that the client is shown as text, because its dialect has none.
    pub(crate) terminals: TerminalsAsText,
    /// What the update that is being handled says beside the update itself.
    beside: Option<Box<Beside>>,
    /// What the client of a hub gets in the agent's own words.
    pub(crate) native: NativeLines,
    /// A loss under the strict policy: the session that it happened in, and what it was.
    pub(crate) strict_failure: Option<(Option<String>, String)>,
}

/// What a notification of an update says beside the update itself: metadata and unknown keys of its parameters and of its
/// envelope. They go with the first update that it becomes.
#[derive(Debug, Default)]
struct Beside {
    session: String,
    meta: Option<Meta<'static>>,
    extra: Extra<'static>,
    envelope: Extra<'static>,
}

impl Context {
    pub(crate) fn new(options: BridgeOptions, host: Box<dyn Host + Send>) -> Self {
        Context {
            peers: Peers::new(&options),
            salt: options.salt(),
            options,
            host,
            output: Vec::new(),
            losses: LossReport::default(),
            now: Moment::default(),
            minted: 0,
            received: 0,
            at_hand: 0,
            native: NativeLines::default(),
            terminals: TerminalsAsText::default(),
            beside: None,
            strict_failure: None,
        }
    }

    /// Whether so much has come since the last time that what is held is to be counted.
    pub(crate) fn is_time_to_count(&mut self) -> bool {
        let is_time = self.received >= self.options.limits.total / 16;
        if is_time {
            self.received = 0;
        }
        is_time
    }

    /// Something of a session is forgotten because too much was to be remembered.
    pub(crate) fn lose_from_memory(&mut self, session: &str, reason: String, severity: Severity) {
        self.lose(Some(session), "session", "", reason, severity, Side::Client);
    }

    /// A line to be written, with room for what most need. One that comes in may become many short ones.
    fn new_line(&self) -> String {
        String::with_capacity((self.at_hand + 64).clamp(192, 4096))
    }

    pub(crate) fn send(&mut self, to: Side, mut line: String) {
        if to == Side::Client
            && let Some(own) = self.native.in_place_of(&line)
        {
            line = own;
        }
        self.output.push(Output::Line { to, line });
    }

    /// An update of a session begins to be handled.
    pub(crate) fn begin_update(
        &mut self,
        session: &str,
        meta: Option<Meta<'_>>,
        extra: Extra<'_>,
        envelope: &Extra<'_>,
    ) {
        if meta.is_some() || !extra.is_empty() || !envelope.is_empty() {
            self.beside = Some(Box::new(Beside {
                session: session.to_owned(),
                meta: meta.map(Wire::into_owned),
                extra: extra.into_owned(),
                envelope: envelope.clone().into_owned(),
            }));
        }
    }

    /// It is handled. What was said beside it and went with nothing is lost.
    pub(crate) fn end_update(&mut self) {
        let Some(beside) = self.beside.take() else { return };
        let Beside { session, meta, extra, envelope } = *beside;
        let meta = without_cursor(meta);
        let reason = "the update that it stood beside is told in no update of its own";
        for (root, rest) in [("/params", (meta.as_ref(), &extra)), ("", (None, &envelope))] {
            self.lose_rest(Some(&session), "session/update", root, rest, reason, Side::Client);
        }
    }

    /// Tells a client of version 1 of something new in a session.
    pub(crate) fn update_v1(&mut self, session: &str, update: v1::SessionUpdate<'_>) {
        let Beside { session: _, meta, extra, envelope } =
            self.beside.take().map(|it| *it).unwrap_or_default();
        if self.native.withholds_updates(session) {
            return;
        }
        let params = v1::SessionNotification {
            session_id: Text::Borrowed(session),
            update,
            meta,
            extra,
            more: switchboard_acp::More,
        };
        self.notify(Side::Client, "session/update", &params, &envelope);
    }

    /// Tells a client of version 2 of something new in a session, by text where its dialect has no terminals.
    pub(crate) fn update_v2(&mut self, session: &str, mut update: v2::SessionUpdate<'_>) {
        if self.peers.client_dialect == Some(Dialect::Spec)
            && let Some(instead) = self.replace_terminals(session, &mut update)
        {
            return instead.into_iter().for_each(|update| self.send_v2(session, update));
        }
        self.send_v2(session, update);
    }

    fn send_v2(&mut self, session: &str, update: v2::SessionUpdate<'_>) {
        let Beside { session: _, meta, extra, envelope } =
            self.beside.take().map(|it| *it).unwrap_or_default();
        let params = v2::UpdateSessionNotification {
            session_id: Text::Borrowed(session),
            update,
            meta,
            extra,
            more: switchboard_acp::More,
        };
        self.notify(Side::Client, "session/update", &params, &envelope);
    }

    pub(crate) fn notify<'a>(
        &mut self,
        to: Side,
        method: &str,
        params: &impl Wire<'a>,
        envelope: &Extra<'_>,
    ) {
        let line = self.call_line(to, method, params, envelope);
        self.send(to, line);
    }

    /// A notification as it is written for one side.
    pub(crate) fn call_line<'a>(
        &self,
        to: Side,
        method: &str,
        params: &impl Wire<'a>,
        envelope: &Extra<'_>,
    ) -> String {
        let mut line = self.new_line();
        encode_call(None, method, params, envelope, &mut line, self.peers.format(to));
        line
    }

    /// Passes a notification on as it came.
    pub(crate) fn pass_notification(&mut self, to: Side, notification: &Notification<'_>) {
        let params = notification.params.clone().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        self.notify(to, &notification.method, &params, &notification.extra);
    }

    /// Passes a notification of one side on, but for those that mean nothing on the other.
    pub(crate) fn pass_unless_odd(&mut self, from: Side, notification: &Notification<'_>) {
        let reason = match &*notification.method {
            "session/update" | "elicitation/complete" if from == Side::Client => "only agents say that",
            method if method.starts_with("$/") => "means something on its own connection only",
            _ => return self.pass_notification(from.other(), notification),
        };
        self.lose(None, &notification.method, "", reason, Severity::Minor, from.other());
    }

    /// Answers a question of the agent as the client has. Whether that chose something.
    pub(crate) fn answer_question(
        &mut self,
        id: &RequestId<'_>,
        session: &str,
        offered: &[String],
        response: Response<'_>,
    ) -> bool {
        let method = "session/request_permission";
        let Ok(result) = &response.outcome else {
            self.pass_answer(Side::Agent, id, response);
            return false;
        };
        let decoded =
            v2::RequestPermissionResponse::decode_tolerant(result.as_str(), self.reading(Side::Client));
        let (answer, selected) = match decoded {
            Ok((answer, left_out)) => {
                self.report_left_out(Some(session), method, "/result", &left_out, Side::Agent);
                self.convert(Some(session), method, "/result", Side::Agent, |cx| {
                    permission::answer(answer, offered, cx)
                })
                .unwrap_or_else(|_| (permission::cancelled(), false))
            }
            // Whatever it was, it was no approval.
            Err(error) => {
                let reason = format!("an answer that is none: {error}");
                self.lose(Some(session), method, "/result", reason, Severity::Major, Side::Agent);
                (permission::cancelled(), false)
            }
        };
        self.respond(Side::Agent, id, &answer, &response.extra);
        selected
    }

    /// What one side takes back.
    pub(crate) fn cancellation<'n>(
        &mut self,
        from: Side,
        notification: &'n Notification<'_>,
    ) -> Option<CancelRequestNotification<'n>> {
        match CancelRequestNotification::decode(notification.params_text(), WireFormat::Any) {
            Ok(params) => Some(params),
            Err(error) => {
                let reason = error.to_string();
                self.lose(None, &notification.method, "/params", reason, Severity::Minor, from.other());
                None
            }
        }
    }

    /// Takes back a request from the side that it was made of, as that side knows it.
    pub(crate) fn cancel(
        &mut self,
        to: Side,
        id: RequestId<'_>,
        params: CancelRequestNotification<'_>,
        envelope: &Extra<'_>,
    ) {
        // The sender knows it by another id.
        let CancelRequestNotification { request_id: _, meta, extra, more: _ } = params;
        let params = CancelRequestNotification { request_id: id, meta, extra, more: switchboard_acp::More };
        self.notify(to, "$/cancel_request", &params, envelope);
    }

    /// What one side takes back is not there any more, which is no loss; what it says beside that is.
    pub(crate) fn lose_cancellation(
        &mut self,
        from: Side,
        params: &CancelRequestNotification<'_>,
        envelope: &Extra<'_>,
    ) {
        let reason = "the request that is taken back is not open any more";
        for (root, rest) in [("/params", (params.meta.as_ref(), &params.extra)), ("", (None, envelope))] {
            self.lose_rest(None, "$/cancel_request", root, rest, reason, from.other());
        }
    }

    /// A prompt is not told to the agent, because its turn never came.
    pub(crate) fn lose_waiting_prompt(&mut self, session: &str) {
        let reason = "its turn never came";
        self.lose(Some(session), "session/prompt", "", reason, Severity::Minor, Side::Agent);
    }

    /// Replaces the names of programs that start MCP servers by their paths, which version 2 wants, where the host finds
    /// them. The others are reported by the conversion.
    pub(crate) fn resolve_programs(&mut self, servers: &mut [v1::McpServer<'_>]) {
        for server in servers {
            if let v1::McpServer::Stdio(server) = server
                && !server.command.contains(['/', '\\'])
                && let Some(path) = self.host.find_program(&server.command)
                && AbsolutePath::is_absolute(&*path)
            {
                server.command = Text::Owned(path);
            }
        }
    }

    /// One side answers what it was not asked, or not any more.
    pub(crate) fn lose_late_answer(&mut self, from: Side, response: &Response<'_>) {
        let reason = "nobody waits for it, or not any more";
        self.lose(None, "answer", "", reason, Severity::Minor, from.other());
        let has_meta = response.outcome.as_ref().is_ok_and(|result| result.get("_meta").is_some());
        if has_meta {
            let reason = "the answer that it belongs to has no counterpart in the other version";
            self.lose(None, "answer", "/result/_meta", reason, Severity::Minor, from.other());
        }
    }

    pub(crate) fn request<'a>(
        &mut self,
        to: Side,
        id: &RequestId<'_>,
        method: &str,
        params: &impl Wire<'a>,
        envelope: &Extra<'_>,
    ) {
        let mut line = self.new_line();
        encode_call(Some(id), method, params, envelope, &mut line, self.peers.format(to));
        self.send(to, line);
    }

    pub(crate) fn respond<'a>(
        &mut self,
        to: Side,
        id: &RequestId<'_>,
        result: &impl Wire<'a>,
        envelope: &Extra<'_>,
    ) {
        let mut line = self.new_line();
        encode_answer(id, result, envelope, &mut line, self.peers.format(to));
        self.send(to, line);
    }

    /// Answers with nothing but that it was done.
    pub(crate) fn done(&mut self, to: Side, id: &RequestId<'_>) {
        self.respond(to, id, &v2::EmptyResponse::new(), &Extra::new());
    }

    pub(crate) fn fail(&mut self, to: Side, id: &RequestId<'_>, error: RpcError<'_>) {
        self.pass_answer(to, id, Response { id: RequestId::Null, outcome: Err(error), extra: Extra::new() });
    }

    pub(crate) fn refuse(&mut self, to: Side, id: &RequestId<'_>, code: i32, message: impl Into<String>) {
        self.fail(to, id, RpcError::new(code, message.into()));
    }

    /// Answers a line that cannot be read, where there is somebody to answer.
    fn refuse_line(&mut self, from: Side, line: &str, error: &DecodeError) {
        let raw = Raw::parse(line);
        let key = |name: &str| raw.as_ref().ok().and_then(|raw| raw.get(name));
        if let Some(method) = key("method") {
            if let Some(id) = key("id")
                .and_then(|id| RequestId::decode(id.as_str(), WireFormat::Any).map(Wire::into_owned).ok())
            {
                return self.refuse(from, &id, codes::INVALID_REQUEST, error.to_string());
            }
            let method = method.as_text().map_or_else(|| "message".to_owned(), std::borrow::Cow::into_owned);
            let session = session_of(key("params").as_ref());
            let (session, reason) = (session.as_deref(), error.to_string());
            return self.lose(session, &method, "/params", reason, Severity::Major, from.other());
        }
        if key("result").is_some() || key("error").is_some() {
            return self.lose(None, "answer", "", error.to_string(), Severity::Major, from.other());
        }
        let code = if error.is_syntax() { codes::PARSE_ERROR } else { codes::INVALID_REQUEST };
        self.refuse(from, &RequestId::Null, code, error.to_string());
    }

    /// Refuses a request because too many are open.
    pub(crate) fn refuse_full(&mut self, to: Side, id: &RequestId<'_>) {
        self.refuse(to, id, codes::INTERNAL_ERROR, "too many requests are open");
    }

    /// Whether a prompt can go to the agent now. If not, it waits for its turn, or was refused.
    pub(crate) fn admits<S: Remember, P>(
        &mut self,
        request: &Request<'_>,
        session: &str,
        sessions: &mut Sessions<S>,
        to_agent: &Calls<P>,
    ) -> bool {
        if sessions.is_full_for(session) {
            let limit = self.options.limits.sessions;
            let message = format!(
                "there is work in {limit} sessions, as many as there may be: wait until one of them rests"
            );
            self.refuse(Side::Client, &request.id, codes::INTERNAL_ERROR, message);
            return false;
        }
        let waiting = sessions.open(session).waiting();
        let is_full = to_agent.is_full()
            || waiting.as_ref().is_some_and(|waiting| waiting.len() >= self.options.limits.requests);
        match waiting {
            _ if is_full => self.refuse_full(Side::Client, &request.id),
            Some(waiting) => waiting.push_back(kept(request)),
            None => return true,
        }
        false
    }

    /// Tells a client of version 2 that the work in a session has ended with an error. A dialect whose states have no
    /// place for the error gets its words as a message.
    pub(crate) fn rest_with_error(&mut self, session: &str, error: &RpcError<'static>) {
        if self.peers.client_dialect == Some(Dialect::Spec) {
            self.minted += 1;
            let words = v2::ContentBlock::text(format!("[{}]", error.message));
            let chunk = v2::ContentChunk::new(format!("b-notice-{}{}", self.salt, self.minted), words);
            let update = v2::SessionUpdate::AgentMessageChunk(chunk);
            self.update_v2(session, update);
        }
        let mut idle = v2::IdleState::new();
        idle.stop_reason = Some(v2::StopReason::Error);
        idle.error = Some(Box::new(error.clone()));
        let update = v2::SessionUpdate::StateUpdate(Box::new(v2::StateUpdate::Idle(idle)));
        self.update_v2(session, update);
    }

    /// How to read what a side says.
    fn reading(&self, from: Side) -> WireFormat {
        if self.peers.old == Some(from) { WireFormat::V1 } else { WireFormat::Any }
    }

    /// Reads a line of the agent, most of which are updates.
    pub(crate) fn expect_update<'l, T: Params<'l>>(
        &mut self,
        line: &'l str,
    ) -> Option<(Expected<'l, T>, Vec<Diagnostic>)> {
        match Expected::decode_tolerant(line, self.reading(Side::Agent)) {
            Ok(expected) => Some(expected),
            // Where only the parameters are at fault, it is told whose they are.
            Err(_) => Some((Expected::Other(self.message(Side::Agent, line)?), Vec::new())),
        }
    }

    /// Reads a line of either side.
    pub(crate) fn message<'l>(&mut self, from: Side, line: &'l str) -> Option<Message<'l>> {
        let message = Message::decode(line, WireFormat::Any);
        message.map_err(|error| self.refuse_line(from, line, &error)).ok()
    }

    /// The parameters of an update whose envelope is not in the usual order, or holds more.
    pub(crate) fn update_params<'n, T: Wire<'n>>(
        &mut self,
        notification: &'n Notification<'_>,
    ) -> Option<(T, Vec<Diagnostic>)> {
        let decoded = T::decode_tolerant(notification.params_text(), self.reading(Side::Agent));
        decoded
            .map_err(|error| {
                let session = session_of(notification.params.as_ref());
                let (session, reason) = (session.as_deref(), error.to_string());
                self.lose(session, &notification.method, "/params", reason, Severity::Major, Side::Client);
            })
            .ok()
    }

    /// The parameters of a request; what is malformed and left out is reported.
    pub(crate) fn params<'r, T: Wire<'r>>(
        &mut self,
        from: Side,
        request: &'r Request<'_>,
    ) -> Result<T, Error> {
        let (params, left_out) = T::decode_tolerant(request.params_text(), self.reading(from))?;
        if !left_out.is_empty() {
            let session = session_of(request.params.as_ref());
            self.report_left_out(session.as_deref(), &request.method, "/params", &left_out, from.other());
        }
        Ok(params)
    }

    /// The result in an answer of the agent. Where there is none, the client, whose request it was, is told.
    pub(crate) fn result<'r, T: Wire<'r>>(
        &mut self,
        id: &RequestId<'_>,
        method: &str,
        response: &'r Response<'_>,
    ) -> Option<T> {
        let format = self.reading(Side::Agent);
        let decoded = match &response.outcome {
            // Some agents have nothing to say and say it.
            Ok(result) if result.as_str() == "null" => T::decode_tolerant("{}", format),
            Ok(result) => T::decode_tolerant(result.as_str(), format),
            Err(_) => {
                self.pass_answer(Side::Client, id, response.clone());
                return None;
            }
        };
        match decoded {
            Ok((result, left_out)) => {
                self.report_left_out(None, method, "/result", &left_out, Side::Client);
                Some(result)
            }
            Err(error) => {
                self.lose(None, method, "", error.to_string(), Severity::Major, Side::Client);
                self.refuse(Side::Client, id, codes::INTERNAL_ERROR, error.to_string());
                None
            }
        }
    }

    /// Reports what was malformed of what stands at `root`: what was left out for that, and what breaks a rule but was
    /// kept.
    pub(crate) fn report_left_out(
        &mut self,
        session: Option<&str>,
        message: &str,
        root: &str,
        left_out: &[Diagnostic],
        toward: Side,
    ) {
        for diagnostic in left_out {
            let (what, severity) = if diagnostic.kept {
                ("malformed, kept", Severity::Guess)
            } else {
                ("malformed, left out", Severity::Major)
            };
            let reason = format!("{what}: {}", diagnostic.message());
            let pointer = format!("{root}{}", diagnostic.pointer);
            self.lose(session, message, &pointer, reason, severity, toward);
        }
    }

    /// Passes an answer on as it came.
    pub(crate) fn pass_answer(&mut self, to: Side, id: &RequestId<'_>, response: Response<'_>) {
        let Response { id: _, outcome, extra } = response;
        let response = Message::Response(Response { id: id.clone(), outcome, extra });
        self.send(to, response.encode(self.peers.format(to)));
    }

    /// Converts what stands at `root` of a message, and reports what that loses.
    pub(crate) fn convert<T>(
        &mut self,
        session: Option<&str>,
        message: &str,
        root: &str,
        toward: Side,
        convert: impl FnOnce(&mut Conversion<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut losses = Losses::noted();
        let converted = convert(&mut losses.at(message, root));
        self.note(session, message, losses, toward);
        converted
    }

    /// The same for something of a session for the client that may need a look at files.
    pub(crate) fn convert_with_files<T>(
        &mut self,
        session: &str,
        (message, root): (&str, &str),
        roots: &[String],
        convert: impl FnOnce(&mut dyn FnMut(&str) -> FileAtHand<'static>, &mut Conversion<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut losses = Losses::noted();
        let host = &mut self.host;
        let mut file = |path: &str| {
            if is_inside(path, roots) { host.file(path, roots) } else { FileAtHand::Unknown }
        };
        let converted = convert(&mut file, &mut losses.at(message, root));
        self.note(Some(session), message, losses, Side::Client);
        converted
    }

    /// Converts an update for the client. One that cannot be converted is lost as a whole.
    pub(crate) fn convert_update<T>(
        &mut self,
        session: &str,
        tag: &str,
        convert: impl FnOnce(&mut Conversion<'_>) -> Result<T, Error>,
    ) -> Option<T> {
        match self.convert(Some(session), tag, "/params/update", Side::Client, convert) {
            Ok(converted) => Some(converted),
            Err(error) => {
                let reason = error.to_string();
                self.lose(Some(session), tag, "/params/update", reason, Severity::Major, Side::Client);
                None
            }
        }
    }

    /// Reports metadata and unknown keys of what stands at `root` of a message that the other side does not get.
    pub(crate) fn lose_rest(
        &mut self,
        session: Option<&str>,
        message: &str,
        root: &str,
        (meta, extra): (Option<&Meta<'_>>, &Extra<'_>),
        reason: &str,
        toward: Side,
    ) {
        // What is noted does not fail.
        let _: Result<(), Error> =
            self.convert(session, message, root, toward, |cx| cx.lose_rest(meta, extra, reason));
    }

    /// Reports what could not be carried over; `pointer` is where it stood in the message.
    pub(crate) fn lose(
        &mut self,
        session: Option<&str>,
        message: &str,
        pointer: &str,
        reason: impl Into<String>,
        severity: Severity,
        toward: Side,
    ) {
        debug_assert!(pointer.is_empty() || pointer.starts_with('/'), "a JSON pointer: {pointer}");
        // What the client is not told by the translation cannot be lost in it.
        if toward == Side::Client && self.native.withholds_losses(session) {
            return;
        }
        let loss = Loss {
            session: session.map(ToOwned::to_owned),
            message: message.to_owned(),
            element: element_of(pointer),
            pointer: pointer.to_owned(),
            reason: reason.into(),
            severity,
            toward,
        };
        self.losses.add(&loss);
        if severity != Severity::Guess
            && self.options.policy == crate::LossPolicy::Strict
            && self.strict_failure.is_none()
        {
            self.strict_failure = Some((loss.session.clone(), loss.to_string()));
        }
        self.output.push(Output::Loss(loss));
    }

    /// Reports what conversions of a message lost.
    pub(crate) fn note(&mut self, session: Option<&str>, message: &str, losses: Losses, toward: Side) {
        for note in losses.entries {
            self.lose(session, message, &note.pointer, note.reason, note.severity, toward);
        }
    }
}

impl Default for Context {
    /// That of a bridge of which nothing is known, with nobody to serve it.
    fn default() -> Self {
        Context::new(BridgeOptions::default(), Box::new(NoHost))
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A request that is to be handled later.
pub(crate) fn kept(request: &Request<'_>) -> Request<'static> {
    let Request { id, method, params, extra } = request.clone();
    let (id, params, extra) = (id.into_owned(), params.map(Raw::into_owned), extra.into_owned());
    Request { id, method: Wire::into_owned(method), params, extra }
}

/// The session that parameters are about.
pub(crate) fn session_of(params: Option<&Raw<'_>>) -> Option<String> {
    params?.text("sessionId")
}
