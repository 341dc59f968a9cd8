//! VS Code: its server, which is in the npm package `code-server`, in a browser, as a client of an agent host over AHP.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use switchboard_browser::{Page, Visitor};

use crate::editors::{Editors, succeed};
use crate::running::{Running, free_port};
use crate::{Place, wait_until};

/// The package that has Microsoft's server in `lib/vscode`.
const PACKAGE: &str = "code-server@4.139.1";

/// Settings of a new user: chat without an account, and nothing that covers it.
const SETTINGS: &str = r#"{
  "chat.agentHost.enabled": true,
  "chat.agentHost.allowSignedOutWhenUsable": true,
  "security.workspace.trust.enabled": false,
  "workbench.startupEditor": "none",
  "remote.autoForwardPorts": false,
  "telemetry.telemetryLevel": "off"
}
"#;

/// The chat view, and the places in it.
const CHAT: &str = ".interactive-session";
const INPUT: &str = ".interactive-session .interactive-input-editor";
const TOOLBAR: &str = ".interactive-session .chat-input-toolbars a, .interactive-session .chat-secondary-toolbar a, \
                       .interactive-session .action-label";
const MENU: &str = ".action-widget .monaco-list-row, .action-widget [role=option]";
const SIDE_BAR: &str = ".agent-sessions-viewer";
const SESSIONS: &str = ".agent-sessions-viewer .monaco-list-row";
/// Marks the element to click, after a script has chosen it.
const MARK: &str = "data-switchboard-editors";

/// A server of VS Code that is connected to an agent host.
#[derive(Debug)]
pub struct VsCode {
    server: Running,
    url: String,
}

impl VsCode {
    /// Installs it; `None` with a message if npm is not here. Native modules are left out, so that no compiler is needed.
    #[must_use]
    pub fn install(editors: &Editors) -> Option<PathBuf> {
        if Editors::find_program("npm").is_none() {
            println!("skipped: npm is not here, so VS Code cannot be installed");
            return None;
        }
        Some(editors.once("vscode", &[Editors::NODE, PACKAGE], |folder| {
            std::fs::write(folder.join("package.json"), "{\"private\": true}")
                .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let npm = |arguments: &[&str], folder: &Path| {
                succeed(
                    Command::new("npm").args(arguments).args(["--no-audit", "--no-fund"]).current_dir(folder),
                );
            };
            // The server needs this Node.js, whatever Node.js the machine has.
            npm(&["install", "--ignore-scripts", Editors::NODE], folder);
            // The archive as it is: installing the package would install what the server around VS Code needs.
            succeed(Command::new("npm").args(["pack", PACKAGE]).current_dir(folder));
            let archive = format!("{}.tgz", PACKAGE.replace('@', "-"));
            succeed(Command::new("tar").args(["-xzf", &archive]).current_dir(folder));
            let server = folder.join("package/lib/vscode");
            npm(
                &["install", "--ignore-scripts", "--omit=dev", "--omit=optional", "--legacy-peer-deps"],
                &server,
            );
        }))
    }

    /// Starts it for an agent host on loopback, with the user data in the home of the place.
    #[must_use]
    pub fn start(place: &Place, installed: &Path, host: &str, token: &str) -> Self {
        let data = place.home().join("vscode");
        if !data.exists() {
            place.write("home/vscode/User/settings.json", SETTINGS);
        }
        let port = free_port();
        let (address, host_port) = host.rsplit_once(':').unwrap_or_else(|| panic!("{host} has no port"));
        let node = installed.join("node_modules/.bin");
        let mut command = place.command(node.join("node"));
        command
            .env("PATH", place.path(&[&node]))
            .current_dir(installed.join("package/lib/vscode"))
            .args(["out/server-main.js", "--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--without-connection-token", "--accept-server-license-terms"])
            .args(["--agent-host-bridge-host", address, "--agent-host-bridge-port", host_port])
            .args(["--agent-host-bridge-connection-token", token]);
        for option in ["--user-data-dir", "--server-data-dir"] {
            command.arg(option).arg(&data);
        }
        command.arg("--extensions-dir").arg(data.join("extensions"));
        let server = Running::start(command, place.write("vscode.log", ""));
        wait_until(
            "VS Code's page",
            || server.printed(),
            || std::net::TcpStream::connect(("127.0.0.1", port)).ok(),
        );
        let url = format!("http://127.0.0.1:{port}/?folder={}", place.work().display());
        VsCode { server, url }
    }

    /// Kills the server, as a crash does.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Opens a window with the working folder, and waits for its chat.
    #[must_use]
    pub fn open(&self, visitor: &Visitor) -> Chat {
        let page = visitor.blank_page().patience(crate::wait::LIMIT);
        page.resize(1500, 950);
        page.visit(&self.url);
        let chat = Chat { page };
        chat.wait_ready();
        chat
    }
}

/// The chat of a window of VS Code.
#[derive(Debug)]
pub struct Chat {
    /// The window.
    pub page: Page,
}

impl Chat {
    fn wait_ready(&self) {
        self.page.wait_for(INPUT);
    }

