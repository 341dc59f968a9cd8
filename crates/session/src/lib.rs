//! State of an ACP session. [`Session`] folds the updates that an agent sends into a transcript according to
//! the protocol, and reports the changes of each update. Pure: no I/O, clock or threads.
//!
//! - [`Session`] folds: [`Session::apply`] for updates, [`Session::open_permission`] and similar for the
//!   agent's questions, [`Session::begin_replay`] for history. It derefs to [`Snapshot`], which has all read methods.
//! - [`Snapshot`] is the session at one moment: cheap to take, readable on another thread.
//! - [`Entry`] is one item of the transcript; [`Content`] is the content of a message or a tool call.
//! - [`Changes`] are the effects of one update, for rendering.
//! - [`Conversation`] folds all messages of a connection: sessions, prompts ([`Turn`]), questions and
//!   answers.
//!
//! ```
//! use switchboard_acp::{WireFormat, Wire, v2};
//! use switchboard_session::{EntryKind, Session};
//!
//! let mut session = Session::new(WireFormat::Any);
//! for line in [
//!     r#"{"sessionUpdate":"agent_message_chunk","messageId":"m-1","content":{"type":"text","text":"Look"}}"#,
//!     r#"{"sessionUpdate":"tool_call_update","toolCallId":"c-1","title":"Read conf.json"}"#,
//!     r#"{"sessionUpdate":"agent_message_chunk","messageId":"m-1","content":{"type":"text","text":"ing..."}}"#,
//! ] {
//!     session.apply(&v2::SessionUpdate::decode(line, WireFormat::Any)?);
//! }
//! let message = session.message(EntryKind::AgentMessage, "m-1").unwrap();
//! assert_eq!(message.content().text(), "Looking...");
//! assert_eq!(session.entries().map(|entry| entry.id()).collect::<Vec<_>>(), ["m-1", "c-1"]);
//! # Ok::<(), switchboard_acp::DecodeError>(())
//! ```

mod bytes;
mod change;
mod content;
mod conversation;
mod document;
mod entry;
mod error;
mod form;
mod index;
mod json;
mod outline;
mod patch;
mod prompt_title;
mod references;
mod replay;
mod request;
mod requests;
mod segment;
mod session;
mod shared_vec;
mod short_text;
mod snapshot;
mod subagent;
mod subagent_tree;
mod turn;
mod update;

pub use bytes::Bytes;
pub use change::{
    Change, Changes, ContentChange, EntryChange, EntryField, FieldChange, FieldChanges, RequestEvent,
};
pub use content::{Attached, Block, Content, Item};
pub use conversation::{AgentQuestion, AuthStatus, Conversation, ConversationError, Decoded, Folded, Step};
pub use entry::{Compaction, Entry, EntryKind, Message, Origin, Terminal, ToolCall};
pub use error::SessionError;
pub use form::{Choice, Form, FormFault, FormField, check_elicitation};
pub use outline::{TerminalOutline, ToolCallOutline};
pub use prompt_title::{prompt_title, prompt_title_in};
pub use references::{
    StartedSession, may_name_sessions, rename_sessions, sessions_started_by, sessions_started_in,
};
pub use request::{Decider, Elicitation, Permission, Settlement};
pub use session::{Session, TERMINAL_OUTPUT_LIMIT};
pub use snapshot::{Activity, Plan, Snapshot, Usage};
pub use subagent::{SessionMessage, Subagent};
pub use subagent_tree::{
    Linked, LinkedSession, MAX_ANCESTORS, MAX_SUBAGENTS, NotLinked, Parent, SubagentTree,
};
pub use switchboard_acp::{Moment, Side};
pub use turn::{Turn, TurnEnd, TurnOutcome};
pub use update::entry_of_update;

/// Runs the examples of the guide as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/session-engine.md")]
struct Guide;

/// Runs the README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
