//! Choices that the user has made for always. They hold for exactly the same question again, in the same session, while
//! the same agent process runs, and are kept nowhere else.

use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard_acp::v2;
use switchboard_store::Moment;

use super::asked::Asked;

/// How many choices are remembered; the oldest go.
const MAX_CHOICES: usize = 200;

/// Longer questions are asked each time.
const MAX_TEXT: usize = 256 * 1024;

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) session: String,
    /// What was asked, for people.
    pub(crate) title: String,
    /// What was to be done, for people.
    pub(crate) about: Option<String>,
    /// What was asked, exactly.
    asked: String,
    /// The option that was chosen.
    pub(crate) option: String,
    pub(crate) allows: bool,
    pub(crate) since: Moment,
}

/// The choices of one agent process.
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

    /// Why a choice for always about this would be asked again, if it would be.
    pub(crate) fn refuses(asked: &Asked) -> Option<&'static str> {
        asked.unclear().or_else(|| (asked.text().len() > MAX_TEXT).then_some("it is very long"))
    }

    /// Remembers a choice, if it is one for always about something clear.
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

    /// Forgets all choices.
    pub(crate) fn forget(&self) {
        self.choices().clear();
    }

    /// Forgets a choice. Tells whether there was one.
    pub(crate) fn withdraw(&self, withdrawn: &Choice) -> bool {
        let mut choices = self.choices();
        let before = choices.len();
        choices.retain(|choice| choice != withdrawn);
        choices.len() < before
    }

    /// The choice that was made for exactly this.
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