    /// Clicks the last visible element of a selector whose text or label is `text`, or contains it. Menus and the newest message
    /// come last.
    #[track_caller]
    fn click_last(&self, selector: &str, text: &str, is_exact: bool) {
        self.page.wait_until(&choice(selector, text, is_exact));
        self.page.click(&format!("[{MARK}]"));
    }

    /// Chooses an agent in the picker below the input, once it is offered.
    #[track_caller]
    pub fn pick(&self, agent: &str) {
        let is_chosen = format!("Boolean({})", choice(TOOLBAR, agent, true));
        wait_until(
            &format!("{agent} among the agents"),
            || self.text(),
            || {
                if self.page.eval(&is_chosen) == true {
                    return Some(());
                }
                // The picker shows the present target.
                if self.page.eval(&format!("Boolean({})", choice(TOOLBAR, "Local", true))) == false {
                    return None;
                }
                self.page.click(&format!("[{MARK}]"));
                self.page.wait_for(MENU);
                if self.page.eval(&format!("Boolean({})", choice(MENU, agent, false))) == true {
                    self.page.click(&format!("[{MARK}]"));
                } else {
                    self.page.press("Escape");
                }
                self.page.wait_until(&format!("find({}).length === 0", json!(MENU)));
                None
            },
        );
    }

    /// Sends a prompt.
    #[track_caller]
    pub fn say(&self, text: &str) {
        self.page.click(INPUT);
        self.page.insert_text(text);
        // The editor draws it in its own time.
        self.page.wait_until(&format!(
            "find({}).some(element => element.innerText.replaceAll('\\u00a0', ' ').includes({}))",
            json!(INPUT),
            json!(text)
        ));
        self.page.press("Enter");
    }

    /// Waits until the chat shows a text.
    #[track_caller]
    pub fn wait(&self, text: &str) {
        self.page.wait_until(&format!(
            // Spaces that must not end a line are another character.
            "find({}).some(element => element.innerText.replaceAll('\\u00a0', ' ').includes({}))",
            json!(CHAT),
            json!(text)
        ));
    }

    /// Presses a button of the chat by its text or label.
    #[track_caller]
    pub fn press(&self, name: &str) {
        let kinds = [".monaco-button", "a[role=button]", "button", ".action-label"];
        let selector = kinds.map(|kind| format!("{CHAT} {kind}")).join(", ");
        self.click_last(&selector, name, false);
    }

    /// Returns the text of the chat.
    #[must_use]
    pub fn text(&self) -> String {
        self.page.texts(CHAT).join("\n")
    }

    /// Runs a command of the palette.
    #[track_caller]
    pub fn command(&self, name: &str) {
        self.page.press("F1");
        self.page.wait_for(".quick-input-widget input");
        self.page.insert_text(name);
        self.click_last(".quick-input-list .monaco-list-row", name, false);
        self.page.wait_gone(".quick-input-widget");
    }

    /// Waits until the side bar of the chat lists a session with a text, and returns all entries.
    #[track_caller]
    pub fn wait_session(&self, title: &str) -> Vec<String> {
        if self.page.count(SIDE_BAR) == 0 {
            self.command("Show Agent Sessions Sidebar");
        }
        self.page.wait_for(&format!("{SESSIONS} :: {title}"));
        self.page.texts(SESSIONS)
    }

    /// Opens a session whose entry contains a text.
    #[track_caller]
    pub fn open_session(&self, title: &str) {
        self.wait_session(title);
        self.click_last(SESSIONS, title, false);
    }

    /// Loads the window anew, and waits for its chat.
    #[track_caller]
    pub fn reload(&self) {
        self.page.reload();
        self.wait_ready();
    }
}

/// Returns an expression that marks the last visible element with a text or label, and is true if there is one. VS Code draws parts
/// of its page anew at any time; the mark then moves on to the new element.
fn choice(selector: &str, text: &str, is_exact: bool) -> String {
    choice_of(selector, &[text], is_exact)
}

/// The same for several texts.
fn choice_of(selector: &str, texts: &[&str], is_exact: bool) -> String {
    let (selector, texts) = (json!(selector), json!(texts));
    let matches = if is_exact { "shown === text" } else { "shown.includes(text)" };
    format!(
        "(() => {{
            const texts = {texts};
            const named = element => [(element.innerText ?? '').trim(), element.getAttribute('aria-label') ?? '']
                .map(shown => shown.replaceAll('\\u00a0', ' '));
            globalThis.switchboardChoose = () => {{
                const chosen = find({selector}).filter(element => named(element).some(shown => texts.some(text => {matches}))).pop();
                document.querySelectorAll('[{MARK}]').forEach(element => element.removeAttribute('{MARK}'));
                chosen?.setAttribute('{MARK}', '');
                return chosen !== undefined;
            }};
            if (!globalThis.switchboardObserver) {{
                globalThis.switchboardObserver = new MutationObserver(() => switchboardChoose());
                switchboardObserver.observe(document.body, {{ childList: true, subtree: true, characterData: true }});
            }}
            return switchboardChoose();
        }})()"
    )
}
