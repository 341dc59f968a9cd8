//! Rules that answer an agent's permission requests: over any agent, in both versions of the protocol.
//!
//! A request is judged over the folded tool call, never over the request alone. [`Subject`] is what it asks for, in one
//! form for all agents, and says why nobody can know that where it is so; [`Policy`] is a file of rules, and
//! [`Policy::judge`] makes a [`Decision`] of the two, which [`Decision::answer`] turns into one of the offered options.
//! Everything fails closed: what is cut, guessed or cannot be parsed can be denied by a rule, but never allowed.
//!
//! - [`Subject::of`] makes a subject of the session that asks, which somebody has folded already: a hub, a client or a page. It
//!   looks at the [outline](switchboard_session::Snapshot::tool_call_outline) of a tool call, so that it does not matter how
//!   much of the session is kept.
//! - [`QuestionReader`] is for whoever has no session: a bridge that only passes messages on, and recordings. It reads the
//!   messages of a connection, keeps outlines alone, and gives each [`Question`] with its subject.
//! - [`Draft`] makes the narrowest rule of a request, for a client that offers "always allow"; [`PastQuestions`] pairs the
//!   questions of a recording with their answers.
//! - [`Host`] is what has to be known of the machine: links, hard links, the home directory.
//! - Nothing here does I/O or looks at a clock.
//!
//! ```
//! use switchboard_policy::{NoFiles, QuestionReader, Policy, Scene, Verdict};
//!
//! let policy = Policy::parse("[[rule]]\nid = \"no-push\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]\n", &NoFiles::default())?;
//! let mut reader = QuestionReader::new("/project");
//! let line = r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","title":"Push?",
//!     "subject":{"type":"tool_call","toolCall":{"toolCallId":"c","kind":"execute","rawInput":{"command":"cd x && git -C . push"}}},
//!     "options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]}}"#;
//! let question = reader.read(line, None, Default::default()).remove(0);
//! let decision = policy.judge(&question.subject, &NoFiles::default()).offered(&question.options);
//! assert_eq!((decision.verdict, decision.rule.as_deref()), (Verdict::Deny, Some("no-push")));
//! # Ok::<(), switchboard_policy::PolicyError>(())
//! ```

mod command;
mod draft;
mod error;
mod glob;
mod host;
mod judge;
mod past;
mod path;
mod policy;
mod program;
mod question_reader;
mod relevance;
mod rule;
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
pub use subject::{Operation, Scene, Source, Subject, SubjectPath};

/// The example of the package's front page runs with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
