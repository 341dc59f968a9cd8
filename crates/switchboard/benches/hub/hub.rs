//! A hub of its own for each measurement, and what it takes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::socket::Socket;

pub(crate) struct Hub {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
    folder: tempfile::TempDir,
}

impl Hub {
    /// Starts a hub with the agent of the measurements.
    pub(crate) fn start() -> Self {
        Hub::start_with(&[])
    }

    /// The same with more arguments. Sessions may work in any folder.
    pub(crate) fn start_with(arguments: &[String]) -> Self {
        Hub::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    /// Starts a hub with what another one has left in its folder.
    fn start_in(folder: tempfile::TempDir, arguments: &[String]) -> Self {
        let (store, file) = (folder.path().join("store.sqlite3"), folder.path().join("token"));
        std::fs::create_dir_all(folder.path().join("switchboard")).unwrap();
        let configuration = folder.path().join("switchboard/config.json");
        std::fs::write(configuration, format!("{{\"roots\": [{:?}]}}", std::env::temp_dir())).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_switchboard"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .arg("--token-file")
            .arg(&file)
            .args(arguments)
            .arg("--")
            .arg(std::env::current_exe().unwrap())
            .arg("--be-the-agent")
            .env("XDG_CONFIG_HOME", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        let token = std::fs::read_to_string(file).unwrap().trim().to_owned();
        Hub { child, address, token, folder }
    }

    /// Kills it as a power cut would, and starts another one in its place.
    pub(crate) fn restart(mut self) -> Self {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Hub::start_in(folder, &[])
    }

    /// How many sessions it has, by what it tells operators.
    pub(crate) fn sessions(&self) -> usize {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (address, token) = (&self.address, &self.token);
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let counts = answer.lines().filter_map(|line| line.strip_prefix("switchboard_sessions{"));
        counts.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum()
    }

    /// How many files it has open.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// How many files there are of sessions that are open, or that were cut off and are not in order yet.
    pub(crate) fn journals(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("store.sqlite3-writers")).map_or(0, Iterator::count)
    }

    pub(crate) fn folder(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    pub(crate) async fn socket(&self) -> Socket {
        Socket::open(&self.address, &self.token).await
    }

    /// A figure of `/proc/PID/status`, in kB: `VmRSS`, `VmHWM`.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// How long it has worked, on all cores together.
    pub(crate) fn worked(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
