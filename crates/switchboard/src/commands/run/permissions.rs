//! Answers of the user to permission requests.

use std::io;

use switchboard_acp::v2::{self, PermissionOptionKind as Kind};
use switchboard_peer::PermissionQuestion;
use tokio::sync::mpsc;

/// Returns the allowing option, for once if that is offered.
pub(super) fn allowing(question: &PermissionQuestion) -> Option<&v2::PermissionOption<'static>> {
    question.option_of(&[Kind::AllowOnce, Kind::AllowAlways])
}

/// Returns the rejecting option, for once if that is offered.
pub(super) fn rejecting(question: &PermissionQuestion) -> Option<&v2::PermissionOption<'static>> {
    question.option_of(&[Kind::RejectOnce, Kind::RejectAlways])
}

/// Returns the option that the user typed: its number, or a prefix of its name.
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
    // An ambiguous prefix selects nothing.
    fitting.next().is_none().then_some(first)
}

/// Typed lines. A thread reads them, because reading a terminal cannot be cancelled.
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

    /// Returns the next line; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.0.recv().await
    }
}
