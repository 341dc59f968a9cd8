//! Lets a client of one version of ACP work with an agent of the other, and two of version 2 whose dialects differ.
//! What passes is translated with memory of what each side has seen, because one message of one version is often
//! several of the other, or a part of one; what cannot be carried over is reported, thing by thing, and never
//! dropped without a word. Nothing here does I/O or looks at a clock.
//!
//! - [`Bridge`] stands between two peers: [`Bridge::pass`] takes a line of either and gives [`Output`]: lines for either
//!   side, and each [`Loss`]. [`Bridge::handle`] and [`Bridge::drain`] are its two halves. [`BridgeOptions`] say what is known of the peers and
//!   what to do about losses ([`LossPolicy`]); [`LossReport`] counts them.
//! - [`Driver`] is a bridge with a clock: what programs use. Lines and losses are delivered to a [`Port`].
//! - [`Host`] is what surrounds a bridge: files and commands, for agents of version 1 that ask for them.
//! - [`RecordingBridge`] translates a recorded conversation of both sides.
//! - [`update_to_v1`], [`update_to_v2`] and [`Stateless`] translate one thing at a time, and fail with an
//!   [`Error`] that names element and reason where that is not enough.
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
//! // The second message repeats what was said and goes on: only the rest is sent.
//! assert!(matches!(&output[1], Output::Line { to: Side::Client, line } if line.contains(r#""text":"lo""#)));
//! // Version 1 has no updates of somebody's own.
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
mod machine;
mod map;
mod metadata;
mod native;
mod offered;
mod open_work;
mod options;
mod own_ids;
mod passthrough;
mod peers;
mod plain;
mod recorded_terminals;
mod recording;
mod role;
mod sessions;
mod stateless;
mod terminals;
mod terminals_as_text;
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

/// The example of the package's front page runs with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// So do those of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/bridge.md")]
struct Guide;
