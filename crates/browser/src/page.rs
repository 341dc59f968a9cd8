//! One tab: navigation, waits and queries.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Request;
use crate::connection::{Connection, lock};
use crate::observed::Observed;

/// Timeout for a condition. Long, because test machines are busy; passing tests never wait that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(80);

/// Helper in every script: the visible elements of a selector that show a text or have it as their name.
const FIND: &str = "
    const named = element => ['aria-label', 'title', 'placeholder'].map(name => element.getAttribute(name) ?? '');
    const shows = (element, text) => [element.innerText ?? element.textContent, element.value ?? '', ...named(element)]
        .some(shown => String(shown).includes(text));
    const find = (selector, text) => [...document.querySelectorAll(selector)].filter(element =>
        element.checkVisibility({ visibilityProperty: true }) && (text === undefined || shows(element, text)));";

/// One tab of a browser. It closes when this value is dropped.
#[derive(Debug)]
pub struct Page {
    connection: Arc<Connection>,
    target: String,
    session: String,
    observed: Arc<Mutex<Observed>>,
    patience: Duration,
}

impl Page {
    pub(crate) fn new(connection: &Arc<Connection>, context: &str) -> Result<Page, String> {
        // A window each, so that none is in the background.
        let params = json!({ "url": "about:blank", "browserContextId": context, "newWindow": true });
        let made = connection.call(None, "Target.createTarget", &params)?;
        let target = made["targetId"].as_str().unwrap_or_default().to_owned();
        let params = json!({ "targetId": target, "flatten": true });
        let attached = connection.call(None, "Target.attachToTarget", &params)?;
        let session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        let observed = Arc::default();
        let page = Page { connection: Arc::clone(connection), target, session, observed, patience: LIMIT };
        connection.observe(&page.session, Arc::clone(&page.observed));
        for domain in ["Page", "Runtime", "Log", "Network", "Audits", "Inspector"] {
            page.call(&format!("{domain}.enable"), &json!({}))?;
        }
        page.call("Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }))?;
        page.call("Emulation.setDeviceMetricsOverride", &metrics(1280, 800))?;
        Ok(page)
    }

    /// Sets the timeout for slow conditions.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Page {
        self.patience = patience;
        self
    }

    pub(crate) fn call(&self, method: &str, params: &Value) -> Result<Value, String> {
        self.connection.call(Some(&self.session), method, params)
    }

    pub(crate) fn observed(&self) -> &Mutex<Observed> {
        &self.observed
    }

