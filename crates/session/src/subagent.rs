//! Transcript entries about other sessions: sub-agents, and messages between sessions.

use std::sync::Arc;

use switchboard_acp::v2;
use switchboard_acp::v2::unstable::{SessionMessageChunk, SubagentSessionCapabilities, SubagentUpdate};
use switchboard_acp::{AbsolutePath, Field, Wire};

use crate::change::{Changes, ContentChange, EntryField, FieldChange};
use crate::content::Content;
use crate::entry::{EntryKind, Head};
use crate::patch::{patch_content, patch_shared, patch_text};
use crate::session::Session;
use crate::short_text::ShortText;
use crate::snapshot::{Activity, activity_of};

/// Maximum length in characters of the description in a name.
const MAX_DESCRIPTION: usize = 60;

/// Combines a sub-agent's title and description into a name. Agents give several sub-agents the same title,
/// so the start of the description is included. [`None`] if both are blank.
pub(crate) fn subagent_name(title: Option<&str>, description: Option<&str>) -> Option<String> {
    let title = title.filter(|title| !title.trim().is_empty());
    let line = description.and_then(|text| text.trim().lines().next());
    let line = line.map(|line| match line.char_indices().nth(MAX_DESCRIPTION) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    });
    match (title, line) {
        (Some(title), Some(line)) => Some(format!("{title} ({line})")),
        (title, line) => title.map(str::to_owned).or(line),
    }
}

/// A sub-agent as reported by its parent session. Its own session has its transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Subagent {
    pub(crate) head: Head,
    pub(crate) title: Option<ShortText>,
    pub(crate) description: Option<ShortText>,
    pub(crate) capabilities: Option<Arc<SubagentSessionCapabilities<'static>>>,
    pub(crate) state: Option<Arc<v2::StateUpdate<'static>>>,
    pub(crate) cwd: Option<ShortText>,
    pub(crate) additional_directories: Option<Arc<[AbsolutePath<'static>]>>,
}

impl Subagent {
    pub(crate) fn new(head: Head) -> Self {
        Subagent {
            head,
            title: None,
            description: None,
            capabilities: None,
            state: None,
            cwd: None,
            additional_directories: None,
        }
    }

    /// Returns the id of the sub-agent's session, which is the id of the entry.
    pub fn session_id(&self) -> &str {
        &self.head.id
    }

    /// Returns the title.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns the description of its task.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the actions that a client can request for its session. `None` means no action.
    pub fn capabilities(&self) -> Option<&SubagentSessionCapabilities<'static>> {
        self.capabilities.as_deref()
    }

    /// Returns its state, as far as its parent reported it.
    pub fn state(&self) -> Option<&v2::StateUpdate<'static>> {
        self.state.as_deref()
    }

    /// Returns its activity, or unknown without a reported state.
    pub fn activity(&self) -> Activity {
        self.state().map_or(Activity::Unknown, activity_of)
    }

    /// Returns its activity in a few words.
    pub fn state_in_words(&self) -> &'static str {
        state_in_words(self.state())
    }

    /// Returns its working directory, if it differs from its parent's.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Returns the other directories of its workspace, if they differ from its parent's.
    pub fn additional_directories(&self) -> Option<&[AbsolutePath<'static>]> {
        self.additional_directories.as_deref()
    }
}

/// Returns the activity of a sub-agent's state in a few words.
pub(crate) fn state_in_words(state: Option<&v2::StateUpdate<'_>>) -> &'static str {
    match state {
        Some(v2::StateUpdate::Running(_)) => "at work",
        Some(v2::StateUpdate::RequiresAction(_)) => "waiting for an answer",
        Some(v2::StateUpdate::Idle(idle)) => match idle.stop_reason {
            Some(v2::StopReason::Cancelled) => "cancelled",
            Some(v2::StopReason::Error) => "failed",
            Some(v2::StopReason::Refusal) => "refused to go on",
            Some(v2::StopReason::MaxTokens) => "out of tokens",
            Some(v2::StopReason::MaxTurnRequests) => "out of requests",
            Some(v2::StopReason::EndTurn | v2::StopReason::Unknown(_)) | None => "done",
            Some(v2::StopReason::More(none)) => none.never(),
        },
        Some(v2::StateUpdate::Unobservable(_) | v2::StateUpdate::Unknown(_)) | None => "state not known",
        Some(v2::StateUpdate::More(none)) => none.never(),
    }
}

/// A message from one session to another, in the transcript of one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMessage {
    pub(crate) head: Head,
    pub(crate) sender: Option<ShortText>,
    pub(crate) recipient: Option<ShortText>,
    pub(crate) sender_message: Option<ShortText>,
    pub(crate) recipient_message: Option<ShortText>,
    pub(crate) content: Content<v2::ContentBlock<'static>>,
}

