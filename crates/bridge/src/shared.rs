//! What all translations write to: lines for either side, and losses.

use switchboard_protocol::rpc::{Message, Request, RequestId, Response, RpcError, codes};
use switchboard_protocol::{Diagnostic, Raw, Text, Wire, WireFormat, v2};

use crate::host::Host;
use crate::loss::{Note, Severity};
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

/// What is known of the peers: what the options say, and what they themselves have shown since.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peers {
    pub(crate) client_dialect: Option<Dialect>,
    pub(crate) agent_dialect: Option<Dialect>,
    /// Whether a version 1 client shows terminals of the agent that it is told of in metadata.
    pub(crate) client_displays: bool,
}

impl Peers {
    pub(crate) fn new(options: &BridgeOptions) -> Self {
        Peers {
            client_dialect: options.client_dialect,
            agent_dialect: options.agent_dialect,
            client_displays: false,
        }
    }

    /// Takes notice of what only clients of the newest dialect say.
    pub(crate) fn learn_from_client(&mut self, request: &Request<'_>) {
        if self.client_dialect.is_some() {
            return;
        }
        let is_newest = match &*request.method {
            "initialize" => {
                let capabilities = request.params.as_ref().and_then(|params| params.get("capabilities"));
                let has = |key: &str| capabilities.as_ref().is_some_and(|known| known.get(key).is_some());
                has("elicitation") || has("auth")
            }
            "tool_call/cancel" | "terminal/cancel" => true,
            _ => false,
        };
        if is_newest {
            self.client_dialect = Some(Dialect::Newest);
        }
    }

    /// How to write for the client.
    pub(crate) fn client_revision(&self) -> WireFormat {
        match self.client_dialect {
            Some(Dialect::Spec) => WireFormat::Spec,
            Some(Dialect::Newest) => WireFormat::Newest,
            None => WireFormat::Any,
        }
    }
}

pub(crate) struct Shared {
    pub(crate) options: BridgeOptions,
    pub(crate) peers: Peers,
    pub(crate) host: Box<dyn Host + Send>,
    pub(crate) output: Vec<Output>,
    pub(crate) losses: LossReport,
    pub(crate) now: Moment,
    /// How many messages of the bridge's own the client has been shown.
    pub(crate) minted: u64,
    /// A loss under the strict policy: the session that it happened in, and what it was.
    pub(crate) strict_failure: Option<(Option<String>, String)>,
}

impl Shared {
    pub(crate) fn send(&mut self, to: Side, line: String) {
        self.output.push(Output::Line { to, line });
    }

