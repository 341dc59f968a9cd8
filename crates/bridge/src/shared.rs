//! What all translations write to: lines for either side, and losses.

use switchboard_protocol::rpc::{Message, RequestId, RpcError};
use switchboard_protocol::{Raw, Revision, Text, Wire};

use crate::host::Host;
use crate::loss::{Note, Severity};
use crate::{BridgeOptions, Loss, LossReport, Moment, Side};

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

pub(crate) struct Shared {
    pub(crate) options: BridgeOptions,
    pub(crate) host: Box<dyn Host + Send>,
    pub(crate) output: Vec<Output>,
    pub(crate) losses: LossReport,
    pub(crate) now: Moment,
    /// A loss under the strict policy: the session that it happened in, and what it was.
    pub(crate) strict_failure: Option<(Option<String>, String)>,
}

impl Shared {
    pub(crate) fn send(&mut self, to: Side, line: String) {
        self.output.push(Output::Line { to, line });
    }

    pub(crate) fn send_update<'a>(&mut self, to: Side, params: &impl Wire<'a>, revision: Revision) {
        let mut line = String::with_capacity(192);
        line.push_str(r#"{"jsonrpc":"2.0","method":"session/update","params":"#);
        params.encode_into(&mut line, revision);
        line.push('}');
        self.send(to, line);
    }

    pub(crate) fn notify(&mut self, to: Side, method: &str, params: &str) {
        let mut line = String::with_capacity(params.len() + method.len() + 48);
        line.push_str(r#"{"jsonrpc":"2.0","method":"#);
        Text::Borrowed(method).encode_into(&mut line, Revision::Any);
        line.push_str(r#","params":"#);
        push_on_one_line(&mut line, params);
        line.push('}');
        self.send(to, line);
    }

    pub(crate) fn request(&mut self, to: Side, id: &RequestId<'_>, method: &str, params: &str) {
        let mut line = String::with_capacity(params.len() + method.len() + 64);
        line.push_str(r#"{"jsonrpc":"2.0","id":"#);
        id.encode_into(&mut line, Revision::Any);
        line.push_str(r#","method":"#);
        Text::Borrowed(method).encode_into(&mut line, Revision::Any);
        line.push_str(r#","params":"#);
        push_on_one_line(&mut line, params);
        line.push('}');
        self.send(to, line);
    }

    pub(crate) fn respond(&mut self, to: Side, id: &RequestId<'_>, result: &str) {
        let mut line = String::with_capacity(result.len() + 48);
        line.push_str(r#"{"jsonrpc":"2.0","id":"#);
        id.encode_into(&mut line, Revision::Any);
        line.push_str(r#","result":"#);
        push_on_one_line(&mut line, result);
        line.push('}');
        self.send(to, line);
    }

    pub(crate) fn fail(&mut self, to: Side, id: &RequestId<'_>, error: RpcError<'_>) {
        let message = Message::response(id.clone(), Err(error));
        self.send(to, message.encode(Revision::Any));
    }

    pub(crate) fn refuse(&mut self, to: Side, id: &RequestId<'_>, code: i32, message: impl Into<String>) {
        self.fail(to, id, RpcError::new(code, message.into()));
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

/// Line ends stand in JSON only where any white space would do.
fn push_on_one_line(line: &mut String, json: &str) {
    if json.contains(['\n', '\r']) {
        line.push_str(&json.replace(['\n', '\r'], " "));
    } else {
        line.push_str(json);
    }
}