impl SessionMessage {
    pub(crate) fn new(head: Head) -> Self {
        SessionMessage {
            head,
            sender: None,
            recipient: None,
            sender_message: None,
            recipient_message: None,
            content: Content::default(),
        }
    }

    /// Returns the sending session.
    pub fn sender(&self) -> Option<&str> {
        self.sender.as_deref()
    }

    /// Returns the receiving session.
    pub fn recipient(&self) -> Option<&str> {
        self.recipient.as_deref()
    }

    /// Returns the id of the same message in the sender's transcript.
    pub fn sender_message(&self) -> Option<&str> {
        self.sender_message.as_deref()
    }

    /// Returns the id of the same message in the recipient's transcript.
    pub fn recipient_message(&self) -> Option<&str> {
        self.recipient_message.as_deref()
    }

    /// Returns the content.
    pub fn content(&self) -> &Content<v2::ContentBlock<'static>> {
        &self.content
    }
}

impl Session {
    pub(crate) fn subagent_update(&mut self, update: &SubagentUpdate<'_>) -> Changes {
        let rule = self.meta_rule;
        let SubagentUpdate {
            session_id,
            title,
            description,
            capabilities,
            state,
            cwd,
            additional_directories,
            meta,
            extra,
            more: _,
        } = update;
        let change = self.change_entry(EntryKind::Subagent, session_id, |subagent: &mut Subagent, change| {
            let fields = &mut change.fields;
            let cwd = cwd.clone().map(AbsolutePath::into_text);
            fields.note(EntryField::Title, patch_text(&mut subagent.title, title));
            fields.note(EntryField::Description, patch_text(&mut subagent.description, description));
            fields.note(EntryField::Capabilities, patch_shared(&mut subagent.capabilities, capabilities));
            fields.note(EntryField::State, patch_shared(&mut subagent.state, state));
            fields.note(EntryField::Cwd, patch_text(&mut subagent.cwd, &cwd));
            let directories = patch_directories(&mut subagent.additional_directories, additional_directories);
            fields.note(EntryField::AdditionalDirectories, directories);
            subagent.head.patch_attached(rule, meta, extra, fields);
        });
        self.finish_one(change)
    }

    pub(crate) fn session_message(&mut self, update: &v2::unstable::SessionMessage<'_>) -> Changes {
        let rule = self.meta_rule;
        let v2::unstable::SessionMessage {
            message_id,
            sender_session_id,
            recipient_session_id,
            sender_message_id,
            recipient_message_id,
            content,
            meta,
            extra,
            more: _,
        } = update;
        let change = self.change_entry(
            EntryKind::SessionMessage,
            message_id,
            |message: &mut SessionMessage, change| {
                change.content = patch_content(&mut message.content, content);
                let fields = &mut change.fields;
                fields.note(EntryField::Sender, patch_text(&mut message.sender, sender_session_id));
                fields.note(EntryField::Recipient, patch_text(&mut message.recipient, recipient_session_id));
                let sender_message = patch_text(&mut message.sender_message, sender_message_id);
                fields.note(EntryField::SenderMessage, sender_message);
                let recipient_message = patch_text(&mut message.recipient_message, recipient_message_id);
                fields.note(EntryField::RecipientMessage, recipient_message);
                message.head.patch_attached(rule, meta, extra, fields);
            },
        );
        self.finish_one(change)
    }

    pub(crate) fn session_message_chunk(&mut self, chunk: &SessionMessageChunk<'_>) -> Changes {
        let edit = |message: &mut SessionMessage, change: &mut crate::EntryChange| {
            message.content.push(&chunk.content, chunk.meta.as_ref(), &chunk.extra);
            change.content = ContentChange::Appended(1);
        };
        let change = self.change_entry(EntryKind::SessionMessage, &chunk.message_id, edit);
        self.finish_one(change)
    }
}

/// Applies a list of directories. An empty list is a value: no more directories. Without a list, the parent's
/// apply.
fn patch_directories(
    stored: &mut Option<Arc<[AbsolutePath<'static>]>>,
    field: &Field<Vec<AbsolutePath<'_>>>,
) -> Option<FieldChange> {
    match field {
        Field::Keep => None,
        Field::Clear => stored.take().map(|_| FieldChange::Cleared),
        Field::Set(paths) if stored.as_deref() == Some(&**paths) => None,
        Field::Set(paths) => {
            *stored = Some(paths.iter().cloned().map(Wire::into_owned).collect());
            Some(FieldChange::Set)
        }
    }
}
