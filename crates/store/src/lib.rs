//! Durable storage for ACP sessions: an append-only journal in one SQLite file, with the state at any
//! sequence number and full-text search. Acknowledged records survive a crash and a power failure. Several
//! processes can write different sessions into one store and read while others write.
//!
//! - [`Store`] is the file. It lists, reads, follows, searches and deletes sessions.
//! - [`Recorder`] writes one session; each [`Receipt`] tells when its [`Record`] is durable.
//! - [`Records`] and [`Tail`] read a session and report missing records as [`Item::Gap`].
//! - [`State`] is the result of folding the messages up to a sequence number with the session engine.
//! - [`Search`] finds [`Hit`]s; [`Redaction`] removes secrets from exported messages.
//! - [`Token`] and [`Role`] control access to the sessions of a hub; [`Hosted`] describes those sessions.
//!
//! ```
//! use switchboard_store::{About, Channel, Record, Search, Store};
//!
//! # let folder = tempfile::tempdir()?;
//! let store = Store::open(folder.path().join("sessions.sqlite3"))?;
//! let mut recorder = store.begin(&About { agent: Some("demo".into()), ..About::default() })?;
//! let line = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":
//!     {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"The build is green."}}}}"#;
//! recorder.append(Record::new(Channel::ToClient, line))?.wait()?;
//!
//! let hits = store.search(&Search { query: "build green".into(), ..Search::default() })?;
//! assert_eq!(hits[0].excerpt, "The build is green.");
//! let state = store.state(recorder.id(), None)?;
//! assert_eq!(state.conversation.session(Some("s-1")).unwrap().len(), 1);
//! recorder.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod block;
mod catalog;
mod contents;
mod error;
mod exchange;
mod free_space;
mod hosted;
mod hub_note;
mod indexing;
mod kept;
mod live;
mod lock;
mod observe;
mod private;
mod progress;
mod queue;
mod read;
mod record;
mod recorder;
mod redact;
mod removal;
mod schema;
mod search;
mod segment;
mod signal;
mod statistics;
mod store;
mod superseded;
mod text;
mod wal;
mod window;
mod writer;

pub use access::{Role, Token, TokenAccess, TokenLimits};
pub use catalog::Sizes;
pub use error::{Result, StoreError};
pub use exchange::{LineError, began, parse_line, to_first_line, to_line};
pub use hosted::Hosted;
pub use hub_note::apply_hub_note;
pub use private::Exposed;
pub use read::{Gap, Records, Tail};
pub use record::{About, Channel, Filter, Item, MAX_MESSAGE, Record, Summary};
pub use recorder::{Receipt, Recorder};
pub use redact::{Redaction, Secret};
pub use search::{Hit, Search};
pub use statistics::{Share, Statistics};
pub use store::{Repair, Settings, Store};
pub use superseded::Withdrawals;
pub use switchboard_acp::Moment;
pub use text::{Text, TextKind, texts};
pub use wal::LogDamage;
pub use window::State;

/// Runs the README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
