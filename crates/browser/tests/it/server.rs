//! A web server that knows one page.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

/// Serves a page at every path, with a content security policy, for as long as the tests run. Gives its address.
pub(crate) fn serve(page: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&stream, page));
        }
    });
    address
}

fn answer(stream: &TcpStream, page: &str) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream);
    while reader.read_line(&mut head).is_ok_and(|length| length > 2) {}
    let policy = "default-src 'self' 'unsafe-inline'; img-src 'none'";
    let length = page.len();
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-security-policy: {policy}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{page}"
    );
}
