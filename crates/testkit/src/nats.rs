//! A real NATS server for a test.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout for the start of a server.
const BEGIN: Duration = Duration::from_secs(60);

/// A `nats-server` on loopback in a folder of the test. It stops when this is dropped.
#[derive(Debug)]
pub struct NatsServer {
    child: Child,
    folder: PathBuf,
    arguments: Vec<String>,
    port: u16,
}

impl NatsServer {
    /// Starts a server with streams in a folder, on any free port. Prints a note and returns `None` without a
    /// `nats-server`, except in full test runs, which require it.
    pub fn start(folder: &Path) -> Option<Self> {
        NatsServer::start_with(folder, &["--jetstream"])
    }

    /// Starts a server with these arguments.
    pub fn start_with(folder: &Path, arguments: &[&str]) -> Option<Self> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let child = match spawn(folder, &arguments, -1) {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound && std::env::var_os("CI").is_none() => {
                println!("skipped: there is no nats-server; `cargo xtask setup` installs it");
                return None;
            }
            Err(error) => panic!("nats-server does not start: {error}"),
        };
        let mut server = NatsServer { child, folder: folder.to_owned(), arguments, port: 0 };
        server.port = server.wait_for_port();
        Some(server)
    }

    /// Starts a cluster of three servers with three replicas. Each has a folder of its own in this one.
    pub fn start_three(folder: &Path) -> Option<[Self; 3]> {
        // They must find each other again after a restart, so these ports are fixed.
        let routes = free_ports().map(|port| format!("nats://127.0.0.1:{port}"));
        let all = routes.join(",");
        let start = |name: &str, route: &str| {
            let folder = folder.join(name);
            std::fs::create_dir_all(&folder).expect("a folder of the test can be made");
            // Clients only know the addresses that they were given.
            let cluster =
                ["--cluster_name", "three", "--cluster", route, "--routes", &all, "--no_advertise=true"];
            NatsServer::start_with(&folder, &[&["--jetstream", "--server_name", name], &cluster[..]].concat())
        };
        let [one, two, three] = &routes;
        Some([start("one", one)?, start("two", two)?, start("three", three)?])
    }

    fn ports_file(&self) -> PathBuf {
        self.folder.join(format!("nats-server_{}.ports", self.child.id()))
    }

    /// Returns its address for `--session-log`.
    pub fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the client port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, like a power failure.
    pub fn kill(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Restarts it on the same port after [`kill`](NatsServer::kill).
    pub fn restart(&mut self) {
        self.kill();
        let child = spawn(&self.folder, &self.arguments, i32::from(self.port));
        self.child = child.unwrap_or_else(|error| panic!("nats-server does not start: {error}"));
        self.wait_for_port();
    }

    /// Waits for the port.
    fn wait_for_port(&mut self) -> u16 {
        let file = self.ports_file();
        let begun = Instant::now();
        loop {
            if let Some(port) = std::fs::read_to_string(&file).ok().as_deref().and_then(port) {
                return port;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = std::fs::read_to_string(self.folder.join("nats.log")).unwrap_or_default();
                panic!("nats-server has ended with {status}: {said}");
            }
            assert!(begun.elapsed() < BEGIN, "nats-server does not say where it listens");
            // There is no notification for the file.
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(folder: &Path, arguments: &[String], port: i32) -> std::io::Result<Child> {
    let run = |program: &str| {
        Command::new(program)
            .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
            .arg("--ports_file_dir")
            .arg(folder)
            .arg("--log")
            .arg(folder.join("nats.log"))
            .arg("--store_dir")
            .arg(folder.join("streams"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    // Debian installs it outside of the normal path.
    run("nats-server").or_else(|error| match error.kind() {
        ErrorKind::NotFound => run("/usr/sbin/nats-server"),
        _ => Err(error),
    })
}

/// Returns the client port from the server's ports file.
fn port(text: &str) -> Option<u16> {
    let ports: serde_json::Value = serde_json::from_str(text).ok()?;
    ports.get("nats")?.get(0)?.as_str()?.rsplit_once(':')?.1.parse().ok()
}

/// Returns free ports.
fn free_ports() -> [u16; 3] {
    // Bound at once, or they could be equal.
    let listeners = [0; 3].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a port is free"));
    listeners.map(|listener| listener.local_addr().expect("a listener has an address").port())
}
