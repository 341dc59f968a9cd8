//! Links on the terminal: with a QR code, and a new one when the user presses Enter.

use std::io::{BufRead, IsTerminal, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use switchboard_web::{Links, is_reachable, qr_for_terminal};

/// Poll interval of a background process for returning to the foreground.
const PAUSE: Duration = Duration::from_secs(1);

/// Returns a link with its QR code, if a phone can reach it, or with the advice how to get one.
pub(super) fn with_qr(link: &str, has_qr: bool) -> String {
    if !has_qr {
        return link.to_owned();
    }
    match qr_for_terminal(link).filter(|_| is_reachable(link)) {
        Some(code) => format!("{code}{link}"),
        None => format!(
            "{link}\nOnly browsers of this machine reach this address. For a phone and its QR code: switchboard serve \
             --behind-proxy NAME or --public-url URL"
        ),
    }
}

/// Prints a new link for every entered line, and a code to type for a line with `c`, if there is a terminal. Returns
/// whether there is one: other input may be meant for another program.
///
/// `answer` gets each line first, and returns whether it was an answer to something else.
pub(super) fn on_enter(
    links: Links,
    print: fn(&str),
    has_qr: bool,
    answer: impl Fn(&str) -> bool + Send + 'static,
) -> bool {
    let has_terminal = std::io::stdin().is_terminal();
    // The thread ends with the program: a blocking read of a key cannot be interrupted.
    has_terminal
        && std::thread::Builder::new()
            .name("enter".to_owned())
            .spawn(move || print_more(&links, print, has_qr, &answer))
            .is_ok()
}

fn print_more(links: &Links, print: fn(&str), has_qr: bool, answer: &dyn Fn(&str) -> bool) {
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
        if answer(line.trim()) {
            continue;
        }
        let made = match line.trim() {
            "c" => links
                .short_code()
                .map(|code| format!("{code} lets one browser in, once and within two minutes.")),
            _ => links.fresh().map(|link| with_qr(&link, has_qr)),
        };
        match made {
            Ok(made) => print(&made),
            Err(error) => eprintln!("switchboard: cannot create a link: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_a_phone_reaches_have_a_qr_code() {
        let near = with_qr("http://127.0.0.1:4173/#code=1", true);
        assert!(near.contains("--behind-proxy NAME or --public-url URL") && !near.contains('▀'), "{near}");
        let far = with_qr("https://hub.example.org/#code=1", true);
        assert!(far.contains('▀') && far.ends_with("https://hub.example.org/#code=1"), "{far}");
        assert_eq!(with_qr("https://hub.example.org/#code=1", false), "https://hub.example.org/#code=1");
    }
}
