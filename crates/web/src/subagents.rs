//! Sessions and their sub-agents' sessions, as shown in a tab.

use std::collections::HashMap;
use std::sync::Arc;

use switchboard_acp::{WireFormat, v2};
use switchboard_session::{Conversation, Entry, EntryKind, Session, Snapshot, Turn, TurnOutcome};

use super::live_recording::LiveRecording;

/// Maximum number of named ancestors besides the root; of longer chains the nearest are named.
const MOST_ANCESTORS: usize = 8;

/// The content of a tab: sessions at present, or at an earlier time.
#[derive(Clone, Copy)]
pub(crate) struct SessionSource<'a> {
    pub(crate) room: &'a LiveRecording,
    pub(crate) past: Option<&'a Conversation>,
}

impl SessionSource<'_> {
    /// Calls a function with all sessions. New records wait for the lock meanwhile, so the function must be fast.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Conversation) -> T) -> T {
        if let Some(past) = self.past {
            return look(past);
        }
        let preview = self.room.preview();
        match &*preview {
            Some(preview) => look(preview),
            None => {
                drop(preview);
                self.room.look(look)
            }
        }
    }

    /// Returns a session with the positions of its children.
    pub(crate) fn node(&self, id: &str) -> Option<SessionNode> {
        self.look(|conversation| SessionNode::of(conversation, id))
    }
}

/// Returns the first line of the first prompt, which is the name of a session until it has a title.
pub(crate) fn first_words(snapshot: &Snapshot) -> Option<String> {
    let said = snapshot.entries().take(NEAR).filter(|entry| is_said(entry)).find_map(Entry::as_message)?;
    let text = said.content().text();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LONGEST_NAME).collect())
}

/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 80;

/// Returns the turns of a session that have ended, by the position of their last entry. A turn without entries is left
/// out.
fn ended_turns(conversation: &Conversation, id: &str, snapshot: &Snapshot) -> HashMap<usize, EndedTurn> {
    let mut turns = HashMap::new();
    let mut next = snapshot.len();
    for turn in conversation.turns((!id.is_empty()).then_some(id)).rev() {
        if let (Some(end), true) = (turn.end(), turn.position() < next) {
            let failure = failure(turn).map(|reason| {
                let mut said = (turn.position()..next).take(NEAR);
                FailedTurn { reason, said: said.find(|place| snapshot.entry(*place).is_some_and(is_said)) }
            });
            let idle = match &end.outcome {
                TurnOutcome::Idle(idle) => Some(idle),
                _ => None,
            };
            turns.insert(
                next - 1,
                EndedTurn {
                    start: turn.position(),
                    at: end.at.0,
                    took: end.at.0.saturating_sub(turn.asked_at().0).max(0),
                    tokens: idle.and_then(|idle| Some(idle.usage.as_ref()?.total_tokens)),
                    is_cancelled: idle
                        .is_some_and(|idle| idle.stop_reason == Some(v2::StopReason::Cancelled)),
                    failure,
                },
            );
        }
        next = next.min(turn.position());
    }
    turns
}

/// Number of entries at the start of a turn among which the prompt is searched.
const NEAR: usize = 8;

fn is_said(entry: &Entry) -> bool {
    entry.kind() == EntryKind::UserMessage
}

/// Returns the reason of a turn's failure. A cancelled turn is not a failure.
fn failure(turn: &Turn) -> Option<String> {
    use v2::StopReason as Reason;
    let end = turn.end()?;
    let words = match &end.outcome {
        TurnOutcome::Idle(idle) => match (&idle.error, &idle.stop_reason) {
            (Some(error), _) => format!("The turn failed: {}", error.message),
            (None, Some(Reason::Error)) => "The turn failed; the agent does not say why.".to_owned(),
            (None, Some(Reason::MaxTokens)) => {
                "The turn ended early: there is no room for more tokens.".to_owned()
            }
            (None, Some(Reason::MaxTurnRequests)) => {
                "The turn ended early: it made too many requests.".to_owned()
            }
            (None, Some(Reason::Refusal)) => "The agent refuses to go on with this.".to_owned(),
            (None, Some(Reason::EndTurn | Reason::Cancelled | Reason::Unknown(_)) | None) => return None,
            (None, Some(Reason::More(none))) => none.never(),
        },
        TurnOutcome::Refused(error) => {
            format!("The agent did not take it: {} ({})", error.message, error.code)
        }
        TurnOutcome::ConnectionEnd => "The agent ended before it was done.".to_owned(),
        _ => return None,
    };
    Some(words)
}

