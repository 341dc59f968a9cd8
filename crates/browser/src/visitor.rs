//! A browser context with its own cookies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;

use crate::Page;
use crate::connection::Connection;

/// A set of cookies and storage, which is removed with its pages when this value is dropped.
#[derive(Debug)]
pub struct Visitor {
    connection: Arc<Connection>,
    context: String,
}

impl Visitor {
    pub(crate) fn new(connection: &Arc<Connection>) -> Visitor {
        let made = connection
            .call(None, "Target.createBrowserContext", &json!({}))
            .unwrap_or_else(|error| panic!("{error}"));
        let context = made["browserContextId"].as_str().unwrap_or_default().to_owned();
        Visitor { connection: Arc::clone(connection), context }
    }

    /// Opens another tab and waits until it is loaded.
    #[track_caller]
    #[must_use]
    pub fn open(&self, url: &str) -> Page {
        let page = self.blank_page();
        page.visit(url);
        page
    }

    /// Opens an empty tab, to be configured before navigation.
    #[track_caller]
    #[must_use]
    pub fn blank_page(&self) -> Page {
        Page::new(&self.connection, &self.context)
            .unwrap_or_else(|error| panic!("cannot open a page: {error}"))
    }

    /// Lets the pages of an origin read and write the clipboard without asking. All visitors share it: others
    /// wait until the returned value is dropped.
    pub fn allow_clipboard(&self, origin: &str) -> MutexGuard<'static, ()> {
        static CLIPBOARD: Mutex<()> = Mutex::new(());
        let alone = CLIPBOARD.lock().unwrap_or_else(PoisonError::into_inner);
        self.grant(origin, &["clipboardReadWrite", "clipboardSanitizedWrite"]);
        alone
    }

    /// Grants permissions to the pages of an origin.
    pub(crate) fn grant(&self, origin: &str, permissions: &[&str]) {
        let params =
            json!({ "browserContextId": self.context, "origin": origin, "permissions": permissions });
        self.connection
            .call(None, "Browser.grantPermissions", &params)
            .unwrap_or_else(|error| panic!("{error}"));
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let params = json!({ "browserContextId": self.context });
        let _ = self.connection.call(None, "Target.disposeBrowserContext", &params);
    }
}
