//! A real Chromium for tests: it opens pages, clicks and types as a person does, and tells what the page showed,
//! asked for and complained about. Only for development.
//!
//! [`Browser`] is the process, [`Visitor`] a person's cookies and storage in it, [`Page`] one tab. A page is asked for
//! elements by a CSS selector, or by `selector :: text` for those that show a text or are named by it. Only visible
//! elements count.
//!
//! The client of the DevTools protocol is ours: the tests need a few of its commands, as JSON over a pipe, while published
//! clients are generated from the whole protocol. Other browsers are not driven: that would take a client for each, or
//! Playwright with Node.js.
//!
//! Nothing here sleeps, and every wait has an end. Where something does not come, the test fails with what was awaited
//! and what the page showed instead, and leaves a screenshot in `target/screenshots/failed/`.
//!
//! ```no_run
//! let visitor = switchboard_browser::Browser::shared().visitor();
//! let page = visitor.open("http://127.0.0.1:8000/");
//! page.click("button :: Send");
//! page.wait_for("article :: Thank you");
//! assert_eq!(page.complaints(), [""; 0]);
//! ```

mod chromium;
mod connection;
mod input;
mod media;
mod observed;
mod page;
mod site;
mod visitor;

pub use chromium::Browser;
pub use input::Held;
pub use media::{ColorScheme, Named, screenshots_folder};
pub use observed::Request;
pub use page::Page;
pub use site::serve;
pub use visitor::Visitor;
