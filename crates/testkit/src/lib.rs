//! Helpers for tests and benchmarks: generated streams, recordings of real peers, and a stopwatch that
//! compares contenders in one run. For development only; it treats messages as plain JSON and depends on none
//! of the crates.
//!
//! - [`stream`] generates the messages of a long session deterministically.
//! - [`conversations`] generates conversations of every kind, and [`transcript`] reads how a program displays them.
//! - [`recordings`] reads recorded traffic of real agents if a folder is configured.
//! - [`FaultProxy`] is an unreliable network between a client and a server, [`Gate`] one that can be
//!   interrupted.
//! - `Collector` (feature `collector`) is an OpenTelemetry collector.
//! - [`PushBrowser`] reads what a browser that is subscribed to Web Push would.
//! - [`NatsServer`] is a real NATS server for a test.
//! - [`code_blocks`] and [`links`] extract code and links from documentation.
//! - [`Contest`] times contenders side by side and prints their ratios.
//! - [`run_on_mount`] runs a test on a small or read-only disk.
//! - [`assert_every_file_is_a_module`] detects test files that are not compiled.
//!
//! ```
//! let lines = switchboard_testkit::stream(100, switchboard_testkit::TagPlace::First);
//! assert_eq!(lines.len(), 100);
//! assert!(lines[0].starts_with(r#"{"jsonrpc":"2.0""#));
//! ```

#[cfg(feature = "collector")]
mod collector;
mod contest;
pub mod conversations;
mod fault_proxy;
mod gate;
mod modules;
mod mounts;
mod nats;
mod pages;
mod push;
mod recordings;
mod stream;
pub mod transcript;

#[cfg(feature = "collector")]
pub use collector::{Answers, Collector, SeenNumber, SeenSpan};
pub use contest::{Contest, thread_time};
pub use fault_proxy::{FAULTS, FaultProxy};
pub use gate::Gate;
pub use modules::assert_every_file_is_a_module;
pub use mounts::{Mount, run_on_mount};
pub use nats::NatsServer;
pub use pages::{CodeBlock, code_blocks, links};
pub use push::PushBrowser;
pub use recordings::{Recorded, Recording, recordings};
pub use stream::{TagPlace, stream};
