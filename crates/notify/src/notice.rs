//! Notifications as people read them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_acp::display::{elapsed, is_hidden};
use switchboard_hub::{PendingQuestionEvent, SessionEvent, SessionEventKind};

use crate::target::{Content, EventKind};

/// Maximum number of characters of a title and of a text.
const MAX_TEXT: usize = 200;
/// Maximum number of characters of the label of an option.
const MAX_LABEL: usize = 40;

/// Key of a question: the session's id and the question's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct QuestionKey {
    pub(crate) session: String,
    pub(crate) question: u64,
}

/// Content of a notification, before a target's limits are applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub(crate) kind: EventKind,
    pub(crate) session: String,
    pub(crate) agent: String,
    pub(crate) title: Option<String>,
    /// The last part of the folder.
    pub(crate) folder: String,
    /// Id of the question, if it is one.
    pub(crate) question: Option<u64>,
    /// The event without details, such as "asks to run a command".
    pub(crate) action: String,
    /// Commands, paths and errors.
    pub(crate) details: String,
    /// The question itself, to answer it. A restart ends it.
    #[serde(skip)]
    pub(crate) asked: Option<Arc<PendingQuestionEvent>>,
}

impl Notice {
    /// Returns the content of an event. `None`: the event is not one to be notified of.
    pub(crate) fn of(event: &SessionEvent) -> Option<Self> {
        let (kind, question, action, details) = match &event.kind {
            SessionEventKind::Asked(asked) => {
                (EventKind::Question, Some(asked.id), asked.action.to_owned(), asked.details.clone())
            }
            SessionEventKind::TurnEnded { reason, duration } => {
                let action = match reason.as_str() {
                    "max_tokens" => "stopped at the token limit after",
                    "max_turn_requests" => "stopped at the request limit after",
                    _ => "is done after",
                };
                (EventKind::Done, None, format!("{action} {}", elapsed(whole(*duration))), String::new())
            }
            SessionEventKind::TurnFailed { reason } => {
                (EventKind::Failed, None, "has failed".to_owned(), reason.clone())
            }
            SessionEventKind::AgentDied { reason } => {
                (EventKind::Died, None, "has ended unexpectedly".to_owned(), reason.clone())
            }
            _ => return None,
        };
        let folder = Path::new(&event.folder).file_name().map(|name| name.to_string_lossy().into_owned());
        let asked = match &event.kind {
            SessionEventKind::Asked(asked) => Some(Arc::new(asked.clone())),
            _ => None,
        };
        Some(Notice {
            asked,
            kind,
            session: event.session.to_string(),
            agent: event.agent.clone(),
            title: event.title.clone(),
            folder: folder.unwrap_or_default(),
            question,
            action,
            details,
        })
    }

    /// Returns the content of a test.
    pub(crate) fn test() -> Self {
        Notice {
            kind: EventKind::Done,
            session: String::new(),
            agent: "Switchboard".to_owned(),
            title: Some("test".to_owned()),
            folder: String::new(),
            question: None,
            action: "This is a test notification.".to_owned(),
            details: String::new(),
            asked: None,
        }
    }

    /// Returns the key of the question, if it is one.
    pub(crate) fn key(&self) -> Option<QuestionKey> {
        Some(QuestionKey { session: self.session.clone(), question: self.question? })
    }

    /// Returns the title: the agent and the session's name.
    pub(crate) fn heading(&self) -> String {
        let name = self.title.as_deref().map(clean).filter(|title| !title.is_empty());
        let name = name.or_else(|| Some(clean(&self.folder)).filter(|folder| !folder.is_empty()));
        let name = name.unwrap_or_else(|| clean(&self.session));
        cut(&format!("{}: {name}", clean(&self.agent)))
    }

    /// Returns whether the full text shows everything that the question is about: nothing is cut or removed.
    pub(crate) fn is_shown_whole(&self) -> bool {
        let is_complete = self.asked.as_ref().is_some_and(|asked| asked.is_complete);
        let is_clean = self.details.lines().all(|line| clean(line) == line.trim());
        is_complete && is_clean && !self.text(Content::Full).ends_with('…')
    }

    /// Returns the text.
    pub(crate) fn text(&self, content: Content) -> String {
        let folder = clean(&self.folder);
        let place = if folder.is_empty() { String::new() } else { format!(" in {folder}") };
        let mut text = format!("{}{place}", self.action);
        if content == Content::Full {
            for line in self.details.lines().map(clean).filter(|line| !line.is_empty()) {
                text.push('\n');
                text.push_str(&line);
            }
        }
        cut(&text)
    }
}

