//! `switchboard open`, running.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::agent_program::Place;

const PATIENCE: Duration = Duration::from_secs(60);

/// The program while it serves. It ends with this value.
pub(crate) struct Opened {
    child: Child,
    /// The link that it printed first.
    pub(crate) link: String,
    links: Receiver<String>,
}

impl Opened {
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Opened {
        let mut command = place.command(&[&["open", "--no-browser"], arguments].concat());
        // No desktop: nothing but the test opens the link.
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "XDG_DATA_HOME", "SWITCHBOARD_STORE"] {
            command.env_remove(name);
        }
        command.stderr(std::process::Stdio::inherit());
        Opened::run(command)
    }

    /// Runs a command that prints a link.
    pub(crate) fn run(mut command: Command) -> Opened {
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, links) = sync_channel(8);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(start) = line.find("http://127.0.0.1:") {
                    let link = line[start..].split_whitespace().next().unwrap_or_default();
                    let _ = sender.try_send(link.to_owned());
                }
            }
        });
        let Ok(link) = links.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            panic!("switchboard open printed no link: {:?}", child.wait());
        };
        Opened { child, link, links }
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn host(&self) -> &str {
        self.link["http://".len()..].split('/').next().unwrap()
    }

    /// The next link that it prints.
    pub(crate) fn next_link(&self) -> String {
        self.links.recv_timeout(PATIENCE).expect("one more link")
    }

    /// What lets one browser in by the link.
    pub(crate) fn code(&self) -> &str {
        self.link.split_once("#code=").unwrap().1
    }

    /// Sends the lines of a request, and gives the answer; only its head where the connection stays open.
    pub(crate) fn ask(&self, lines: &[&str]) -> String {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut reader = BufReader::new(stream);
        while reader.read_until(b'\n', &mut answer).is_ok_and(|length| length > 2) {}
        if lines.contains(&"connection: close") {
            reader.read_to_end(&mut answer).unwrap();
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let (done, wait) = sync_channel::<()>(1);
        let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        let _ = kill_process(id, Signal::TERM);
        let guard = std::thread::spawn(move || {
            if wait.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(id, Signal::KILL);
            }
        });
        let _ = self.child.wait();
        drop(done);
        let _ = guard.join();
    }
}
