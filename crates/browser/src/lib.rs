//! A real Chromium for tests: it opens pages, clicks and types with real events, and reports the content,
//! requests and errors of a page. For development only.
//!
//! [`Browser`] is the process, [`Visitor`] a set of cookies and storage, [`Page`] one tab. Elements are
//! selected by a CSS selector, or by `selector :: text` for those that show a text or have it as their name.
//! Only visible elements count.
//!
//! The DevTools client is our own: the tests need a few commands, as JSON over a pipe, while published
//! clients are generated from the whole protocol. Other browsers are not supported: that would take a client
//! for each, or Playwright with Node.js.
//!
//! Nothing here sleeps, and every wait has a timeout. After a timeout the test fails with the awaited
//! condition and the content of the page, and leaves a screenshot in `target/screenshots/failed/`.
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
mod push;
mod site;
mod visitor;

pub use chromium::Browser;
pub use input::Held;
pub use media::{ColorScheme, Named, screenshots_folder};
pub use observed::Request;
pub use page::Page;
pub use site::serve;
pub use visitor::Visitor;