/// Returns a duration without fractions of seconds.
fn whole(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

/// Returns a label without hidden characters.
pub(crate) fn label(text: &str) -> String {
    clean(text).chars().take(MAX_LABEL).collect()
}

/// Removes control characters, and characters that reorder or hide text. Line breaks become spaces.
fn clean(text: &str) -> String {
    let text: String = text
        .chars()
        .filter_map(|character| match character {
            '\n' | '\t' => Some(' '),
            other => (!is_hidden(other)).then_some(other),
        })
        .collect();
    text.trim().to_owned()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        None => text.to_owned(),
        Some(_) => text.chars().take(MAX_TEXT - 1).chain(['…']).collect(),
    }
}

/// Several notifications as one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Digest {
    /// Questions that wait.
    pub(crate) questions: usize,
    /// Sessions in which they wait.
    pub(crate) sessions: usize,
    pub(crate) done: usize,
    pub(crate) failed: usize,
    pub(crate) died: usize,
}

impl Digest {
    pub(crate) fn text(&self) -> String {
        let counted = |count: usize, one: &str, more: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {more}")),
        };
        let questions = counted(self.questions, "question waits", "questions wait").map(|questions| {
            let sessions = counted(self.sessions, "session", "sessions").unwrap_or_default();
            format!("{questions} in {sessions}")
        });
        let parts = [
            questions,
            counted(self.done, "turn is done", "turns are done"),
            counted(self.failed, "turn has failed", "turns have failed"),
            counted(self.died, "agent has ended unexpectedly", "agents have ended unexpectedly"),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns the kind whose priority the whole has.
    pub(crate) fn kind(&self) -> EventKind {
        match self {
            Digest { questions: 1.., .. } => EventKind::Question,
            Digest { died: 1.., .. } => EventKind::Died,
            Digest { failed: 1.., .. } => EventKind::Failed,
            _ => EventKind::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(kind: SessionEventKind) -> Notice {
        Notice::of(&SessionEvent::new("s1", "claude", "/home/anna/project", kind)).unwrap()
    }

    fn question(details: &str) -> Notice {
        notice(SessionEventKind::Asked(PendingQuestionEvent {
            id: 7,
            action: "asks to run a command",
            details: details.to_owned(),
            is_complete: true,
            options: Vec::new(),
        }))
    }

    #[test]
    fn content_is_minimal_unless_full_is_requested() {
        let notice = question("May I?\n$ rm -r /home/anna/secret");
        assert_eq!(notice.heading(), "claude: project");
        assert_eq!(notice.text(Content::Title), "asks to run a command in project");
        assert_eq!(
            notice.text(Content::Full),
            "asks to run a command in project\nMay I?\n$ rm -r /home/anna/secret"
        );
        let failed = notice_of_failure("401 for /home/anna/.key");
        assert_eq!(failed.text(Content::Title), "has failed in project");
        assert_eq!(failed.text(Content::Full), "has failed in project\n401 for /home/anna/.key");
    }

    fn notice_of_failure(reason: &str) -> Notice {
        notice(SessionEventKind::TurnFailed { reason: reason.to_owned() })
    }

    #[test]
    fn hidden_characters_are_removed_and_texts_are_cut() {
        let mut notice = question(&"x".repeat(5000));
        notice.title = Some("a\u{202e}b\u{1b}[31m\nc\u{0}".to_owned());
        assert_eq!(notice.heading(), "claude: ab[31m c");
        let text = notice.text(Content::Full);
        assert_eq!(text.chars().count(), 200);
        assert!(text.ends_with('…'));
        notice.title = Some("\u{202e}\u{200b}".to_owned());
        assert_eq!(notice.heading(), "claude: project", "a title without visible characters is none");
    }

    #[test]
    fn a_digest_counts_questions_sessions_and_ends() {
        let digest = Digest { questions: 7, sessions: 3, ..Digest::default() };
        assert_eq!(digest.text(), "7 questions wait in 3 sessions");
        let digest = Digest { questions: 1, sessions: 1, done: 2, failed: 1, died: 1 };
        assert_eq!(
            digest.text(),
            "1 question waits in 1 session, 2 turns are done, 1 turn has failed, 1 agent has ended unexpectedly"
        );
        assert_eq!(
            (digest.kind(), Digest { done: 1, ..Digest::default() }.kind()),
            (EventKind::Question, EventKind::Done)
        );
    }

    #[test]
    fn the_end_of_a_turn_has_its_duration_and_reason() {
        let ended = |reason: &str| {
            let duration = Duration::from_millis(125_400);
            notice(SessionEventKind::TurnEnded { reason: reason.to_owned(), duration }).text(Content::Title)
        };
        assert_eq!(ended("end_turn"), "is done after 2 min 5 s in project");
        assert_eq!(ended("max_tokens"), "stopped at the token limit after 2 min 5 s in project");
    }
}
