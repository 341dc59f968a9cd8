//! Signals that ask the program to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::outcome::CommandError;

/// A signal that asks the program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndSignal {
    Interrupt,
    Terminate,
    HangUp,
}

impl EndSignal {
    /// Its number, which is the same on all systems.
    pub(crate) const fn number(self) -> u8 {
        match self {
            EndSignal::HangUp => 1,
            EndSignal::Interrupt => 2,
            EndSignal::Terminate => 15,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            EndSignal::HangUp => "SIGHUP",
            EndSignal::Interrupt => "SIGINT",
            EndSignal::Terminate => "SIGTERM",
        }
    }
}

/// Listens for them. From then on they do not end the process by themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None under `nohup`: who asked that it be ignored means it.
    hang_up: Option<Signal>,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let listen = |kind| {
            signal(kind).map_err(|error| CommandError::failed(format!("cannot listen for signals: {error}")))
        };
        let hang_up = if is_ignored(EndSignal::HangUp) { None } else { Some(listen(SignalKind::hangup())?) };
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        Ok(Signals { interrupt, terminate, hang_up })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> EndSignal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = self.terminate.recv() => EndSignal::Terminate,
            _ = hang_up => EndSignal::HangUp,
        }
    }
}

/// Whether this process was started with the signal ignored, where the system tells.
fn is_ignored(signal: EndSignal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.number() - 1) & 1 == 1)
}