    pub(crate) fn send_update<'a>(&mut self, to: Side, params: &impl Wire<'a>, revision: WireFormat) {
        let mut line = String::with_capacity(192);
        line.push_str(r#"{"jsonrpc":"2.0","method":"session/update","params":"#);
        params.encode_into(&mut line, revision);
        line.push('}');
        self.send(to, line);
    }

    pub(crate) fn notify(&mut self, to: Side, method: &str, params: &str) {
        let mut line = String::with_capacity(params.len() + method.len() + 48);
        line.push_str(r#"{"jsonrpc":"2.0","method":"#);
        Text::Borrowed(method).encode_into(&mut line, WireFormat::Any);
        line.push_str(r#","params":"#);
        push_on_one_line(&mut line, params);
        line.push('}');
        self.send(to, line);
    }

    pub(crate) fn request(&mut self, to: Side, id: &RequestId<'_>, method: &str, params: &str) {
        let mut line = String::with_capacity(params.len() + method.len() + 64);
        line.push_str(r#"{"jsonrpc":"2.0","id":"#);
        id.encode_into(&mut line, WireFormat::Any);
        line.push_str(r#","method":"#);
        Text::Borrowed(method).encode_into(&mut line, WireFormat::Any);
        line.push_str(r#","params":"#);
        push_on_one_line(&mut line, params);
        line.push('}');
        self.send(to, line);
    }

    pub(crate) fn respond(&mut self, to: Side, id: &RequestId<'_>, result: &str) {
        let mut line = String::with_capacity(result.len() + 48);
        line.push_str(r#"{"jsonrpc":"2.0","id":"#);
        id.encode_into(&mut line, WireFormat::Any);
        line.push_str(r#","result":"#);
        push_on_one_line(&mut line, result);
        line.push('}');
        self.send(to, line);
    }

    pub(crate) fn fail(&mut self, to: Side, id: &RequestId<'_>, error: RpcError<'_>) {
        let message = Message::response(id.clone(), Err(error));
        self.send(to, message.encode(WireFormat::Any));
    }

    pub(crate) fn refuse(&mut self, to: Side, id: &RequestId<'_>, code: i32, message: impl Into<String>) {
        self.fail(to, id, RpcError::new(code, message.into()));
    }

    /// Tells a client of version 2 that the work in a session has ended with an error. A dialect whose states have no
    /// place for the error gets its words as a message.
    pub(crate) fn rest_with_error(&mut self, session: &str, error: &RpcError<'static>) {
        let format = self.peers.client_revision();
        if self.peers.client_dialect == Some(Dialect::Spec) {
            self.minted += 1;
            let words = v2::ContentBlock::text(format!("[{}]", error.message));
            let chunk = v2::ContentChunk::new(format!("b-notice-{}", self.minted), words);
            let update = v2::SessionUpdate::AgentMessageChunk(chunk);
            self.send_update(Side::Client, &v2::UpdateSessionNotification::new(session, update), format);
        }
        let mut idle = v2::IdleState::new();
        idle.stop_reason = Some(v2::StopReason::Error);
        idle.error = Some(Box::new(error.clone()));
        let update = v2::SessionUpdate::StateUpdate(Box::new(v2::StateUpdate::Idle(idle)));
        self.send_update(Side::Client, &v2::UpdateSessionNotification::new(session, update), format);
    }

    /// The parameters of a request; what is malformed and left out is reported.
    pub(crate) fn params<'r, T: Wire<'r>>(
        &mut self,
        from: Side,
        request: &'r Request<'_>,
        revision: WireFormat,
    ) -> Result<T, Error> {
        let (params, left_out) = T::decode_tolerant(request.params_text(), revision)?;
        if !left_out.is_empty() {
            let session = session_of(request.params.as_ref());
            self.report_left_out(session.as_deref(), &request.method, &left_out, from.other());
        }
        Ok(params)
    }

    /// The result in an answer of the agent. Where there is none, the client, whose request it was, is told.
    pub(crate) fn result<'r, T: Wire<'r>>(
        &mut self,
        id: &RequestId<'_>,
        method: &str,
        response: &'r Response<'_>,
        revision: WireFormat,
    ) -> Option<T> {
        let decoded = match &response.outcome {
            // Some agents have nothing to say and say it.
            Ok(result) if result.as_str() == "null" => T::decode_tolerant("{}", revision),
            Ok(result) => T::decode_tolerant(result.as_str(), revision),
            Err(error) => {
                self.fail(Side::Client, id, error.clone());
                return None;
            }
        };
        match decoded {
            Ok((result, left_out)) => {
                self.report_left_out(None, method, &left_out, Side::Client);
                Some(result)
            }
            Err(error) => {
                self.refuse(Side::Client, id, codes::INTERNAL_ERROR, error.to_string());
                None
            }
        }
    }

    /// Reports what was malformed: what was left out for that, and what breaks a rule but was kept.
    pub(crate) fn report_left_out(
        &mut self,
        session: Option<&str>,
        message: &str,
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
            self.lose(session, message, &diagnostic.pointer, reason, severity, toward);
        }
    }

    /// Passes an answer on as it came.
    pub(crate) fn pass_answer(
        &mut self,
        to: Side,
        id: &RequestId<'_>,
        outcome: Result<Raw<'_>, RpcError<'_>>,
    ) {
        match outcome {
            Ok(result) => self.respond(to, id, result.as_str()),
            Err(error) => self.fail(to, id, error),
        }
    }

    pub(crate) fn lose(
        &mut self,
        session: Option<&str>,
        message: &str,
        element: &str,
        reason: impl Into<String>,
        severity: Severity,
        toward: Side,
    ) {
        let loss = Loss {
            session: session.map(ToOwned::to_owned),
            message: message.to_owned(),
            element: element.to_owned(),
            reason: reason.into(),
            severity,
            toward,
        };
        self.losses.add(&loss);
        if severity != Severity::Guess
            && self.options.policy == crate::Policy::Strict
            && self.strict_failure.is_none()
        {
            self.strict_failure = Some((loss.session.clone(), loss.to_string()));
        }
        self.output.push(Output::Loss(loss));
    }

    pub(crate) fn note(&mut self, session: Option<&str>, message: &str, notes: Vec<Note>, toward: Side) {
        for note in notes {
            self.lose(session, message, &note.element, note.reason, note.severity, toward);
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The session that parameters are about.
pub(crate) fn session_of(params: Option<&Raw<'_>>) -> Option<String> {
    Some(params?.get("sessionId")?.as_text()?.into_owned())
}

/// Line ends stand in JSON only where any white space would do.
fn push_on_one_line(line: &mut String, json: &str) {
    if json.contains(['\n', '\r']) {
        line.push_str(&json.replace(['\n', '\r'], " "));
    } else {
        line.push_str(json);
    }
}
