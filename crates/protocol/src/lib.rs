//! Wire types of ACP, the Agent Client Protocol, versions 1 and 2, for programs that must preserve all data:
//! bridges, recorders, inspectors, and clients and agents with peers of any version. Decoding borrows from the
//! text, keeps unknown data, and locates every error exactly. No I/O.
//!
//! - [`v2`] and [`v1`] contain the types; [`WireFormat`] selects the form of a text.
//! - [`Wire`] is the trait of all types: [`Wire::decode`] (strict), [`Wire::decode_tolerant`] (for peers),
//!   [`Wire::encode`].
//! - [`Field`] is a field of an update: keep, clear or set.
//! - [`rpc`] is the JSON-RPC envelope, [`Correlator`] matches responses with requests, and [`detect`] detects the
//!   version and dialect a peer speaks. [`RecordedLine`] is a line of a recording.
//! - [`extensions`] declares Switchboard's own `_meta` keys, methods and log records.
//! - [`check`] judges whole conversations, [`json_schema`] describes the types.
//! - [`display`] makes hidden characters in untrusted text visible.
//!
//! ```
//! use switchboard_acp::{Field, WireFormat, Wire, v2};
//!
//! let text = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c-7","title":null,"status":"_queued","by":"me"}"#;
//! let v2::SessionUpdate::ToolCallUpdate(update) = v2::SessionUpdate::decode(text, WireFormat::Spec)? else {
//!     unreachable!("the tag says what it is");
//! };
//! assert_eq!(update.title, Field::Clear);
//! assert_eq!(update.kind, Field::Keep);
//! assert!(update.status.value().unwrap().is_custom());
//! assert_eq!(update.extra.get("by").unwrap().as_str(), r#""me""#);
//!
//! let error = v2::SessionUpdate::decode(r#"{"sessionUpdate":"tool_call_update"}"#, WireFormat::Spec).unwrap_err();
//! assert_eq!(error.to_string(), r#"expected the key "toolCallId", found an object without it"#);
//! # Ok::<(), switchboard_acp::DecodeError>(())
//! ```
//!
//! Later versions of the protocol have more fields and values. So create objects with `new` and setters, or with
//! `..`; destructure them with `..`; and give a match a `_` arm. Then a new version of this crate is compatible:
//!
//! ```
//! use switchboard_acp::{AbsolutePath, v2};
//!
//! let path = AbsolutePath::parse("/home/ada/notes.txt")?;
//! let location = v2::ToolCallLocation { line: None, ..v2::ToolCallLocation::new(path) };
//! let v2::ToolCallLocation { path, line, .. } = location;
//! assert_eq!((path.as_str(), line), ("/home/ada/notes.txt", None));
//! # Ok::<(), switchboard_acp::DecodeError>(())
//! ```
//!
//! Code that would break does not compile today:
//!
//! ```compile_fail
//! fn line(location: switchboard_acp::v2::ToolCallLocation<'_>) -> bool {
//!     let switchboard_acp::v2::ToolCallLocation { path: _, line, meta: _, extra: _ } = location;
//!     line.is_some()
//! }
//! ```
//!
//! ```compile_fail
//! fn is_good(status: &switchboard_acp::v2::ToolCallStatus) -> bool {
//!     use switchboard_acp::v2::ToolCallStatus as Status;
//!     match status {
//!         Status::Completed => true,
//!         Status::Pending | Status::InProgress | Status::Paused => false,
//!         Status::Failed | Status::Cancelled | Status::Unknown(_) => false,
//!     }
//! }
//! ```

mod correlator;
mod error;
mod field;
mod interop;
mod json;
mod macros;
mod moment;
mod more;
mod recorded;
mod schema;
mod senders;
mod shared;
mod side;
mod type_names;
mod values;
mod wire;
mod wire_format;

pub mod check;
pub mod detect;
pub mod display;
pub mod extensions;
pub mod rpc;
pub mod v1;
pub mod v2;

pub use correlator::{Correlator, OpenRequest, TooManyOpen};
pub use error::{DecodeError, Diagnostic};
pub use field::Field;
pub use json::raw::{Extra, Raw};
pub use moment::Moment;
#[doc(hidden)]
pub use more::{More, NoMore};
pub use recorded::{LineForm, Recorded, RecordedLine};
pub use registry::{WireType, is_request, json_schema, wire_type, wire_types};
pub use senders::{SenderTracker, caller_of};
pub use side::{Side, Version};
pub use values::{
    AbsolutePath, Base64, ByteSize, Currency, LineNumber, Map, Meta, NonEmptyText, Number, ObjectKeyword,
    Priority,
};
pub use wire::{Object, UnknownVariant, Wire};
pub use wire_format::WireFormat;

mod registry;

/// Text that is borrowed from its message, or owned.
pub type Text<'a> = std::borrow::Cow<'a, str>;

/// Runs the Rust examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;

/// Runs the package README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
