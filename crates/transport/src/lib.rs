//! JSON-RPC between processes: one JSON value per line over any pair of byte streams, requests and responses
//! in both directions, and child processes that are ended together with all their descendants. Everything is
//! bounded: a slow reader slows its writer (backpressure), an overlong line is an error instead of unbounded
//! memory, and a call without a response fails with the reason, such as a timeout or the exit of the peer's
//! process. The crate does not interpret methods.
//!
//! - [`Program`] starts a [`Child`] and connects to it; [`Connection::new`] takes any two streams and
//!   [`Connection::pair`] creates two ends in memory.
//! - A [`Connection`] has two halves. The [`Caller`] makes calls; a [`PendingCall`] can be cancelled and
//!   returns an [`Answer`]. The [`Inbox`] returns one [`Event`] at a time and thereby drives the connection.
//! - An [`IncomingRequest`] is answered exactly once. An [`Anomaly`] is an unexpected message or line of the
//!   peer; it never breaks the connection.
//! - Lower level, to forward lines without parsing them: [`LineReader`] and [`LineDecoder`] split bytes into
//!   [`Frame`]s, [`Outbox`] writes lines, [`RequestTable`] matches responses with requests.
//! - With the feature `remote`, `Remote` connects to an agent at a URL; with `serve`, the module `server`
//!   accepts clients over the network.
//! - [`Error`] is a failure of this side or the connection. An error response of the peer is an [`Answer`]
//!   instead.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), switchboard_transport::Error> {
//! use switchboard_acp::{WireFormat, v2};
//! use switchboard_transport::{Connection, ConnectionOptions, Event, Json};
//!
//! let (mut client, mut agent) = Connection::pair(ConnectionOptions::default(), ConnectionOptions::default());
//! tokio::spawn(async move {
//!     while let Some(event) = agent.inbox.next().await {
//!         match event {
//!             Event::Request(request) if request.method() == "session/close" => {
//!                 request.respond(Json::default()).await.unwrap();
//!             }
//!             Event::Request(request) => request.method_not_found().await.unwrap(),
//!             Event::Notification(_) | Event::Anomaly(_) | Event::Closed(_) => {}
//!         }
//!     }
//! });
//! let params = Json::of(&v2::CloseSessionRequest::new("s-1"), WireFormat::Spec);
//! let call = client.caller.call("session/close", params);
//! let answer = client.inbox.until(call, |_event| {}).await?;
//! assert_eq!(&*answer.into_result().unwrap(), "{}");
//! # Ok(())
//! # }
//! ```

mod call;
#[cfg(any(feature = "remote", feature = "serve"))]
mod certificate;
mod connection;
mod decoration;
mod envelope;
mod error;
mod framing;
mod inbox;
mod incoming;
mod invalid_line;
mod oddities;
mod outbox;
mod process;
mod reader;
#[cfg(feature = "remote")]
mod remote;
mod requests;
#[cfg(any(feature = "remote", feature = "serve"))]
mod routing;
mod salt;
#[cfg(feature = "serve")]
pub mod server;
mod tap;
mod text;

pub use self::oddities::Oddities;
pub use call::{Answer, Deadline, PendingCall};
pub use connection::{Caller, Connection, ConnectionOptions, KnownMethods};
pub use error::{Closure, ClosureCause, Error, ProcessEnd};
pub use framing::{DEFAULT_MESSAGE_LIMIT, Frame, LineDecoder, Noise, NoiseKind, Substitute, TooLong};
pub use inbox::{Inbox, Received};
pub use incoming::{Anomaly, Cancellation, Event, IncomingNotification, IncomingRequest};
pub use invalid_line::invalid_line_answer;
pub use outbox::{Outbox, OutboxOptions};
pub use process::{
    Child, ChildInput, ChildOutput, Confined, Confinement, ConfinementNotice, Exit, Grace, OutputListener,
    ProcessLease, Program, ProgramStart, Spawned, StandardErrorLine, StandardErrorLines,
};
pub use reader::LineReader;
#[cfg(feature = "remote")]
pub use remote::{Remote, RemoteError, RemoteStream, client_tls};
pub use requests::{IncomingRequests, Match, OutgoingRequests, RequestRefusal, RequestTable};
pub use salt::unique_salt;
pub use tap::{Direction, Tap, TapEvent};
pub use text::{Json, SharedText};

/// Runs the README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
