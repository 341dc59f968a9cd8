//! `JupyterLab` with Jupyter AI, which finds its agents on the `PATH`.

use std::path::{Path, PathBuf};

use switchboard_browser::{Page, Visitor};

use crate::running::{Running, free_port};
use crate::{Editors, Place, wait_until};

/// The versions that are tested.
const PACKAGES: [&str; 2] = ["jupyterlab==4.*", "jupyter-ai==3.*"];

/// A server of `JupyterLab`.
#[derive(Debug)]
pub struct JupyterLab {
    server: Running,
    port: u16,
}

impl JupyterLab {
    /// Installs it; `None` with a message if there is no Python.
    #[must_use]
    pub fn install(editors: &Editors) -> Option<PathBuf> {
        let Some(python) = Editors::find_program("python3") else {
            println!("skipped: Python is not here, so JupyterLab cannot be installed");
            return None;
        };
        Some(editors.python("jupyterlab", &python, &PACKAGES))
    }

    /// Starts it in the working folder. The folder of the scripts of `switchboard setup` is the first of the `PATH`.
    #[must_use]
    pub fn start(place: &Place, installed: &Path, shims: &Path) -> Self {
        let (port, tools) = (free_port(), free_port());
        let mut command = place.command(installed.join("bin/jupyter-lab"));
        command
            .env("PATH", place.path(&[shims, &installed.join("bin")]))
            // Containers of continuous integration have no other user.
            .args(["--allow-root", "--no-browser", "--ip=127.0.0.1", "--ServerApp.port_retries=0"])
            .args(["--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.news_url="])
            .arg(format!("--ServerApp.port={port}"))
            // Tools for agents have a fixed port otherwise.
            .arg(format!("--MCPExtensionApp.mcp_port={tools}"));
        let mut server = Running::start(command, place.write("jupyter.log", ""));
        server.wait_line("is running at");
        JupyterLab { server, port }
    }

    /// Kills the server, as a crash does.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Opens the page with a chat: a new one, or that of an earlier visit.
    #[must_use]
    pub fn open(&self, visitor: &Visitor, chat: Option<&str>) -> Page {
        let page = visitor.blank_page().patience(crate::wait::LIMIT);
        wait_until(
            "JupyterLab's page",
            || self.server.printed(),
            || std::net::TcpStream::connect(("127.0.0.1", self.port)).ok(),
        );
        // Without the tabs of an earlier visit, or with the chat alone.
        let file = chat.map_or("?reset".to_owned(), |chat| format!("/tree/{chat}?reset"));
        page.visit(&format!("http://127.0.0.1:{}/lab{file}", self.port));
        if chat.is_none() {
            page.click(".jp-LauncherCard[title*='Create a chat']");
        }
        page.wait_for(".jp-jai-personaControls :: Claude");
        page
    }

    /// Sends a message in the open chat.
    #[track_caller]
    pub fn say(page: &Page, text: &str) {
        page.type_into("textarea.MuiInputBase-inputMultiline", text);
        page.press("Enter");
    }
}
