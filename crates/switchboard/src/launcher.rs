//! The launcher of the npm package, which runs this program as a child process.
//!
//! A launcher that is killed cannot pass that on. So it hands over one end of a pipe (in Node, of a socket pair) and keeps the
//! other one: when the launcher is gone, reading returns the end of the stream.

use std::os::fd::RawFd;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use rustix::process::{Signal, getpid, kill_process};

/// The environment variable with the number of the descriptor. `switchboard_transport::Program` keeps it from agents.
pub(crate) const LAUNCHER_FD: &str = "SWITCHBOARD_LAUNCHER_FD";

/// Ends this program, as SIGTERM does, when the launcher that started it is gone. Does nothing without a launcher.
pub(crate) fn follow() {
    let Some(number) = std::env::var_os(LAUNCHER_FD) else { return };
    let Some(descriptor) = number.to_str().and_then(|text| text.parse::<RawFd>().ok()).filter(|fd| *fd > 2)
    else {
        eprintln!("switchboard: {LAUNCHER_FD} is ignored: {} is not a descriptor above 2", number.display());
        return;
    };
    // Before anything else is started: a process that inherits the descriptor could read from it, too.
    if let Err(error) = fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
        eprintln!("switchboard: {LAUNCHER_FD} is ignored: descriptor {descriptor}: {error}");
        return;
    }
    let wait = move || {
        let mut buffer = [0; 64];
        // The launcher writes nothing. Bytes are not its end.
        while let Ok(1..) | Err(nix::Error::EINTR) = nix::unistd::read(descriptor, &mut buffer) {}
        let _ = kill_process(getpid(), Signal::TERM);
    };
    if let Err(error) = std::thread::Builder::new().name("launcher".to_owned()).spawn(wait) {
        eprintln!("switchboard: cannot watch the launcher: {error}");
    }
}
