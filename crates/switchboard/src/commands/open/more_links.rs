//! Prints a new link when the user presses Enter.

use std::io::{BufRead, IsTerminal, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use switchboard_web::Links;

/// Poll interval of a background process for returning to the foreground.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints a new link for every entered line, if there is a terminal. Returns whether there is one: other
/// input may be meant for another program.
pub(super) fn on_enter(links: Links) -> bool {
    let has_terminal = std::io::stdin().is_terminal();
    // The thread ends with the program: a blocking read of a key cannot be interrupted.
    has_terminal
        && std::thread::Builder::new().name("enter".to_owned()).spawn(move || print_more(&links)).is_ok()
}

fn print_more(links: &Links) {
    let mut line = String::new();
    loop {
        let stdin = std::io::stdin();
        // Reading from the terminal in the background would stop the process, and the agent with it.
        if !matches!(poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None), Ok(ready) if ready > 0) {
            return;
        }
        if tcgetpgrp(&stdin).is_ok_and(|foreground| foreground != getpgrp()) {
            std::thread::park_timeout(PAUSE);
            continue;
        }
        line.clear();
        // Limits the length of the line.
        if !matches!(stdin.lock().take(1024).read_line(&mut line), Ok(length) if length > 0) {
            return;
        }
        match links.fresh() {
            Ok(link) => println!("{link}"),
            Err(error) => eprintln!("switchboard: cannot create a link: {error}"),
        }
    }
}
