//! Firefox, over WebDriver BiDi: as much of it as a few journeys through a page need.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::chromium::find;
use crate::connection::lock;
use crate::input::{MOST_AIMS, point};
use crate::page::{LIMIT, quoted, value_of, waiting};

/// Names that Firefox goes by.
const NAMES: [&str; 2] = ["firefox-esr", "firefox"];

/// How long it may take to start, and how long one command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(90);

/// Runs Firefox until standard input ends, as it does with the process that holds the other end, and removes its profile.
/// Everything in the group is told to end, because Firefox may be started by a script; the shell itself goes on.
const SCRIPT: &str = r#"profile=$1; shift; trap : TERM; "$@" </dev/null >/dev/null 2>&1 &
cat >/dev/null; kill -TERM 0; wait; wait; rm -rf "$profile""#;

/// Where Firefox tells the port that it listens on.
const PORT_FILE: &str = "WebDriverBiDiServer.json";

/// Nothing is asked, loaded or told that the test did not want.
const PREFERENCES: &str = r#"user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("toolkit.telemetry.reportingpolicy.firstRun", false);
user_pref("app.update.disabledForTesting", true);
user_pref("app.normandy.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("browser.safebrowsing.downloads.enabled", false);
user_pref("extensions.update.enabled", false);
user_pref("services.settings.server", "data:,");
"#;

/// A Firefox without a window, with a profile of its own. It ends with this value, or with the process that holds it.
#[derive(Debug)]
pub struct Firefox {
    /// The shell that waits for it.
    shell: Child,
    profile: PathBuf,
    connection: Mutex<Connection>,
}

#[derive(Debug)]
struct Connection {
    socket: WebSocket<TcpStream>,
    last: u64,
    complaints: Vec<String>,
}

/// One tab of Firefox. It closes with this value.
#[derive(Debug)]
pub struct FirefoxPage<'f> {
    firefox: &'f Firefox,
    context: String,
}

impl Firefox {
    /// Starts one.
    ///
    /// # Panics
    ///
    /// Where there is no Firefox, or it does not start.
    #[must_use]
    pub fn start() -> Firefox {
        let program = find("FIREFOX", &NAMES).unwrap_or_else(|| {
            panic!(
                "no Firefox found: install it (on Debian: apt-get install firefox-esr), or name it in FIREFOX; \
                 looked for {} in PATH",
                NAMES.join(", ")
            )
        });
        let profile = tempfile::Builder::new().prefix("switchboard-firefox-").tempdir();
        let profile = profile.expect("a folder for the profile");
        std::fs::write(profile.path().join("user.js"), PREFERENCES).expect("a profile that can be written");
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "firefox-of-tests"])
            .arg(profile.path())
            .arg(&program)
            .args(["--headless", "--no-remote", "--remote-debugging-port", "0", "--profile"])
            .arg(profile.path())
            .arg("about:blank")
            // Whatever it keeps beside the profile goes with it.
            .env("HOME", profile.path())
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell");
        // From here on the shell removes it.
        let profile = profile.keep();
        let socket = match connect(&mut shell, &profile) {
            Ok(socket) => socket,
            Err(reason) => {
                end(&mut shell);
                panic!("{} does not start: {reason}", program.display());
            }
        };
        let connection = Mutex::new(Connection { socket, last: 0, complaints: Vec::new() });
        let firefox = Firefox { shell, profile, connection };
        firefox.command("session.new", &json!({ "capabilities": {} }));
        firefox.command("session.subscribe", &json!({ "events": ["log.entryAdded"] }));
        firefox
    }

    /// Where it keeps its files while it runs.
    #[must_use]
    pub fn profile(&self) -> &Path {
        &self.profile
    }

    /// Opens one more tab and waits until it is loaded.
    #[track_caller]
    #[must_use]
    pub fn open(&self, url: &str) -> FirefoxPage<'_> {
        let made = self.command("browsingContext.create", &json!({ "type": "tab" }));
        let context = made["context"].as_str().unwrap_or_default().to_owned();
        let page = FirefoxPage { firefox: self, context };
        page.command("browsingContext.setViewport", json!({ "viewport": { "width": 1280, "height": 800 } }));
        page.command("browsingContext.navigate", json!({ "url": url, "wait": "complete" }));
        page
    }

    /// Errors in the console and uncaught exceptions, so far.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        lock(&self.connection).complaints.clone()
    }

    #[track_caller]
    fn command(&self, method: &str, params: &Value) -> Value {
        self.call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn call(&self, method: &str, params: &Value) -> Result<Value, String> {
        let mut connection = lock(&self.connection);
        connection.last += 1;
        let id = connection.last;
        let text = json!({ "id": id, "method": method, "params": params }).to_string();
        connection.socket.send(Message::text(text)).map_err(|error| error.to_string())?;
        loop {
            let message = connection.socket.read().map_err(|error| error.to_string())?;
            let Message::Text(text) = message else { continue };
            let Ok(mut message) = serde_json::from_str::<Value>(&text) else { continue };
            if message["method"] == "log.entryAdded" && message["params"]["level"] == "error" {
                let text = message["params"]["text"].as_str().unwrap_or_default().to_owned();
                connection.complaints.push(text);
            }
            if message["id"] == id {
                return match message["type"].as_str() {
                    Some("success") => Ok(message["result"].take()),
                    _ => Err(format!("{}: {}", message["error"], message["message"])),
                };
            }
        }
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        end(&mut self.shell);
    }
}

