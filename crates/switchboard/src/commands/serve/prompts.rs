//! Prompts of programs that are no ACP clients: `POST /prompt` starts one, and `GET /prompt/ID` returns its result.
//!
//! The client chooses the id, which is the idempotency key: a prompt that is sent again is not run again. It is
//! registered durably before anything is sent to an agent, so after a crash it is known that it may have run.

mod registry;
mod routes;
mod runner;

pub(super) use self::routes::{PromptService, routes};
