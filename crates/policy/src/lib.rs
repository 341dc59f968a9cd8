//! Rules that answer an agent's permission requests, for any agent and both versions of the protocol.
//!
//! A request is evaluated over the folded tool call, never over the request alone. [`Subject`] describes the
//! requested action in one form for all agents, and the reason if it is not fully known. [`Policy`] is a file
//! of rules. [`Policy::evaluate`] evaluates the two to a [`Decision`], and [`Decision::answer`] turns that into
//! one of the offered options. Everything fails closed: a request that is truncated, guessed or cannot be
//! parsed can be denied by a rule, but never allowed.
//!
//! - [`Subject::of`] creates a subject from a session that the caller has folded already, such as a hub, a
//!   client or a page. It uses the [outline](switchboard_session::Snapshot::tool_call_outline) of a tool
//!   call, so it does not depend on how much of the session is kept.
//! - [`QuestionReader`] is for callers without a session: a bridge that only forwards messages, and
//!   recordings. It reads the messages of a connection, keeps only outlines, and returns each [`Question`]
//!   with its subject.
//! - [`Draft`] creates the narrowest rule for a request, for a client that offers "always allow". [`PastQuestions`] pairs
//!   the questions of a recording with their answers.
//! - [`Host`] provides information about the machine: links, hard links, the home directory.
//! - This crate does no I/O and reads no clock.
//!
//! ```
//! use switchboard_policy::{NoFiles, QuestionReader, Policy, RequestContext, Verdict};
//!
//! let policy = Policy::parse("[[rule]]\nid = \"no-push\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]\n", &NoFiles::default())?;
//! let mut reader = QuestionReader::new("/project");
//! let line = r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","title":"Push?",
//!     "subject":{"type":"tool_call","toolCall":{"toolCallId":"c","kind":"execute","rawInput":{"command":"cd x && git -C . push"}}},
//!     "options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]}}"#;
//! let question = reader.read(line, None, Default::default()).remove(0);
//! let decision = policy.evaluate(&question.subject, &NoFiles::default()).offered(&question.options);
//! assert_eq!((decision.verdict, decision.rule.as_deref()), (Verdict::Deny, Some("no-push")));
//! # Ok::<(), switchboard_policy::PolicyError>(())
//! ```

mod command;
mod draft;
mod error;
mod evaluation;
mod glob;
mod host;
mod past;
mod path;
mod policy;
mod program;
mod question_reader;
mod relevance;
mod rule;
mod sandbox;
mod shell;
mod sketch;
mod subject;

pub use draft::{Draft, candidate_rules};
pub use error::PolicyError;
pub use host::{Host, NoFiles, Node};
pub use past::{PastAnswer, PastQuestion, PastQuestions};
pub use policy::{Answer, Decision, Mode, Policy, Verdict};
pub use program::Program;
pub use question_reader::{Question, QuestionReader, Version1};
pub use relevance::Relevance;
pub use rule::PROTECTED_NAMES;
pub use sandbox::{
    HostPattern, PathEffect, PathRule, PathRules, SandboxMode, SandboxNetwork, SandboxSettings, is_host_name,
    matches_variable,
};
pub use subject::{Operation, RequestContext, Source, Subject, SubjectPath};

/// Runs the example of the package's README with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
