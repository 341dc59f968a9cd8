//! Permission requests.

use switchboard_acp::{AbsolutePath, Wire, WireFormat, v2};
use switchboard_transport::{Answer, Deadline, Json};

use super::tool_call::ToolCall;
use super::turn::Turn;
use crate::Error;

/// A permission request in preparation.
#[derive(Debug)]
#[must_use = "the question is not sent before `ask`"]
pub struct Ask<'t> {
    turn: &'t Turn,
    request: v2::RequestPermissionRequest<'static>,
}

/// Decision of the user. Everything that is not clearly an approval counts as none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed with this option.
    Allowed(v2::PermissionOption<'static>),
    /// Rejected, or answered with an option of an unknown kind.
    Rejected(v2::PermissionOption<'static>),
    /// Not decided: dismissed, cancelled, or answered with an option that was not offered.
    Undecided,
}

impl Decision {
    /// Returns whether the user approved.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed(_))
    }
}

impl<'t> Ask<'t> {
    pub(super) fn new(turn: &'t Turn, title: &str) -> Self {
        let session = turn.session().id().to_owned();
        let request = v2::RequestPermissionRequest::new(session, title.to_owned(), Vec::new());
        Ask { turn, request }
    }

    /// Sets the description of the question.
    pub fn description(mut self, description: &str) -> Self {
        self.request.description = Some(description.to_owned().into());
        self
    }

    /// Sets a tool call as the subject.
    pub fn about(self, call: &ToolCall) -> Self {
        let update = v2::ToolCallUpdate::new(call.id().to_owned());
        self.about_update(update)
    }

    /// Sets a tool call as the subject, with changes like those of an update.
    pub fn about_update(self, update: v2::ToolCallUpdate<'static>) -> Self {
        let subject = v2::ToolCallPermissionSubject::new(update);
        self.subject(v2::RequestPermissionSubject::ToolCall(Box::new(subject)))
    }

    /// Sets a command as the subject.
    pub fn about_command(self, command: &str, cwd: AbsolutePath<'static>) -> Self {
        let subject = v2::CommandPermissionSubject::new(command.to_owned(), cwd);
        self.subject(v2::RequestPermissionSubject::Command(subject))
    }

    /// Sets any subject.
    pub fn subject(mut self, subject: v2::RequestPermissionSubject<'static>) -> Self {
        self.request.subject = Some(subject);
        self
    }

    /// Adds an option. Without any, the user may allow or reject, once or always.
    pub fn option(mut self, id: &str, name: &str, kind: v2::PermissionOptionKind) -> Self {
        let option = v2::PermissionOption::new(id.to_owned(), name.to_owned(), kind);
        self.request.options.push(option);
        self
    }

    /// Sends the question and waits for the answer without a timeout. A cancellation of the turn ends the
    /// wait.
    pub async fn ask(mut self) -> Result<Decision, Error> {
        use v2::PermissionOptionKind as Kind;
        if self.request.options.is_empty() {
            self = self
                .option("allow_once", "Allow once", Kind::AllowOnce)
                .option("allow_always", "Allow always", Kind::AllowAlways)
                .option("reject_once", "Reject", Kind::RejectOnce)
                .option("reject_always", "Reject always", Kind::RejectAlways);
        }
        let Ask { turn, request } = self;
        let mut ids: Vec<&str> = request.options.iter().map(|option| &*option.option_id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::BrokenRule("two options of one question have the same id".into()));
        }
        let emitter = turn.emitter();
        if let Some(v2::RequestPermissionSubject::ToolCall(subject)) = &request.subject {
            // The client applies it as an update, so the history must contain it too.
            emitter.core.writer().await.note(&subject.tool_call.clone().into());
        }
        let answer =
            question(turn, "session/request_permission", Json::of(&request, WireFormat::Any)).await?;
        Ok(match answer {
            Some(Answer::Result(text)) => decide(&request, &text),
            Some(Answer::Error(_)) | None => Decision::Undecided,
        })
    }
}

/// Asks the user for data.
pub(super) async fn elicit(
    turn: &Turn,
    request: &v2::CreateElicitationRequest<'_>,
) -> Result<v2::CreateElicitationResponse<'static>, Error> {
    let answer = question(turn, "elicitation/create", Json::of(request, WireFormat::Any)).await?;
    let response = match &answer {
        Some(Answer::Result(text)) => {
            v2::CreateElicitationResponse::decode_tolerant(text, WireFormat::Any).ok()
        }
        Some(Answer::Error(_)) | None => None,
    };
    Ok(match response {
        Some((response, _)) => response.into_owned(),
        None => v2::CreateElicitationResponse::Cancel(v2::EmptyObject::new()),
    })
}

/// Sends a question while the session reports that it waits; `None` if the turn is cancelled meanwhile.
async fn question(turn: &Turn, method: &str, params: Json<'_>) -> Result<Option<Answer>, Error> {
    let emitter = turn.emitter();
    emitter.begin_question().await?;
    let mut call = emitter.core.caller.begin(method, params, Deadline::Never).await?;
    let answer = tokio::select! {
        biased;
        answer = call.answer() => Some(answer?),
        // Dropping the call cancels the request at the client.
        () = turn.cancelled() => None,
    };
    drop(call);
    emitter.end_question().await?;
    Ok(answer)
}

fn decide(request: &v2::RequestPermissionRequest<'static>, answer: &str) -> Decision {
    use v2::PermissionOptionKind as Kind;
    let Ok((response, _)) = v2::RequestPermissionResponse::decode_tolerant(answer, WireFormat::Any) else {
        return Decision::Undecided;
    };
    let v2::RequestPermissionOutcome::Selected(selected) = response.outcome else {
        return Decision::Undecided;
    };
    match request.options.iter().find(|option| option.option_id == selected.option_id) {
        Some(option) if matches!(option.kind, Kind::AllowOnce | Kind::AllowAlways) => {
            Decision::Allowed(option.clone())
        }
        Some(option) => Decision::Rejected(option.clone()),
        None => Decision::Undecided,
    }
}
