//! What the tests and benchmarks share: generated streams, recordings of real peers, and a stopwatch that
//! compares contenders in one run. Only for development; it knows the wire as plain JSON and none of the crates.
//!
//! - [`stream`] makes the messages of a long session, the same ones each time.
//! - [`conversations`] makes up conversations of every kind, and [`transcript`] reads what a program shows of them.
//! - [`recordings`] reads recorded traffic of real agents, where a folder of it is at hand.
//! - [`FaultProxy`] is a bad network between a client and a server, [`Gate`] one that can be cut.
//! - `Collector` (feature `collector`) stands in for a collector of OpenTelemetry's.
//! - [`NatsServer`] is a real NATS server for a test.
//! - [`code_blocks`] and [`links`] are what pages of documentation hold.
//! - [`Contest`] times contenders side by side and prints their ratios.
//! - [`run_on_mount`] runs a test on a small disk, or one that cannot be written.
//! - [`assert_every_file_is_a_module`] guards against test files that nobody compiles.
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
pub use recordings::{Recorded, Recording, recordings};
pub use stream::{TagPlace, stream};