/// Returns the session with an id. The empty id stands for messages without a session id.
pub(crate) fn session<'c>(conversation: &'c Conversation, id: &str) -> Option<&'c Session> {
    conversation.session((!id.is_empty()).then_some(id))
}

fn nothing_yet() -> Snapshot {
    Session::new(WireFormat::Any).snapshot()
}

/// A snapshot of a session, with the positions of its children.
pub(crate) struct SessionNode {
    pub(crate) id: Arc<str>,
    pub(crate) snapshot: Snapshot,
    pub(crate) parent: Option<Arc<str>>,
    /// Display name: the name of a sub-agent, the title, or the id.
    pub(crate) name: String,
    pub(crate) state: Option<v2::StateUpdate<'static>>,
    pub(crate) state_in_words: &'static str,
    /// Children that are shown in a tool call, by the call's id.
    by_call: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// All children, each with `true` if it is shown in a tool call. The others are shown at their subagent entries.
    children: HashMap<Arc<str>, bool>,
    /// Turns that have ended, by the position of their last entry.
    turns: HashMap<usize, EndedTurn>,
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedTurn {
    /// Position of its first entry.
    pub(crate) start: usize,
    /// Time of the end, in Unix milliseconds.
    pub(crate) at: i64,
    /// Duration in milliseconds.
    pub(crate) took: i64,
    pub(crate) tokens: Option<u64>,
    pub(crate) is_cancelled: bool,
    pub(crate) failure: Option<FailedTurn>,
}

/// A turn that failed or ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedTurn {
    /// The reason, as a sentence.
    pub(crate) reason: String,
    /// Position of the prompt, if the transcript has it.
    pub(crate) said: Option<usize>,
}

impl SessionNode {
    fn of(conversation: &Conversation, id: &str) -> Option<Self> {
        let snapshot = match session(conversation, id) {
            Some(session) => session.snapshot(),
            // Another session refers to it, but it has sent no update itself.
            None if conversation.parent(id).is_some() => nothing_yet(),
            None => return None,
        };
        let mut by_call: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
        let mut children = HashMap::new();
        for (child, parent) in conversation.children(id) {
            let child: Arc<str> = child.into();
            let call = parent.tool_call.as_ref().filter(|call| snapshot.tool_call(call).is_some());
            if let Some(call) = call {
                by_call.entry(Arc::clone(call)).or_default().push(Arc::clone(&child));
            }
            children.insert(child, call.is_some());
        }
        let parent = conversation.parent(id).map(|parent| Arc::clone(&parent.session));
        let turns = ended_turns(conversation, id, &snapshot);
        Some(SessionNode {
            id: id.into(),
            snapshot,
            parent,
            name: name(conversation, id),
            state: conversation.state(id).cloned(),
            state_in_words: conversation.state_in_words(id),
            by_call,
            children,
            turns,
        })
    }

    /// Returns the turn that ends with an entry.
    pub(crate) fn ended_turn(&self, position: usize) -> Option<&EndedTurn> {
        self.turns.get(&position)
    }

    /// Returns a session without any updates.
    pub(crate) fn empty(id: &str) -> Self {
        SessionNode {
            id: id.into(),
            snapshot: nothing_yet(),
            parent: None,
            name: id.to_owned(),
            state: None,
            state_in_words: "",
            by_call: HashMap::new(),
            children: HashMap::new(),
            turns: HashMap::new(),
        }
    }

    /// Returns the children that are shown in an entry, in the order of their first mention.
    pub(crate) fn inside(&self, entry: &Entry) -> &[Arc<str>] {
        match entry {
            Entry::ToolCall(call) => self.by_call.get(call.id()).map_or(&[], Vec::as_slice),
            Entry::Subagent(subagent) => match self.children.get_key_value(subagent.session_id()) {
                Some((child, false)) => std::slice::from_ref(child),
                _ => &[],
            },
            _ => &[],
        }
    }

    /// Returns `true` if a session is a child that is shown in a tool call.
    pub(crate) fn is_in_a_call(&self, child: &str) -> bool {
        self.children.get(child) == Some(&true)
    }
}

/// The id of a session with its display name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: Arc<str>,
    pub(crate) name: String,
}

/// Returns the display name of a session: the sub-agent's name, its title, or its id.
pub(crate) fn name(conversation: &Conversation, id: &str) -> String {
    let own = || session(conversation, id)?.title().filter(|title| !title.is_empty()).map(str::to_owned);
    conversation.name(id).or_else(own).unwrap_or_else(|| id.to_owned())
}

