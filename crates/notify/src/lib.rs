//! Notifies people when an agent waits for an answer, is done or has failed, while no page is open.
//!
//! - [`Notifier`] takes the events of a hub and sends notifications. It never blocks the hub: a target that does not
//!   respond delays only its own notifications.
//! - [`Target`] is a place for notifications, with the events and the amount of content that it gets: an ntfy topic, a
//!   webhook, a command, the desktop or a browser ([`Subscription`]).
//! - [`Outcomes`] has the number of notifications that were sent, suppressed and given up.
//!
//! There is one notification per question. It is sent only if the question waits for a while and no page shows its
//! session, is updated when the question changes, and is withdrawn when the question is resolved.
//!
//! ```
//! use switchboard_hub::{SessionEvent, SessionEventKind};
//! use switchboard_notify::{Endpoint, Notifier, NotifierOptions, Target};
//!
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let _entered = runtime.enter();
//! let target = Target::new("phone", Endpoint::ntfy("https://ntfy.sh/my-secret-topic", None)?);
//! let notifier = Notifier::start(NotifierOptions::new(vec![target], "https://hub.example.org"));
//! let died = SessionEventKind::AgentDied { reason: "exited with code 1".to_owned() };
//! # let died = SessionEventKind::Resolved { question: 0, by: None };
//! notifier.event(&SessionEvent::new("20261118-1", "claude", "/home/anna/project", died));
//! assert_eq!(notifier.outcomes()[0].0, "phone");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod delivery;
mod notice;
mod notifier;
mod planner;
mod push;
mod target;

pub use answers::{Answer, InvalidAnswer};
pub use notifier::{Gone, Notifier, NotifierOptions, StateFile, send_test};
pub use planner::Outcomes;
pub use push::{InvalidSubscription, PushKey, Subscription};
pub use target::{Address, Content, Endpoint, EventKind, Secret, Target, Viewer, WebhookFormat, WebhookKey};

/// Runs the example of the README as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
