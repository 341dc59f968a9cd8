//! Recorded ACP agents, played again: a recording becomes a [`Script`] of what its agent did, and a [`Player`] does it once
//! more for any client. Nothing here does I/O or looks at a clock.
//!
//! ```
//! use std::time::Duration;
//!
//! use switchboard_replay::{Player, ScriptReader};
//! use switchboard_store::{Channel, Record};
//!
//! let mut reader = ScriptReader::default();
//! for (channel, line) in [
//!     (Channel::ToAgent, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}"#),
//!     (Channel::ToClient, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"capabilities":{}}}"#),
//! ] {
//!     reader.take(&Record::new(channel, line));
//! }
//! let mut player = Player::new(reader.finish(), 2, None);
//! player.take(r#"{"jsonrpc":"2.0","id":"mine","method":"initialize","params":{"protocolVersion":2}}"#, Duration::ZERO);
//! assert!(player.next(Duration::ZERO).unwrap().contains(r#""id":"mine""#));
//! ```

mod player;
mod script;

pub use player::Player;
pub use script::{
    Action, RecordedAnswer, Script, ScriptReader, ScriptStep, SessionScript, update_line, wants_history,
};

/// The example of the package's front page runs with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
