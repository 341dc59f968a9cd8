//! A new link whenever somebody presses Enter in the terminal.

use std::io::{BufRead, IsTerminal, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use switchboard_web::Links;

/// How often a process in the background looks whether it has come to the foreground.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints a new link for every line that is entered, where there is a terminal. Tells whether there is one: what comes
/// from elsewhere may be meant for somebody else.
pub(super) fn on_enter(links: Links) -> bool {
    let has_terminal = std::io::stdin().is_terminal();
    // It ends with the program: nobody can be woken who waits for a key.
    has_terminal
        && std::thread::Builder::new().name("enter".to_owned()).spawn(move || print_more(&links)).is_ok()
}

fn print_more(links: &Links) {
    let mut line = String::new();
    loop {
        let stdin = std::io::stdin();
        // Whoever reads from the terminal in the background is stopped, and the agent with it.
        if !matches!(poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None), Ok(ready) if ready > 0) {
            return;
        }
        if tcgetpgrp(&stdin).is_ok_and(|foreground| foreground != getpgrp()) {
            std::thread::park_timeout(PAUSE);
            continue;
        }
        line.clear();
        // Nobody means a long line.
        if !matches!(stdin.lock().take(1024).read_line(&mut line), Ok(length) if length > 0) {
            return;
        }
        match links.fresh() {
            Ok(link) => println!("{link}"),
            Err(error) => eprintln!("switchboard: no link can be made: {error}"),
        }
    }
}
