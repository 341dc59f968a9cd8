//! Clients with a text interface.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::wait_until;

/// Size of the screen.
const ROWS: NonZero<u16> = NonZero::<u16>::MIN.saturating_add(49);
const COLUMNS: NonZero<u16> = NonZero::<u16>::MIN.saturating_add(139);

/// A client on a terminal, and what its screen shows. It is killed when this is dropped.
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Terminal").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Terminal {
    /// Starts a command on a terminal of its own.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let failed = |error: &dyn std::fmt::Display| -> ! { panic!("there is no terminal: {error}") };
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap_or_else(|error| failed(&error));
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).unwrap_or_else(|error| failed(&error));
        let size = Winsize { ws_row: ROWS.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap_or_else(|error| failed(&error));
        let path = ptsname(&terminal, Vec::new()).unwrap_or_else(|error| failed(&error));
        let path = path.to_string_lossy().into_owned();
        let open =
            || OpenOptions::new().read(true).write(true).open(&path).unwrap_or_else(|error| failed(&error));
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        // Our copies of the terminal must not keep it open.
        drop(command);
        let keyboard = File::from(terminal);
        let mut shown = keyboard.try_clone().unwrap_or_else(|error| failed(&error));
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let parsed = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = shown.read(&mut piece) {
                parsed.lock().unwrap_or_else(PoisonError::into_inner).process(&piece[..length]);
            }
        });
        Terminal { child, keyboard, screen }
    }

    /// Returns the text of the screen.
    #[must_use]
    pub fn text(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).screen().contents()
    }

    /// Waits until the screen shows some words.
    #[track_caller]
    pub fn wait(&self, words: &str) {
        self.wait_until(&format!("{words:?} on the screen"), |text| text.contains(words));
    }

    /// Waits until a condition holds for the text of the screen.
    #[track_caller]
    pub fn wait_until(&self, awaited: &str, condition: impl Fn(&str) -> bool) {
        let state = || format!("the screen shows:\n{}", self.text());
        wait_until(awaited, state, || condition(&self.text()).then_some(()));
    }

    /// Types a text; `\r` is Enter.
    #[track_caller]
    pub fn type_text(&mut self, text: &str) {
        let typed = self.keyboard.write_all(text.as_bytes());
        typed.unwrap_or_else(|error| panic!("cannot type {text:?}: {error}"));
    }

    /// Kills the client, as a crash does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.kill();
    }
}
