//! The hub through its public interface: clients are connected in memory, and the agent is a small program.

#![allow(clippy::unwrap_used)]

mod access;
mod agents;
mod observers;
mod prompts;
mod questions;
mod sessions;
mod support;
