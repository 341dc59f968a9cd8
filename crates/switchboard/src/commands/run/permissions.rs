//! Who answers when the agent asks, and what.

use std::io;

use switchboard_peer::PermissionQuestion;
use switchboard_protocol::v2::{self, PermissionOptionKind as Kind};
use switchboard_session::Session;
use tokio::sync::mpsc;

use super::Policy;

/// What becomes of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Approve,
    Deny,
    AskUser,
}

pub(super) fn judge(
    policy: Policy,
    can_ask: bool,
    session: &Session,
    question: &PermissionQuestion,
) -> Verdict {
    let otherwise = if can_ask { Verdict::AskUser } else { Verdict::Deny };
    match policy {
        Policy::ApproveAll => Verdict::Approve,
        Policy::DenyAll => Verdict::Deny,
        Policy::ApproveReads if only_reads(session, question) => Verdict::Approve,
        Policy::ApproveReads | Policy::Ask => otherwise,
    }
}

/// Whether the question is about a tool call that says of itself that it only reads. A question without one, or
/// with a diff in it, does not count.
fn only_reads(session: &Session, question: &PermissionQuestion) -> bool {
    let Some(v2::RequestPermissionSubject::ToolCall(subject)) = &question.request().subject else {
        return false;
    };
    let Some(call) = session.tool_call(&subject.tool_call.tool_call_id) else { return false };
    let has_diff =
        call.content().items().any(|item| matches!(item.structured(), Some(v2::ToolCallContent::Diff(_))));
    matches!(call.kind(), v2::ToolKind::Read | v2::ToolKind::Search) && !has_diff
}

/// The option that allows, for once where that is offered.
pub(super) fn allowing(question: &PermissionQuestion) -> Option<&v2::PermissionOption<'static>> {
    question.option_of(&[Kind::AllowOnce, Kind::AllowAlways])
}

/// The option that rejects, for once where that is offered.
pub(super) fn rejecting(question: &PermissionQuestion) -> Option<&v2::PermissionOption<'static>> {
    question.option_of(&[Kind::RejectOnce, Kind::RejectAlways])
}

/// What the user typed: the number of an option, or the beginning of its name.
pub(super) fn chosen<'q>(
    question: &'q PermissionQuestion,
    typed: &str,
) -> Option<&'q v2::PermissionOption<'static>> {
    let options = &question.request().options;
    let typed = typed.trim().to_lowercase();
    if let Ok(number) = typed.parse::<usize>() {
        return options.get(number.checked_sub(1)?);
    }
    if typed.is_empty() {
        return None;
    }
    if typed == "y" || typed == "yes" {
        return allowing(question);
    }
    if typed == "n" || typed == "no" {
        return rejecting(question);
    }
    let mut fitting = options.iter().filter(|option| option.name.to_lowercase().starts_with(&typed));
    let first = fitting.next()?;
    // Of two that begin alike, neither is meant.
    fitting.next().is_none().then_some(first)
}

/// The lines that the user types. A thread reads them, because reading a terminal cannot be given up.
#[derive(Debug)]
pub(super) struct Keyboard(mpsc::Receiver<String>);

impl Keyboard {
    pub(super) fn listen() -> Self {
        let (sender, receiver) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut line = String::new();
            while io::stdin().read_line(&mut line).is_ok_and(|length| length > 0) {
                if sender.blocking_send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Keyboard(receiver)
    }

    /// The next line; `None` when there are no more.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.0.recv().await
    }
}
