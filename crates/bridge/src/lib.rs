//! Lets a client of one ACP version work with an agent of the other, and connects version 2 peers whose
//! dialects differ.
//!
//! Translation is stateful, because one message of one version often corresponds to several of the other, or
//! to a part of one. Information that cannot be carried over is reported as a [`Loss`] and never dropped
//! silently. This crate does no I/O and reads no clock.
//!
//! - [`Bridge`] connects two peers: [`Bridge::pass`] takes a line of either and returns [`Output`]: lines for
//!   either side, and losses. [`Bridge::handle`] and [`Bridge::drain`] are its two halves. [`BridgeOptions`]
//!   describe the peers and the treatment of losses ([`LossPolicy`]); [`LossReport`] counts them.
//! - [`Driver`] is a bridge with a clock, for use in programs. It delivers lines and losses to a [`Port`].
//! - [`Host`] provides files and commands to version 1 agents that request them.
//! - [`RecordingBridge`] translates a recorded conversation of both sides.
//! - [`update_to_v1`], [`update_to_v2`] and [`Stateless`] translate one message at a time without state. They
//!   fail with an [`Error`] that names element and reason where state would be needed.
//!
//! ```
//! use switchboard_bridge::{Bridge, BridgeOptions, Moment, Output, Side, Version};
//!
//! // An editor of version 1 with an agent of version 2.
//! let mut bridge = Bridge::new(BridgeOptions::between(Version::V1, Version::V2));
//! let update = |update: &str| {
//!     format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#)
//! };
//! let mut output = Vec::new();
//! for line in [
//!     update(r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"Hel"}}"#),
//!     update(r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"Hello"}]}"#),
//!     update(r#"{"sessionUpdate":"_weather","rain":true}"#),
//! ] {
//!     output.extend(bridge.pass(Side::Agent, &line, Moment(0)));
//! }
//! // The second message repeats the first chunk and adds to it: only the rest is sent.
//! assert!(matches!(&output[1], Output::Line { to: Side::Client, line } if line.contains(r#""text":"lo""#)));
//! // Version 1 has no custom updates.
//! assert!(matches!(&output[2], Output::Loss(loss) if loss.message == "_weather"));
//! assert_eq!(bridge.losses().total(), 1);
//! ```

mod bridge;
mod calls;
mod context;
mod convert;
mod driver;
mod echo;
mod error;
mod fingerprint;
mod host;
mod loss;
mod map;
mod metadata;
mod native;
mod optional_methods;
mod options;
mod own_ids;
mod passthrough;
mod peers;
mod pending_work;
mod plain;
mod recorded_terminals;
mod recording;
mod role;
mod sessions;
mod stateless;
mod terminals;
mod terminals_as_text;
mod translator;
mod v1_to_v2;
mod v2_to_v1;

pub use bridge::{Bridge, Handled, Remembered};
pub use context::Output;
pub use driver::{Driver, Outputs, Port};
pub use error::Error;
pub use host::{Host, HostError, NoHost, TerminalStart};
pub use loss::{Loss, LossReport, Note, Severity};
pub use options::{BridgeOptions, Dialect, Limits, LossPolicy};
pub use recording::{RecordingBridge, TranslatedLine};
pub use stateless::{
    Converted, Stateless, permission_to_v2, read_v1_permission, read_v1_update, update_to_v1, update_to_v2,
};
pub use switchboard_acp::{Moment, Side, Version};
pub use switchboard_diff::FileAtHand;

/// Runs the example of the package's README with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Runs the examples of the guide with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/bridge.md")]
struct Guide;
