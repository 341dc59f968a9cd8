//! Remembered choices of the user ("always allow", "always reject"). A choice applies to exactly the same question in
//! the same session while the same agent process runs. It is kept only in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard_acp::v2;
use switchboard_store::Moment;

use super::asked::Asked;

/// Maximum number of remembered choices; the oldest are dropped.
const MAX_CHOICES: usize = 200;

/// Maximum length of a question in bytes. Longer ones are asked each time.
const MAX_TEXT: usize = 256 * 1024;

/// A remembered choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) session: String,
    /// Title of the question, for display.
    pub(crate) title: String,
    /// Description of the operation, for display.
    pub(crate) about: Option<String>,
    /// Exact content of the question.
    asked: String,
    /// Id of the chosen option.
    pub(crate) option: String,
    pub(crate) allows: bool,
    pub(crate) since: Moment,
}

/// The remembered choices of one agent process.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    choices: Mutex<Vec<Choice>>,
}

impl Remembered {
    fn choices(&self) -> MutexGuard<'_, Vec<Choice>> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Choice> {
        self.choices().clone()
    }

    /// Returns the reason why a choice about a question cannot be remembered, if there is one.
    pub(crate) fn refuses(asked: &Asked) -> Option<&'static str> {
        asked.unclear().or_else(|| (asked.text().len() > MAX_TEXT).then_some("it is very long"))
    }

    /// Remembers a choice if its option is for always and the question allows it.
    pub(crate) fn note(&self, session: &str, title: &str, asked: &Asked, option: &v2::PermissionOption<'_>) {
        let allows = match option.kind {
            v2::PermissionOptionKind::AllowAlways => true,
            v2::PermissionOptionKind::RejectAlways => false,
            _ => return,
        };
        if Self::refuses(asked).is_some() {
            return;
        }
        let mut choices = self.choices();
        choices.retain(|known| !known.is_about(session, asked));
        if choices.len() >= MAX_CHOICES {
            choices.remove(0);
        }
        choices.push(Choice {
            session: session.to_owned(),
            title: title.to_owned(),
            about: asked.about().map(str::to_owned),
            asked: asked.text().to_owned(),
            option: option.option_id.to_string(),
            allows,
            since: Moment::now(),
        });
    }

    /// Removes all choices.
    pub(crate) fn forget(&self) {
        self.choices().clear();
    }

    /// Removes a choice. Returns `true` if it existed.
    pub(crate) fn withdraw(&self, withdrawn: &Choice) -> bool {
        let mut choices = self.choices();
        let before = choices.len();
        choices.retain(|choice| choice != withdrawn);
        choices.len() < before
    }

    /// Returns the choice for exactly this question.
    pub(crate) fn find(&self, session: &str, asked: &Asked) -> Option<Choice> {
        if Self::refuses(asked).is_some() {
            return None;
        }
        self.choices().iter().find(|choice| choice.is_about(session, asked)).cloned()
    }
}

impl Choice {
    fn is_about(&self, session: &str, asked: &Asked) -> bool {
        self.session == session && self.asked == asked.text()
    }
}