/// Returns the name of a sub-agent if it is a child of the session. For others the session's own text is shown.
pub(crate) fn name_of_child(conversation: &Conversation, session: &str, id: &str) -> Option<String> {
    let parent = conversation.parent(id).filter(|parent| *parent.session == *session);
    parent.and_then(|_| conversation.name(id))
}

/// Returns `true` if a session is running or waits for an action of the user.
pub(crate) fn is_active(conversation: &Conversation, id: &str) -> bool {
    use v2::StateUpdate::{RequiresAction, Running};
    matches!(conversation.state(id), Some(Running(_) | RequiresAction(_)))
}

/// Returns the ancestors of a session, from the root to its parent. Empty for a session without a parent.
pub(crate) fn ancestors(conversation: &Conversation, id: &str) -> Vec<Named> {
    let all: Vec<&Arc<str>> = conversation.ancestors(id).map(|parent| &parent.session).collect();
    let nearest = all.len().min(MOST_ANCESTORS);
    let named = |id: &Arc<str>| Named { id: Arc::clone(id), name: name(conversation, id) };
    // The empty id marks the ellipsis, which has no link.
    let gap = || Named { id: "".into(), name: "…".to_owned() };
    let beginning = match all[nearest..] {
        [] => vec![],
        [root] => vec![named(root)],
        [.., root] => vec![named(root), gap()],
    };
    beginning.into_iter().chain(all[..nearest].iter().rev().map(|id| named(id))).collect()
}

/// A session with pending questions.
pub(crate) struct Asking {
    pub(crate) id: Arc<str>,
    pub(crate) snapshot: Snapshot,
    /// The path from the root to this session. Empty for a session without a parent.
    pub(crate) whose: Vec<Named>,
}

/// Summary of a session and its descendants.
#[derive(Default)]
pub(crate) struct Below {
    /// The sessions with questions, the session itself first.
    pub(crate) asking: Vec<Asking>,
    /// Total number of pending questions.
    pub(crate) questions: usize,
    /// Number of active sub-agents.
    pub(crate) at_work: usize,
    /// Number of sub-agents.
    pub(crate) count: usize,
}

/// Summarizes a session and all its descendants. The tree has no cycles.
pub(crate) fn below(conversation: &Conversation, id: &str) -> Below {
    let mut below = Below::default();
    let mut open: Vec<&str> = vec![id];
    while let Some(id) = open.pop() {
        let before = open.len();
        let session = session(conversation, id);
        for (child, _) in conversation.children(id) {
            below.count += 1;
            below.at_work += usize::from(is_active(conversation, child));
            open.push(child);
        }
        open[before..].reverse();
        let Some(session) = session else { continue };
        let count = session.pending_permissions().count() + session.pending_elicitations().count();
        if count > 0 {
            below.questions += count;
            let whose = whose(conversation, id);
            below.asking.push(Asking { id: id.into(), snapshot: session.snapshot(), whose });
        }
    }
    below
}

/// Returns the path from the root to a session. Empty for a session without a parent.
fn whose(conversation: &Conversation, id: &str) -> Vec<Named> {
    let mut whose = ancestors(conversation, id);
    if !whose.is_empty() {
        whose.push(Named { id: id.into(), name: name(conversation, id) });
    }
    whose
}

/// A descendant of a session.
pub(crate) struct Descendant {
    pub(crate) named: Named,
    /// Depth below the session; 0 for a child.
    pub(crate) depth: usize,
    /// State as words.
    pub(crate) state: &'static str,
    /// Number of entries in its transcript.
    pub(crate) length: usize,
}

/// Returns at most `most` descendants of a session in pre-order.
pub(crate) fn descendants(conversation: &Conversation, id: &str, most: usize) -> Vec<Descendant> {
    let mut descendants = Vec::new();
    let mut open: Vec<(&str, usize)> = Vec::new();
    let expand = |open: &mut Vec<_>, parent, depth| {
        let before = open.len();
        open.extend(conversation.children(parent).map(|(child, _)| (child, depth)));
        open[before..].reverse();
    };
    expand(&mut open, id, 0);
    while let Some((child, depth)) = open.pop() {
        if descendants.len() >= most {
            break;
        }
        let own = conversation.session(Some(child));
        descendants.push(Descendant {
            named: Named { id: child.into(), name: name(conversation, child) },
            depth,
            state: conversation.state_in_words(child),
            length: own.map_or(0, |own| own.len()),
        });
        expand(&mut open, child, depth + 1);
    }
    descendants
}
