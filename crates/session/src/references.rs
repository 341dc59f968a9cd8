//! Other sessions named in an update.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use switchboard_acp::v2::unstable::{BackgroundSubagent, SessionMessage, SessionReference, SubagentUpdate};
use switchboard_acp::{Field, Text, Wire, WireFormat, v2};

/// A session that another session has started, according to an update.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedSession<'u> {
    /// Id of the session.
    pub session: &'u str,
    /// Tool call that represents it, if the update names one.
    pub tool_call: Option<Text<'u>>,
    /// JSON pointer within the update to the object with its id.
    pub pointer: String,
}

/// Returns the sessions that an update reports as started.
///
/// ```
/// use switchboard_acp::{Wire, WireFormat, v2};
/// use switchboard_session::sessions_started_by;
///
/// let text = r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c-1","content":{"type":"session","sessionId":"s-2"}}"#;
/// let update = v2::SessionUpdate::decode(text, WireFormat::Any)?;
/// let [started] = &sessions_started_by(&update)[..] else { panic!() };
/// assert_eq!((started.session, started.tool_call.as_deref(), &*started.pointer), ("s-2", Some("c-1"), "/content"));
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
pub fn sessions_started_by<'u>(update: &'u v2::SessionUpdate<'_>) -> Vec<StartedSession<'u>> {
    use v2::SessionUpdate as Update;
    let in_call =
        |call: &'u Text<'_>, item: &'u v2::ToolCallContent<'_>, pointer: &dyn Fn() -> String| match item {
            v2::ToolCallContent::Session(reference) => {
                let tool_call = Some(Text::Borrowed(&**call));
                Some(StartedSession { session: &reference.session_id, tool_call, pointer: pointer() })
            }
            _ => None,
        };
    match update {
        Update::SubagentUpdate(update) => {
            // Not part of the protocol, but some agents send it.
            let call = update.extra.get("toolCallId");
            let tool_call = call.and_then(|call| Text::decode(call.as_str(), WireFormat::Any).ok());
            vec![StartedSession { session: &update.session_id, tool_call, pointer: String::new() }]
        }
        Update::ToolCallUpdate(update) => {
            let items = update.content.value().map_or(&[][..], Vec::as_slice);
            let of_item =
                |(index, item)| in_call(&update.tool_call_id, item, &|| format!("/content/{index}"));
            items.iter().enumerate().filter_map(of_item).collect()
        }
        Update::ToolCallContentChunk(chunk) => {
            in_call(&chunk.tool_call_id, &chunk.content, &|| "/content".to_owned()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Like [`sessions_started_by`], for the text of an update. Empty if it cannot be parsed.
pub fn sessions_started_in(update: &str) -> Vec<String> {
    if !may_name_sessions(update) {
        return Vec::new();
    }
    let Ok((update, _)) = v2::SessionUpdate::decode_tolerant(update, WireFormat::Any) else {
        return Vec::new();
    };
    sessions_started_by(&update).into_iter().map(|started| started.session.to_owned()).collect()
}

/// Returns false if a message does not name other sessions. A fast text search with few false positives.
pub fn may_name_sessions(text: &str) -> bool {
    // Escaped letters, which need no escape, could hide the names. Escaped control characters are common.
    let is_letter = |place| matches!(text.as_bytes().get(place + 4), Some(b'4'..=b'7'));
    NAMES.iter().any(|name| name.find(text.as_bytes()).is_some())
        || ESCAPED.find_iter(text.as_bytes()).any(is_letter)
}

/// Kinds of updates, of items in tool calls and of background work.
static NAMES: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["\"subagent", "\"session_message\"", "\"session\""].map(Finder::new));
static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u00"));

/// Replaces session ids in an update for which `rename` returns another id: in sub-agents, tool calls,
/// messages between sessions and background work. Returns true if any was replaced.
///
/// Keys that the protocol does not define stay unchanged.
///
/// ```
/// use switchboard_acp::{Wire, WireFormat, v2};
/// use switchboard_session::rename_sessions;
///
/// let text = r#"{"sessionUpdate":"subagent_update","sessionId":"s-2","title":"Tests","x":1}"#;
/// let mut update = v2::SessionUpdate::decode(text, WireFormat::Any)?;
/// assert!(rename_sessions(&mut update, &mut |id| Some(format!("hub-{id}"))));
/// assert_eq!(update.encode(WireFormat::Any), text.replace("s-2", "hub-s-2"));
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
// All kinds and fields are listed, so that a new one in the protocol causes a compile error here.
pub fn rename_sessions(
    update: &mut v2::SessionUpdate<'_>,
    rename: &mut dyn FnMut(&str) -> Option<String>,
) -> bool {
    use v2::SessionUpdate as Update;
    match update {
        Update::SubagentUpdate(update) => {
            let SubagentUpdate {
                session_id,
                state,
                title: _,
                description: _,
                capabilities: _,
                cwd: _,
                additional_directories: _,
                meta: _,
                extra: _,
                more: _,
            } = &mut **update;
            let in_state = match state {
                Field::Set(state) => rename_in_state(state, rename),
                Field::Keep | Field::Clear => false,
            };
            rename_one(session_id, rename) | in_state
        }
        Update::SessionMessage(message) => {
            let SessionMessage {
                sender_session_id,
                recipient_session_id,
                message_id: _,
                sender_message_id: _,
                recipient_message_id: _,
                content: _,
                meta: _,
                extra: _,
                more: _,
            } = &mut **message;
            let mut rename_end = |end: &mut Field<Text<'_>>| match end {
                Field::Set(session) => rename_one(session, rename),
                Field::Keep | Field::Clear => false,
            };
            rename_end(sender_session_id) | rename_end(recipient_session_id)
        }
        Update::ToolCallUpdate(update) => {
            let v2::ToolCallUpdate {
                content,
                tool_call_id: _,
                name: _,
                title: _,
                kind: _,
                status: _,
                locations: _,
                raw_input: _,
                raw_output: _,
                capabilities: _,
                meta: _,
                extra: _,
                more: _,
            } = &mut **update;
            match content {
                Field::Set(items) => {
                    items.iter_mut().fold(false, |is_renamed, item| is_renamed | rename_in_item(item, rename))
                }
                Field::Keep | Field::Clear => false,
            }
        }
        Update::ToolCallContentChunk(chunk) => {
            let v2::ToolCallContentChunk { content, tool_call_id: _, meta: _, extra: _, more: _ } = chunk;
            rename_in_item(content, rename)
        }
        Update::StateUpdate(state) => rename_in_state(state, rename),
        Update::UserMessage(_)
        | Update::UserMessageChunk(_)
        | Update::AgentMessage(_)
        | Update::AgentMessageChunk(_)
        | Update::AgentThought(_)
        | Update::AgentThoughtChunk(_)
        | Update::TerminalUpdate(_)
        | Update::TerminalOutputChunk(_)
        | Update::CompactionUpdate(_)
        | Update::CompactionSummaryChunk(_)
        | Update::SessionMessageChunk(_)
        | Update::SessionInfoUpdate(_)
        | Update::PlanUpdate(_)
        | Update::PlanRemoved(_)
        | Update::AvailableCommandsUpdate(_)
        | Update::ConfigOptionUpdate(_)
        | Update::UsageUpdate(_)
        | Update::Notice(_)
        | Update::Unknown(_) => false,
        Update::More(none) => none.never(),
    }
}

fn rename_one(session: &mut Text<'_>, rename: &mut dyn FnMut(&str) -> Option<String>) -> bool {
    let name = rename(session);
    let is_renamed = name.is_some();
    if let Some(name) = name {
        *session = Text::Owned(name);
    }
    is_renamed
}

fn rename_in_item(
    item: &mut v2::ToolCallContent<'_>,
    rename: &mut dyn FnMut(&str) -> Option<String>,
) -> bool {
    match item {
        v2::ToolCallContent::Session(reference) => {
            let SessionReference { session_id, meta: _, extra: _, more: _ } = reference;
            rename_one(session_id, rename)
        }
        v2::ToolCallContent::Content(_)
        | v2::ToolCallContent::Diff(_)
        | v2::ToolCallContent::Terminal(_)
        | v2::ToolCallContent::Unknown(_) => false,
        v2::ToolCallContent::More(none) => none.never(),
    }
}

fn rename_in_state(state: &mut v2::StateUpdate<'_>, rename: &mut dyn FnMut(&str) -> Option<String>) -> bool {
    let background = match state {
        v2::StateUpdate::Running(state)
        | v2::StateUpdate::RequiresAction(state)
        | v2::StateUpdate::Unobservable(state) => {
            let v2::ActiveState { background, meta: _, extra: _, more: _ } = state;
            background
        }
        v2::StateUpdate::Idle(state) => {
            let v2::IdleState { background, stop_reason: _, error: _, usage: _, meta: _, extra: _, more: _ } =
                state;
            background
        }
        v2::StateUpdate::Unknown(_) => return false,
        v2::StateUpdate::More(none) => none.never(),
    };
    let works = background.iter_mut().flatten();
    works.fold(false, |is_renamed, work| match work {
        v2::BackgroundWork::Subagent(work) => {
            let BackgroundSubagent { session_id, meta: _, extra: _, more: _ } = work;
            is_renamed | rename_one(session_id, rename)
        }
        v2::BackgroundWork::Terminal(_)
        | v2::BackgroundWork::ToolCall(_)
        | v2::BackgroundWork::Unknown(_) => is_renamed,
        v2::BackgroundWork::More(none) => none.never(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_in_an_update_gets_its_new_id_and_nothing_else_changes() {
        let background =
            r#"[{"type":"subagent","sessionId":"S","x":1},{"type":"terminal","terminalId":"S"}]"#;
        let updates = [
            format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"S","title":"S","state":{{"state":"running","background":{background}}},"x":"S"}}"#),
            r#"{"sessionUpdate":"session_message","messageId":"S","senderSessionId":"S","recipientSessionId":"S","senderMessageId":"S","_meta":{"x":"S"}}"#.to_owned(),
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"S","content":[{"type":"content","content":{"type":"text","text":"S"}},{"type":"session","sessionId":"S","x":"S"}]}"#.to_owned(),
            r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"S","content":{"type":"session","sessionId":"S"},"x":"S"}"#.to_owned(),
            format!(r#"{{"sessionUpdate":"state_update","state":"idle","background":{background}}}"#),
        ];
        for text in updates {
            assert!(may_name_sessions(&text), "{text}");
            let mut update = v2::SessionUpdate::decode(&text, WireFormat::Any).unwrap();
            assert!(!rename_sessions(&mut update, &mut |_| None), "{text}");
            assert_eq!(update.encode(WireFormat::Any), text);
            assert!(rename_sessions(&mut update, &mut |id| Some(format!("new-{id}"))), "{text}");
            let mut expected = text.clone();
            for key in ["sessionId", "senderSessionId", "recipientSessionId"] {
                expected = expected.replace(&format!(r#""{key}":"S""#), &format!(r#""{key}":"new-S""#));
            }
            assert_eq!(update.encode(WireFormat::Any), expected);
        }
    }

    #[test]
    fn updates_without_a_session_are_recognized_without_parsing() {
        let text = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a session and a subagent"}}}}"#;
        assert!(!may_name_sessions(text));
        assert!(!may_name_sessions(r#"{"text":"\u001b[1m and \u0000"}"#));
        assert!(may_name_sessions(r#"{"sessionUpdate":"\u0073ubagent_update"}"#));
        assert!(may_name_sessions(r#"{"sessionUpdate":"session\u005fmessage"}"#));
    }
}
