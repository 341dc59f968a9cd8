//! marimo, a notebook whose page connects to agents over a WebSocket on fixed ports.

use std::path::{Path, PathBuf};

use switchboard_browser::{Page, Visitor};

use crate::running::{Running, free_port};
use crate::{Editors, Place, wait_until};

/// The version that is tested.
const PACKAGES: [&str; 1] = ["marimo==0.25.2"];
/// The relay that marimo's page tells people to run between the agent and the page.
const RELAY: [&str; 1] = ["stdio-to-ws@0.2.0"];

const NOTEBOOK: &str = "import marimo\n\napp = marimo.App()\n\n\n@app.cell\ndef _():\n    x = 1\n    return\n\n\nif __name__ == \"__main__\":\n    app.run()\n";

/// A server of marimo with one notebook.
#[derive(Debug)]
pub struct Marimo {
    server: Running,
    url: String,
}

impl Marimo {
    /// Installs it; `None` with a message if there is no Python.
    #[must_use]
    pub fn install(editors: &Editors) -> Option<PathBuf> {
        let Some(python) = Editors::find_program("python3") else {
            println!("skipped: Python is not here, so marimo cannot be installed");
            return None;
        };
        Some(editors.python("marimo", &python, &PACKAGES))
    }

    /// Starts a relay between the page and an agent: a command line on standard input and output, reachable at a port.
    #[must_use]
    pub fn relay(place: &Place, command_line: &str, port: u16) -> Running {
        let program = place.editors().npm("marimo-relay", &RELAY).join("node_modules/.bin/stdio-to-ws");
        let mut command = place.command(program);
        command.args([command_line, "--port", &port.to_string()]);
        let mut relay = Running::start(command, place.write("relay.log", ""));
        relay.wait_line("listening on port");
        relay
    }

    /// Starts the server in the working folder, with agents in its side bar.
    #[must_use]
    pub fn start(place: &Place, installed: &Path) -> Self {
        place.write("home/.config/marimo/marimo.toml", "[experimental]\nexternal_agents = true\n");
        let notebook = place.work().join("notebook.py");
        if !notebook.exists() {
            place.write("work/notebook.py", NOTEBOOK);
        }
        let port = free_port();
        let mut command = place.command(installed.join("bin/marimo"));
        command
            .args([
                "edit",
                "--headless",
                "--no-token",
                "--skip-update-check",
                "--host",
                "127.0.0.1",
                "--port",
            ])
            .arg(port.to_string())
            .arg("notebook.py");
        let mut server = Running::start(command, place.write("marimo.log", ""));
        server.wait_line("URL:");
        Marimo { server, url: format!("http://127.0.0.1:{port}/") }
    }

    /// Kills the server, as a crash does.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Opens the notebook, and the panel of agents beside it.
    #[must_use]
    pub fn open(&self, visitor: &Visitor) -> AgentPanel {
        let page = visitor.blank_page().patience(crate::wait::LIMIT);
        wait_until(
            "marimo's page",
            || self.server.printed(),
            || {
                std::net::TcpStream::connect(self.url.trim_start_matches("http://").trim_end_matches('/'))
                    .ok()
            },
        );
        page.visit(&self.url);
        page.wait_for("[data-testid=cell-editor]");
        if page.count("[id$=trigger-agents]") == 0 {
            page.click("[id$=option-ai]");
            page.wait_until("(localStorage['marimo:sidebar'] ?? '').includes('\"isSidebarOpen\":true')");
            // A panel that was just opened does not take clicks before the page is loaded anew.
            page.reload();
        }
        page.click("[id$=trigger-agents]");
        AgentPanel { page }
    }
}

/// The panel of agents in a notebook.
#[derive(Debug)]
pub struct AgentPanel {
    /// The page of the notebook.
    pub page: Page,
}

impl AgentPanel {
    /// Begins a session with an agent of marimo's list, and waits until it is connected.
    #[track_caller]
    pub fn begin(&self, agent: &str) {
        self.page.click("[data-testid=helper] button :: New session");
        self.page.click(&format!("[role=menuitem] :: New {agent} session"));
        self.page.wait_for("[data-testid=helper] :: Agent is connected");
    }

    /// Sends a prompt.
    #[track_caller]
    pub fn say(&self, text: &str) {
        // The composer is emptied after the turn.
        self.page.wait_for("[data-testid=helper] .cm-placeholder");
        self.page.type_into("[data-testid=helper] [contenteditable=true]", text);
        self.page.press("Enter");
    }

    /// Waits until the panel shows a text.
    #[track_caller]
    pub fn wait(&self, text: &str) {
        self.page.wait_for(&format!("[data-testid=helper] :: {text}"));
    }

    /// Presses a button of the panel.
    #[track_caller]
    pub fn press(&self, name: &str) {
        self.page.click(&format!("[data-testid=helper] button :: {name}"));
    }
}