    /// Runs a command that only fails if the page is gone.
    #[track_caller]
    pub(crate) fn command(&self, method: &str, params: &Value) -> Value {
        self.call(method, params).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Navigates to a URL and waits until it is loaded.
    #[track_caller]
    pub fn visit(&self, url: &str) {
        let went = self.command("Page.navigate", &json!({ "url": url }));
        if let Some(error) = went["errorText"].as_str() {
            panic!("cannot open {url}: {error}");
        }
        self.wait_until("document.readyState === 'complete'");
    }

    /// Reloads the page.
    #[track_caller]
    pub fn reload(&self) {
        // The variable disappears with the old page.
        self.eval("globalThis.beforeReload = true");
        self.command("Page.reload", &json!({}));
        self.wait_until("!globalThis.beforeReload && document.readyState === 'complete'");
    }

    /// Evaluates a JavaScript expression, which may be a promise. `find(selector, text)` returns visible
    /// elements.
    ///
    /// # Panics
    ///
    /// If the expression throws.
    #[track_caller]
    pub fn eval(&self, expression: &str) -> Value {
        self.script(&value_of(expression)).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    pub(crate) fn script(&self, script: &str) -> Result<Value, String> {
        let params =
            json!({ "expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let mut answer = self.call("Runtime.evaluate", &params)?;
        match answer.get("exceptionDetails") {
            Some(details) => {
                let description = &details["exception"]["description"];
                Err(description.as_str().unwrap_or("thrown").to_owned())
            }
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true, and returns its value. An exception counts as not true yet.
    #[track_caller]
    pub fn wait_until(&self, expression: &str) -> Value {
        self.try_wait(expression).unwrap_or_else(|state| self.fail(&format!("`{expression}`"), &state))
    }

    /// Waits for a visible element: `selector` or `selector :: text`.
    #[track_caller]
    pub fn wait_for(&self, element: &str) {
        if let Err(state) = self.try_wait(&format!("find({}).length > 0", quoted(element))) {
            self.fail(element, &state);
        }
    }

    /// Waits until no such element is visible.
    #[track_caller]
    pub fn wait_gone(&self, element: &str) {
        if let Err(state) = self.try_wait(&format!("find({}).length === 0", quoted(element))) {
            self.fail(&format!("the end of {element}"), &state);
        }
    }

    /// Waits in the page for an expression; the error contains its last value.
    pub(crate) fn try_wait(&self, expression: &str) -> Result<Value, String> {
        let deadline = Instant::now() + self.patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            // Navigation ends scripts; they are restarted in the new page.
            let outcome = self.script(&waiting(expression, left));
            if let Ok(seen) = &outcome
                && seen["value"].as_bool() != Some(false)
                && !seen["value"].is_null()
            {
                return Ok(seen["value"].clone());
            }
            if left == 0 || outcome.as_ref().is_err_and(|error| error.starts_with("SyntaxError")) {
                return Err(match outcome {
                    Ok(seen) => {
                        seen["thrown"].as_str().map_or(String::new(), |thrown| format!(" ({thrown})"))
                    }
                    Err(error) => format!(" ({error})"),
                });
            }
        }
    }

    /// Fails the test with the awaited condition and the content of the page.
    #[track_caller]
    pub(crate) fn fail(&self, awaited: &str, state: &str) -> ! {
        let shown = self.script("document.body?.innerText").unwrap_or_default();
        let mut shown = shown.as_str().unwrap_or("nothing").to_owned();
        shown.truncate(shown.floor_char_boundary(4_000));
        let url = self.script("location.href").unwrap_or_default();
        let test = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let screenshot = self.screenshot(&format!("failed/{test}"));
        panic!(
            "waited for {awaited} in vain{state}\nat {url}\nscreenshot: {}\ncomplaints: {:#?}\nthe page shows:\n{shown}",
            screenshot.display(),
            self.complaints()
        )
    }

    /// Returns the number of such visible elements.
    #[track_caller]
    pub fn count(&self, element: &str) -> u64 {
        self.eval(&format!("find({}).length", quoted(element))).as_u64().unwrap_or_default()
    }

    /// Returns the text of each such element.
    #[track_caller]
    pub fn texts(&self, element: &str) -> Vec<String> {
        let texts = self.eval(&format!("find({}).map(element => element.innerText)", quoted(element)));
        texts
            .as_array()
            .into_iter()
            .flatten()
            .map(|text| text.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Returns the text of the first such element, once it exists.
    #[track_caller]
    pub fn text(&self, element: &str) -> String {
        self.wait_for(element);
        self.texts(element).into_iter().next().unwrap_or_default()
    }

    /// Returns console errors, uncaught exceptions, violations of the content security policy and dialogs so
    /// far.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        lock(&self.observed).complaints.clone()
    }

    /// Returns all network requests of the page so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.observed).requests.clone()
    }

    /// Returns the bytes of JavaScript objects in use after garbage collection.
    #[track_caller]
    #[must_use]
    pub fn heap(&self) -> u64 {
        self.command("HeapProfiler.collectGarbage", &json!({}));
        let usage = self.command("Runtime.getHeapUsage", &json!({}));
        usage["usedSize"].as_f64().unwrap_or_default() as u64
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.connection.forget(&self.session);
        let _ = self.connection.call(None, "Target.closeTarget", &json!({ "targetId": self.target }));
    }
}

/// Returns a script that evaluates an expression.
pub(crate) fn value_of(expression: &str) -> String {
    format!("(async () => {{ {FIND} return ({expression}); }})()")
}

/// Returns a script that waits so many milliseconds until an expression is true, and returns its last value.
pub(crate) fn waiting(expression: &str, left: u128) -> String {
    format!(
        "(async () => {{ {FIND}
        const end = performance.now() + {left};
        for (;;) {{
            let value;
            try {{ value = await ({expression}); }} catch (error) {{ value = undefined; var thrown = error; }}
            if (value || performance.now() >= end) return {{ value, thrown: thrown && String(thrown) }};
            await new Promise(resolve => setTimeout(resolve, 10));
        }} }})()"
    )
}

/// Returns the arguments of `find` in a script for `selector` or `selector :: text`.
pub(crate) fn quoted(element: &str) -> String {
    match element.split_once(" :: ") {
        Some((selector, text)) => format!("{}, {}", json!(selector), json!(text)),
        None => json!(element).to_string(),
    }
}

/// Returns the parameters for the size of the page.
pub(crate) fn metrics(width: u32, height: u32) -> Value {
    json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false })
}
