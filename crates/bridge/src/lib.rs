//! Translation between the versions of ACP.

mod bridge;
mod calls;
mod elements;
mod error;
mod host;
mod loss;
mod options;
mod passage;
mod pieces;
mod plain;
mod recording;
mod sessions;
mod shared;
mod side;
mod stateless;
mod v1_client;
mod v2_client;

pub use bridge::{Bridge, Handled};
pub use error::Error;
pub use host::{Host, HostError, NoHost, TerminalStart};
pub use loss::{Loss, LossReport, Note, Severity};
pub use options::{BridgeOptions, Dialect, Limits, Policy};
pub use recording::{RecordedLine, RecordingBridge};
pub use shared::Output;
pub use side::{Moment, Side, Version};
pub use stateless::{Converted, Stateless, update_to_v1, update_to_v2};
pub use switchboard_diff::FileAtHand;
