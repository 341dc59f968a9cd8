//! Shared state of both translators: the peers' properties, and the output of lines and losses.

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
use crate::sessions::{RetainedSession, Sessions};
use crate::terminals_as_text::TerminalsAsText;
use crate::{BridgeOptions, Dialect, Error, Loss, LossReport, Moment, Side};

/// One output of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A message for one side, without the line end.
    Line {
        /// The receiver.
        to: Side,
        /// The message.
        line: String,
    },
    /// Information that could not be carried over.
    Loss(Loss),
}

/// Returns the metadata of an update unless only a hub wrote it. A hub marks every update with its cursor,
/// which is not part of the update, so dropping it is not a loss.
pub(crate) fn without_cursor(meta: Option<Meta<'_>>) -> Option<Meta<'_>> {
    meta.filter(|meta| meta.entries().any(|(key, _)| !extensions::is_connection_key(&key)))
}

/// State of a bridge that does not depend on the peers' versions. Owned by the active translator.
pub(crate) struct Context {
    pub(crate) options: BridgeOptions,
    pub(crate) peers: Peers,
    pub(crate) host: Box<dyn Host + Send>,
    pub(crate) output: Vec<Output>,
    pub(crate) losses: LossReport,
    pub(crate) now: Moment,
    /// Beginning of the variable part of every id that this bridge creates.
    pub(crate) salt: String,
    /// Number of messages that the bridge itself has added for the client.
    pub(crate) minted: u64,
    /// Bytes received since the retained state was last counted.
    pub(crate) received: usize,
    /// Length of the current line in bytes. Estimates the length of the lines it produces.
    pub(crate) at_hand: usize,
    /// Terminals shown to the client as text, because its dialect has none.
    pub(crate) terminals: TerminalsAsText,
    /// Metadata and unknown keys around the update that is being handled.
    extras: Option<Box<UpdateExtras>>,
    /// Native lines for the client of a hub.
    pub(crate) native: NativeLines,
    /// First loss under the strict policy: its session and description.
    pub(crate) strict_failure: Option<(Option<String>, String)>,
}

/// Content of an update notification outside the update itself: metadata and unknown keys of its parameters
/// and its envelope. It is attached to the first update that the notification is translated to.
#[derive(Debug, Default)]
struct UpdateExtras {
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
            extras: None,
            strict_failure: None,
        }
    }

    /// Returns whether enough bytes arrived since the last count that the retained state must be counted
    /// again.
    pub(crate) fn is_time_to_count(&mut self) -> bool {
        let is_time = self.received >= self.options.limits.total / 16;
        // Counting the state costs time in its size. Once per sixteenth of the limit keeps the sum linear in
        // the input, and the excess below a sixteenth.
        if is_time {
            self.received = 0;
        }
        is_time
    }

    /// Reports that state of a session was evicted.
    pub(crate) fn report_eviction(&mut self, session: &str, reason: String, severity: Severity) {
        self.report_loss(Some(session), "session", "", reason, severity, Side::Client);
    }

    /// Returns an empty line with capacity for the usual message. One received line may become many short
    /// ones.
    fn new_line(&self) -> String {
        String::with_capacity((self.at_hand + 64).clamp(192, 4096))
    }

    pub(crate) fn send(&mut self, to: Side, mut line: String) {
        // The only place where lines leave, so a translation can never overtake its original or be sent in
        // addition to it.
        if to == Side::Client
            && let Some(own) = self.native.original_for(&line)
        {
            line = own;
        }
        self.output.push(Output::Line { to, line });
    }

    /// Starts handling an update of a session.
    pub(crate) fn begin_update(
        &mut self,
        session: &str,
        meta: Option<Meta<'_>>,
        extra: Extra<'_>,
        envelope: &Extra<'_>,
    ) {
        if meta.is_some() || !extra.is_empty() || !envelope.is_empty() {
            self.extras = Some(Box::new(UpdateExtras {
                session: session.to_owned(),
                meta: meta.map(Wire::into_owned),
                extra: extra.into_owned(),
                envelope: envelope.clone().into_owned(),
            }));
        }
    }

    /// Finishes an update. Metadata around it that was attached to no update is reported as lost.
    pub(crate) fn end_update(&mut self) {
        let Some(extras) = self.extras.take() else { return };
        let UpdateExtras { session, meta, extra, envelope } = *extras;
        let meta = without_cursor(meta);
        let reason = "the update around it is not sent as an update of its own";
        for (root, rest) in [("/params", (meta.as_ref(), &extra)), ("", (None, &envelope))] {
            self.report_lost_rest(Some(&session), "session/update", root, rest, reason, Side::Client);
        }
    }

    /// Sends an update to a version 1 client.
    pub(crate) fn update_v1(&mut self, session: &str, update: v1::SessionUpdate<'_>) {
        // Taken by the first update even if it is suppressed: metadata around one update must not appear on
        // the next one.
        let UpdateExtras { session: _, meta, extra, envelope } =
            self.extras.take().map(|it| *it).unwrap_or_default();
        if self.native.suppresses_update(session) {
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

    /// Sends an update to a version 2 client, with terminals as text if its dialect has none.
    pub(crate) fn update_v2(&mut self, session: &str, mut update: v2::SessionUpdate<'_>) {
        // Before metadata is taken: a terminal may become several updates, of which the first one gets it.
        if self.peers.client_dialect == Some(Dialect::Spec)
            && let Some(instead) = self.replace_terminals(session, &mut update)
        {
            return instead.into_iter().for_each(|update| self.send_v2(session, update));
        }
        self.send_v2(session, update);
    }

    fn send_v2(&mut self, session: &str, update: v2::SessionUpdate<'_>) {
        let UpdateExtras { session: _, meta, extra, envelope } =
            self.extras.take().map(|it| *it).unwrap_or_default();
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

    /// Encodes a notification for one side.
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

    /// Forwards a notification unchanged.
    pub(crate) fn pass_notification(&mut self, to: Side, notification: &Notification<'_>) {
        let params = notification.params.clone().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        self.notify(to, &notification.method, &params, &notification.extra);
    }

    /// Forwards a notification of one side, except methods that are meaningless on the other side.
    pub(crate) fn forward_if_valid(&mut self, from: Side, notification: &Notification<'_>) {
        let reason = match &*notification.method {
            "session/update" | "elicitation/complete" if from == Side::Client => {
                "only agents may send this method"
            }
            method if method.starts_with("$/") => "valid only on its own connection",
            _ => return self.pass_notification(from.other(), notification),
        };
        self.report_loss(None, &notification.method, "", reason, Severity::Minor, from.other());
    }

    /// Sends the client's answer to a question of the agent. Returns whether the client chose an option.
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
        // Read tolerantly, but only an option that was offered counts as a choice.
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
            // An answer that cannot be read is never an approval.
            Err(error) => {
                let reason = format!("the answer cannot be read: {error}");
                self.report_loss(Some(session), method, "/result", reason, Severity::Major, Side::Agent);
                (permission::cancelled(), false)
            }
        };
        self.respond(Side::Agent, id, &answer, &response.extra);
        selected
    }

    /// Reads a cancellation of a request by one side.
    pub(crate) fn cancellation<'n>(
        &mut self,
        from: Side,
        notification: &'n Notification<'_>,
    ) -> Option<CancelRequestNotification<'n>> {
        match CancelRequestNotification::decode(notification.params_text(), WireFormat::Any) {
            Ok(params) => Some(params),
            Err(error) => {
                let reason = error.to_string();
                self.report_loss(
                    None,
                    &notification.method,
                    "/params",
                    reason,
                    Severity::Minor,
                    from.other(),
                );
                None
            }
        }
    }

    /// Cancels a request at the side that received it, using the id that it has there.
    pub(crate) fn cancel(
        &mut self,
        to: Side,
        id: RequestId<'_>,
        params: CancelRequestNotification<'_>,
        envelope: &Extra<'_>,
    ) {
        // The sender knows the request by another id.
        let CancelRequestNotification { request_id: _, meta, extra, more: _ } = params;
        let params = CancelRequestNotification { request_id: id, meta, extra, more: switchboard_acp::More };
        self.notify(to, "$/cancel_request", &params, envelope);
    }

    /// Handles a cancellation of a request that no longer exists. That is not a loss, but its metadata is.
    pub(crate) fn report_late_cancellation(
        &mut self,
        from: Side,
        params: &CancelRequestNotification<'_>,
        envelope: &Extra<'_>,
    ) {
        let reason = "the cancelled request is no longer pending";
        for (root, rest) in [("/params", (params.meta.as_ref(), &params.extra)), ("", (None, envelope))] {
            self.report_lost_rest(None, "$/cancel_request", root, rest, reason, from.other());
        }
    }

    /// Reports that a queued prompt was never sent to the agent.
    pub(crate) fn report_unsent_prompt(&mut self, session: &str) {
        let reason = "the queued prompt was never sent";
        self.report_loss(Some(session), "session/prompt", "", reason, Severity::Minor, Side::Agent);
    }

    /// Replaces program names of stdio MCP servers by absolute paths, which version 2 requires, if the host
    /// finds them. The conversion reports the others.
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

    /// Reports a response of one side that no pending request matches.
    pub(crate) fn report_unmatched_response(&mut self, from: Side, response: &Response<'_>) {
        let reason = "no pending request has this id";
        self.report_loss(None, "answer", "", reason, Severity::Minor, from.other());
        let has_meta = response.outcome.as_ref().is_ok_and(|result| result.get("_meta").is_some());
        if has_meta {
            let reason = "the answer that it belongs to has no counterpart in the other version";
            self.report_loss(None, "answer", "/result/_meta", reason, Severity::Minor, from.other());
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

    /// Responds with an empty result.
    pub(crate) fn done(&mut self, to: Side, id: &RequestId<'_>) {
        self.respond(to, id, &v2::EmptyResponse::new(), &Extra::new());
    }

    pub(crate) fn fail(&mut self, to: Side, id: &RequestId<'_>, error: RpcError<'_>) {
        self.pass_answer(to, id, Response { id: RequestId::Null, outcome: Err(error), extra: Extra::new() });
    }

    pub(crate) fn refuse(&mut self, to: Side, id: &RequestId<'_>, code: i32, message: impl Into<String>) {
        self.fail(to, id, RpcError::new(code, message.into()));
    }

    /// Responds to a line that cannot be decoded if it has an id; reports it as a loss otherwise.
    fn refuse_line(&mut self, from: Side, line: &str, error: &DecodeError) {
        let raw = Raw::parse(line);
        let key = |name: &str| raw.as_ref().ok().and_then(|raw| raw.get(name));
        if let Some(method) = key("method") {
            // An id obliges to respond. Without one, the sender would never know, so it becomes a loss.
            if let Some(id) = key("id")
                .and_then(|id| RequestId::decode(id.as_str(), WireFormat::Any).map(Wire::into_owned).ok())
            {
                return self.refuse(from, &id, codes::INVALID_REQUEST, error.to_string());
            }
            let method = method.as_text().map_or_else(|| "message".to_owned(), std::borrow::Cow::into_owned);
            let session = session_of(key("params").as_ref());
            let (session, reason) = (session.as_deref(), error.to_string());
            return self.report_loss(session, &method, "/params", reason, Severity::Major, from.other());
        }
        if key("result").is_some() || key("error").is_some() {
            return self.report_loss(None, "answer", "", error.to_string(), Severity::Major, from.other());
        }
        let code = if error.is_syntax() { codes::PARSE_ERROR } else { codes::INVALID_REQUEST };
        self.refuse(from, &RequestId::Null, code, error.to_string());
    }

    /// Refuses a request because the limit of pending requests is reached.
    pub(crate) fn refuse_full(&mut self, to: Side, id: &RequestId<'_>) {
        self.refuse(to, id, codes::INTERNAL_ERROR, "too many pending requests; wait for responses");
    }

    /// Returns whether a prompt can be sent to the agent now. If not, it was queued or refused.
    pub(crate) fn admits<S: RetainedSession, P>(
        &mut self,
        request: &Request<'_>,
        session: &str,
        sessions: &mut Sessions<S>,
        to_agent: &Calls<P>,
    ) -> bool {
        // Checked before the session is opened: opening would evict another one, although the prompt is
        // refused.
        if sessions.is_full_for(session) {
            let limit = self.options.limits.sessions;
            let message =
                format!("{limit} sessions are busy, which is the limit; wait until one of them is idle");
            self.refuse(Side::Client, &request.id, codes::INTERNAL_ERROR, message);
            return false;
        }
        // A busy session queues the prompt, within the limit for requests, because a queued prompt is a
        // pending request of the client.
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

    /// Tells a version 2 client that the work in a session ended with an error. A dialect without errors in
    /// states gets the error text as a message.
    pub(crate) fn idle_with_error(&mut self, session: &str, error: &RpcError<'static>) {
        // The text precedes the state: clients stop reading the turn at `idle`.
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

    /// Returns the wire format for decoding messages of a side.
    fn reading(&self, from: Side) -> WireFormat {
        if self.peers.old == Some(from) { WireFormat::V1 } else { WireFormat::Any }
    }

    /// Decodes a line of the agent, most of which are updates.
    pub(crate) fn expect_update<'l, T: Params<'l>>(
        &mut self,
        line: &'l str,
    ) -> Option<(Expected<'l, T>, Vec<Diagnostic>)> {
        match Expected::decode_tolerant(line, self.reading(Side::Agent)) {
            Ok(expected) => Some(expected),
            // Decode the envelope alone, so that an error in the parameters is reported with its session.
            Err(_) => Some((Expected::Other(self.message(Side::Agent, line)?), Vec::new())),
        }
    }

    /// Decodes a line of either side.
    pub(crate) fn message<'l>(&mut self, from: Side, line: &'l str) -> Option<Message<'l>> {
        let message = Message::decode(line, WireFormat::Any);
        message.map_err(|error| self.refuse_line(from, line, &error)).ok()
    }

    /// Decodes the parameters of an update whose envelope has an unusual key order or extra keys.
    pub(crate) fn update_params<'n, T: Wire<'n>>(
        &mut self,
        notification: &'n Notification<'_>,
    ) -> Option<(T, Vec<Diagnostic>)> {
        let decoded = T::decode_tolerant(notification.params_text(), self.reading(Side::Agent));
        decoded
            .map_err(|error| {
                let session = session_of(notification.params.as_ref());
                let (session, reason) = (session.as_deref(), error.to_string());
                self.report_loss(
                    session,
                    &notification.method,
                    "/params",
                    reason,
                    Severity::Major,
                    Side::Client,
                );
            })
            .ok()
    }

    /// Decodes the parameters of a request and reports malformed parts that were left out.
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

    /// Decodes the result of an agent's response. If there is none, the client gets the error as the response
    /// to its request.
    pub(crate) fn result<'r, T: Wire<'r>>(
        &mut self,
        id: &RequestId<'_>,
        method: &str,
        response: &'r Response<'_>,
    ) -> Option<T> {
        let format = self.reading(Side::Agent);
        let decoded = match &response.outcome {
            // Some agents send `null` for an empty result.
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
                self.report_loss(None, method, "", error.to_string(), Severity::Major, Side::Client);
                self.refuse(Side::Client, id, codes::INTERNAL_ERROR, error.to_string());
                None
            }
        }
    }

    /// Reports malformed parts below `root`: those that were left out, and those that break a rule but were
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
            self.report_loss(session, message, &pointer, reason, severity, toward);
        }
    }

    /// Forwards a response unchanged.
    pub(crate) fn pass_answer(&mut self, to: Side, id: &RequestId<'_>, response: Response<'_>) {
        let Response { id: _, outcome, extra } = response;
        let response = Message::Response(Response { id: id.clone(), outcome, extra });
        self.send(to, response.encode(self.peers.format(to)));
    }

    /// Converts the value at `root` of a message and reports the losses.
    pub(crate) fn convert<T>(
        &mut self,
        session: Option<&str>,
        message: &str,
        root: &str,
        toward: Side,
        convert: impl FnOnce(&mut Conversion<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // Losses are collected and reported after the conversion, also if it fails: what was left out before
        // the failure is lost as well.
        let mut losses = Losses::noted();
        let converted = convert(&mut losses.at(message, root));
        self.note(session, message, losses, toward);
        converted
    }

    /// Converts like [`convert`](Context::convert), with access to files below the session's roots.
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
            // The host checks links as well; this check keeps it from being asked about foreign paths at all.
            if is_inside(path, roots) { host.file(path, roots) } else { FileAtHand::Unknown }
        };
        let converted = convert(&mut file, &mut losses.at(message, root));
        self.note(Some(session), message, losses, Side::Client);
        converted
    }

    /// Converts an update for the client. An update that cannot be converted is reported as lost.
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
                self.report_loss(Some(session), tag, "/params/update", reason, Severity::Major, Side::Client);
                None
            }
        }
    }

    /// Reports metadata and unknown keys at `root` of a message as lost.
    pub(crate) fn report_lost_rest(
        &mut self,
        session: Option<&str>,
        message: &str,
        root: &str,
        (meta, extra): (Option<&Meta<'_>>, &Extra<'_>),
        reason: &str,
        toward: Side,
    ) {
        // A noted loss does not fail.
        let _: Result<(), Error> =
            self.convert(session, message, root, toward, |cx| cx.report_lost_rest(meta, extra, reason));
    }

    /// Reports a loss; `pointer` is its location in the original message.
    pub(crate) fn report_loss(
        &mut self,
        session: Option<&str>,
        message: &str,
        pointer: &str,
        reason: impl Into<String>,
        severity: Severity,
        toward: Side,
    ) {
        debug_assert!(pointer.is_empty() || pointer.starts_with('/'), "a JSON pointer: {pointer}");
        // Updates that are withheld from the client cannot lose anything.
        if toward == Side::Client && self.native.suppresses_loss(session) {
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
        // Counted before the policy is applied: the report contains losses that end a turn.
        self.losses.add(&loss);
        if severity != Severity::Guess
            && self.options.policy == crate::LossPolicy::Strict
            && self.strict_failure.is_none()
        {
            self.strict_failure = Some((loss.session.clone(), loss.to_string()));
        }
        self.output.push(Output::Loss(loss));
    }

    /// Reports the losses of a message's conversions.
    pub(crate) fn note(&mut self, session: Option<&str>, message: &str, losses: Losses, toward: Side) {
        for note in losses.entries {
            self.report_loss(session, message, &note.pointer, note.reason, note.severity, toward);
        }
    }
}

impl Default for Context {
    /// Returns the context of a bridge without known peers and without a host.
    fn default() -> Self {
        Context::new(BridgeOptions::default(), Box::new(NoHost))
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Clones a request that is handled later.
pub(crate) fn kept(request: &Request<'_>) -> Request<'static> {
    let Request { id, method, params, extra } = request.clone();
    let (id, params, extra) = (id.into_owned(), params.map(Raw::into_owned), extra.into_owned());
    Request { id, method: Wire::into_owned(method), params, extra }
}

/// Returns the session id in the parameters of a message.
pub(crate) fn session_of(params: Option<&Raw<'_>>) -> Option<String> {
    params?.text("sessionId")
}
