//! Real editors and other clients for tests: installed from their registries, started in an empty home, and driven by mouse and
//! keyboard. For development only; `cargo xtask test --editors` sets the two environment variables that the tests need.
//!
//! - [`Editors`] installs the clients, once, into a folder that later runs use again.
//! - [`Place`] is a home and a working folder of one test. It ends every process that was started in it.
//! - [`VsCode`], [`Marimo`] and [`JupyterLab`] are servers with a page, which the tests open in Chromium.
//! - [`Terminal`] runs a client with a text interface, and reads its screen.
//!
//! Nothing here knows Switchboard's internals: the tests use the program as people do. A failure panics with the awaited
//! condition and the end of the log of the client.

mod editors;
mod jupyter;
mod marimo;
mod place;
mod running;
mod terminal;
mod vscode;
mod wait;

pub use editors::Editors;
pub use jupyter::JupyterLab;
pub use marimo::{AgentPanel, Marimo};
pub use place::Place;
pub use running::Running;
pub use terminal::Terminal;
pub use vscode::{Chat, VsCode};

pub use wait::wait_until;