/// Ends what the shell runs: by itself, or else all of its group.
fn end(shell: &mut Child) {
    drop(shell.stdin.take());
    let deadline = Instant::now() + Duration::from_secs(20);
    let (_sender, later) = std::sync::mpsc::channel::<()>();
    while matches!(shell.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            if let Some(group) = i32::try_from(shell.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = shell.wait();
            return;
        }
        // Nobody sends: this is a short wait.
        let _ = later.recv_timeout(Duration::from_millis(20));
    }
}

fn connect(shell: &mut Child, profile: &Path) -> Result<WebSocket<TcpStream>, String> {
    let deadline = Instant::now() + COMMAND_LIMIT;
    let (_sender, later) = std::sync::mpsc::channel::<()>();
    let port = loop {
        let told = std::fs::read_to_string(profile.join(PORT_FILE)).unwrap_or_default();
        let told: Value = serde_json::from_str(&told).unwrap_or_default();
        if let Some(port) = told["ws_port"].as_u64().and_then(|port| u16::try_from(port).ok()) {
            break port;
        }
        if Instant::now() > deadline || !matches!(shell.try_wait(), Ok(None)) {
            return Err(format!("it told no port within {COMMAND_LIMIT:?}"));
        }
        let _ = later.recv_timeout(Duration::from_millis(20));
    };
    let stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                let _ = later.recv_timeout(Duration::from_millis(20));
            }
            other => break other.map_err(|error| error.to_string())?,
        }
    };
    stream.set_read_timeout(Some(COMMAND_LIMIT)).map_err(|error| error.to_string())?;
    let (socket, _) = tungstenite::client(format!("ws://127.0.0.1:{port}/session"), stream)
        .map_err(|error| error.to_string())?;
    Ok(socket)
}

impl FirefoxPage<'_> {
    fn call(&self, method: &str, mut params: Value) -> Result<Value, String> {
        params["context"] = self.context.as_str().into();
        self.firefox.call(method, &params)
    }

    #[track_caller]
    fn command(&self, method: &str, params: Value) -> Value {
        self.call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Loads the page anew.
    #[track_caller]
    pub fn reload(&self) {
        self.command("browsingContext.reload", json!({ "wait": "complete" }));
    }

    fn script(&self, script: &str) -> Result<Value, String> {
        let script = format!("(async () => JSON.stringify(await ({script})) ?? 'null')()");
        let params = json!({
            "expression": script, "target": { "context": self.context }, "awaitPromise": true, "userActivation": true,
        });
        let answer = self.firefox.call("script.evaluate", &params)?;
        match answer["result"]["value"].as_str() {
            Some(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
            None => Err(answer["exceptionDetails"]["text"].as_str().unwrap_or("thrown").to_owned()),
        }
    }

    /// The value of a JavaScript expression, which may be a promise. `find(selector, text)` gives visible elements.
    ///
    /// # Panics
    ///
    /// Where the expression throws.
    #[track_caller]
    pub fn eval(&self, expression: &str) -> Value {
        self.script(&value_of(expression)).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until an expression is true, and gives its value. One that throws is not true yet.
    #[track_caller]
    pub fn wait_until(&self, expression: &str) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            // Going elsewhere ends scripts; they are begun anew in the new page.
            let seen = self.script(&waiting(expression, left));
            if let Ok(seen) = &seen
                && seen["value"].as_bool() != Some(false)
                && !seen["value"].is_null()
            {
                return seen["value"].clone();
            }
            if left == 0 {
                let shown = self.script("document.body?.innerText").unwrap_or_default();
                let complaints = self.firefox.complaints();
                panic!("waited for `{expression}` in vain: {seen:?}\ncomplaints: {complaints:#?}\n{shown}");
            }
        }
    }

    /// Waits for a visible element: `selector` or `selector :: text`.
    #[track_caller]
    pub fn wait_for(&self, element: &str) {
        self.wait_until(&format!("find({}).length > 0", quoted(element)));
    }

    /// Waits until no such element is visible.
    #[track_caller]
    pub fn wait_gone(&self, element: &str) {
        self.wait_until(&format!("find({}).length === 0", quoted(element)));
    }

    /// Clicks in the middle of an element, once it stands still, can be used and nothing is before it.
    #[track_caller]
    pub fn click(&self, element: &str) {
        for _ in 0..MOST_AIMS {
            let place = self.wait_until(&point(element));
            let whole = |number: &Value| number.as_f64().unwrap_or_default().round();
            let steps = json!([
                { "type": "pointerMove", "x": whole(&place[0]), "y": whole(&place[1]) },
                { "type": "pointerDown", "button": 0 },
                { "type": "pointerUp", "button": 0 },
            ]);
            let mouse = json!({ "type": "pointer", "id": "mouse", "actions": steps });
            self.command("input.performActions", json!({ "actions": [mouse] }));
            // A press that led elsewhere took its trace along.
            if self.script("globalThis.pressReached").is_ok_and(|reached| reached != false) {
                return;
            }
        }
        panic!("a click on {element}: it moved away before each press");
    }

    /// Clicks on an element and types a text.
    #[track_caller]
    pub fn type_into(&self, element: &str, text: &str) {
        self.click(element);
        text.chars().for_each(|letter| self.key(letter));
    }

    /// Presses Enter.
    #[track_caller]
    pub fn enter(&self) {
        self.key('\u{e007}');
    }

    #[track_caller]
    fn key(&self, value: char) {
        let steps = json!([{ "type": "keyDown", "value": value }, { "type": "keyUp", "value": value }]);
        let keys = json!({ "type": "key", "id": "keyboard", "actions": steps });
        self.command("input.performActions", json!({ "actions": [keys] }));
    }
}

impl Drop for FirefoxPage<'_> {
    fn drop(&mut self) {
        let _ = self.call("browsingContext.close", json!({}));
    }
}
