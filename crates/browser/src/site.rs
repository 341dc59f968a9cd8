//! A web site for tests of the browser, and for attacks from another origin.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

/// Serves a page at every path of an origin of its own until the process ends, and returns its address. Its
/// content security policy forbids images.
///
/// # Panics
///
/// If no port is free.
#[must_use]
pub fn serve(page: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/", listener.local_addr().expect("an address"));
    let policy = "default-src * 'unsafe-inline'; img-src 'none'";
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-security-policy: {policy}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{page}",
        page.len()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || respond(&stream, &answer));
        }
    });
    address
}

fn respond(mut stream: &TcpStream, answer: &str) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream);
    while reader.read_line(&mut head).is_ok_and(|length| length > 2) {}
    let _ = stream.write_all(answer.as_bytes());
}
