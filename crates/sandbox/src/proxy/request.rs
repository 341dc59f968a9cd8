//! Requests to the proxy: HTTP CONNECT, HTTP with an absolute address, and SOCKS 5.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use switchboard_policy::is_host_name;

/// Maximum length of the head of a request in bytes.
pub const MAX_HEAD: usize = 16 * 1024;

/// The host and port that a request names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// A lower-case name, or an address in its normal spelling.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Target {
    /// Parses `host:port`. The host is a name, or an address in its normal spelling; IPv6 has brackets.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let is_plain = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse::<u16>().ok().filter(|port| is_plain && *port > 0)?;
        Some(Target { host: host_of(host)?, port })
    }

    /// Returns the address if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

fn host_of(text: &str) -> Option<String> {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address = inner.parse::<Ipv6Addr>().ok()?;
        // Another spelling of an IPv4 address would be compared as something else.
        return address.to_ipv4_mapped().is_none().then(|| address.to_string());
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return (address.to_string() == text).then(|| text.to_owned());
    }
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    is_host_name(name).then(|| name.to_owned())
}

/// A request with HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpRequest {
    /// Opens a tunnel.
    Connect(Target),
    /// Sends one request.
    Plain {
        /// The host.
        target: Target,
        /// The head for the host itself.
        head: Vec<u8>,
        /// Length of the body in bytes.
        body: u64,
    },
}

/// Reason why a request is refused, with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRequest {
    /// HTTP status.
    pub status: &'static str,
    /// Explanation for people.
    pub reason: &'static str,
}

fn bad(reason: &'static str) -> BadRequest {
    BadRequest { status: "400 Bad Request", reason }
}

/// Parses the head of an HTTP request, including the empty line at its end.
pub fn parse_http(head: &[u8]) -> Result<HttpRequest, BadRequest> {
    let text = std::str::from_utf8(head).map_err(|_| bad("the head is not UTF-8"))?;
    let text = text.strip_suffix("\r\n\r\n").ok_or(bad("the head has no end"))?;
    // A bare line feed ends a line for some servers, and other control characters are taken for spaces.
    let is_control = |(at, byte): (usize, u8)| match byte {
        b'\t' => false,
        b'\r' => text.as_bytes().get(at + 1) != Some(&b'\n'),
        b'\n' => at == 0 || text.as_bytes()[at - 1] != b'\r',
        byte => byte.is_ascii_control(),
    };
    if text.bytes().enumerate().any(is_control) {
        return Err(bad("the head has control characters"));
    }
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(address), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad("the request line is malformed"));
    };
    if version != "HTTP/1.1" && version != "HTTP/1.0" {
        return Err(bad("the version is not HTTP/1"));
    }
    if method == "CONNECT" {
        return Target::parse(address)
            .map(HttpRequest::Connect)
            .ok_or(bad("CONNECT needs a host and a port"));
    }
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_address = address.bytes().all(|byte| byte.is_ascii_graphic());
    let rest = address.strip_prefix("http://").filter(|_| is_method && is_address);
    let rest = rest.ok_or(bad("this is a proxy: expected CONNECT or an address that begins with http://"))?;
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let target = if has_port { Target::parse(authority) } else { Target::parse(&format!("{authority}:80")) };
    let target = target.ok_or(bad("the host is malformed"))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut host = target.to_string();
    if target.port == 80 {
        host.truncate(host.len() - ":80".len());
    }
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    let mut body = None;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(bad("a header is malformed"))?;
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if !is_name || value.contains(['\r', '\n', '\0']) {
            return Err(bad("a header is malformed"));
        }
        match name.to_ascii_lowercase().as_str() {
            "host"
            | "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "upgrade" => continue,
            "transfer-encoding" => {
                return Err(BadRequest {
                    status: "411 Length Required",
                    reason: "a request over plain HTTP needs a Content-Length",
                });
            }
            "content-length" => {
                let value = value.trim();
                let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let length = value.parse::<u64>().ok().filter(|_| is_number && body.is_none());
                body = Some(length.ok_or(bad("the Content-Length is malformed"))?);
            }
            _ => {}
        }
        head.push_str(line);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    Ok(HttpRequest::Plain { target, head: head.into_bytes(), body: body.unwrap_or_default() })
}

/// Parses the request of a SOCKS 5 client after its greeting. Returns `None` if more bytes are needed.
pub fn parse_socks(bytes: &[u8]) -> Option<Result<Target, BadRequest>> {
    let [version, command, _, kind, rest @ ..] = bytes else { return None };
    if *version != 5 || *command != 1 {
        return Some(Err(bad("only SOCKS 5 CONNECT is possible")));
    }
    let (host, port) = match kind {
        1 => (Ipv4Addr::from(<[u8; 4]>::try_from(rest.get(..4)?).ok()?).to_string(), rest.get(4..6)?),
        3 => {
            let length = usize::from(*rest.first()?);
            let name = String::from_utf8_lossy(rest.get(1..=length)?).into_owned();
            (name, rest.get(length + 1..length + 3)?)
        }
        4 => {
            let address = Ipv6Addr::from(<[u8; 16]>::try_from(rest.get(..16)?).ok()?);
            (format!("[{address}]"), rest.get(16..18)?)
        }
        _ => return Some(Err(bad("the kind of address is unknown"))),
    };
    let port = u16::from_be_bytes(<[u8; 2]>::try_from(port).ok()?);
    Some(Target::parse(&format!("{host}:{port}")).ok_or(bad("the host is malformed")))
}

/// The server name in the first message of a TLS client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerName {
    /// More bytes are needed.
    Unfinished,
    /// It is not TLS, or has no server name.
    Missing,
    /// The name, in lower case.
    Named(String),
    /// It is TLS, but malformed.
    Malformed,
}

/// Reads the server name of a TLS client from its first bytes.
pub fn server_name(bytes: &[u8]) -> ServerName {
    if bytes.is_empty() {
        return ServerName::Unfinished;
    }
    if bytes[0] != 0x16 {
        return ServerName::Missing;
    }
    // The message may be split over several records.
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        let [kind, _, _, high, low, after @ ..] = rest else { return ServerName::Unfinished };
        if *kind != 0x16 {
            return ServerName::Malformed;
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length == 0 || length > 16 * 1024 + 256 {
            return ServerName::Malformed;
        }
        let Some(record) = after.get(..length) else { return ServerName::Unfinished };
        message.extend_from_slice(record);
        rest = &after[length..];
        if let [kind, a, b, c, ..] = message[..] {
            let wanted = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if kind != 1 || wanted > MAX_HEAD {
                return ServerName::Malformed;
            }
            if let Some(hello) = message.get(4..4 + wanted) {
                return name_of_hello(hello).map_or(ServerName::Malformed, |name| {
                    name.map_or(ServerName::Missing, ServerName::Named)
                });
            }
        }
        if rest.is_empty() {
            return ServerName::Unfinished;
        }
    }
}

/// Returns the name in a ClientHello, `Some(None)` if it has none, and `None` if it is malformed.
fn name_of_hello(hello: &[u8]) -> Option<Option<String>> {
    let mut at = 34;
    // Session id, cipher suites, compression methods.
    at += 1 + usize::from(*hello.get(at)?);
    at += 2 + number(hello, at)?;
    at += 1 + usize::from(*hello.get(at)?);
    if at == hello.len() {
        return Some(None);
    }
    let end = at + 2 + number(hello, at)?;
    at += 2;
    let mut found = None;
    while at + 4 <= end {
        let (kind, length) = (number(hello, at)?, number(hello, at + 2)?);
        let content = hello.get(at + 4..at + 4 + length)?;
        if kind == 0 {
            // A list with one name, of the kind host name.
            let name = content.get(5..)?;
            let is_usual = number(content, 0)? == content.len() - 2
                && content[2] == 0
                && number(content, 3)? == name.len()
                && found.is_none();
            found = Some(is_usual.then(|| std::str::from_utf8(name).ok()).flatten()?.to_ascii_lowercase());
        }
        at += 4 + length;
    }
    (at == end && end == hello.len()).then_some(found)
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 2)?;
    Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn targets_have_a_host_in_its_normal_spelling_and_a_port() {
        let target = |text| Target::parse(text).map(|target| target.to_string());
        assert_eq!(target("Example.COM:443").as_deref(), Some("example.com:443"));
        assert_eq!(target("example.com.:443").as_deref(), Some("example.com:443"));
        assert_eq!(target("10.0.0.7:80").as_deref(), Some("10.0.0.7:80"));
        assert_eq!(target("[::1]:80").as_deref(), Some("[::1]:80"));
        for odd in [
            "example.com",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "example.com:+80",
            "127.1:80",
            "0x7f000001:80",
            "2130706433:80",
            "010.0.0.1:80",
            "[::ffff:127.0.0.1]:80",
            "::1:80",
            "user@example.com:80",
            "exa mple.com:80",
            "a\0b.com:80",
            "éxample.com:80",
            ":80",
        ] {
            assert_eq!(target(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn plain_requests_are_rewritten() {
        let head = "POST http://Example.com:8080/a?b HTTP/1.1\r\nHost: other.com\r\nProxy-Authorization: x\r\n\
                    Connection: keep-alive\r\nContent-Length: 3\r\nX-Y: z\r\n\r\n";
        let HttpRequest::Plain { target, head, body } = parse_http(head.as_bytes()).unwrap() else {
            unreachable!("a plain request")
        };
        assert_eq!((target.to_string().as_str(), body), ("example.com:8080", 3));
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "POST /a?b HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\nContent-Length: 3\r\nX-Y: z\r\n\r\n"
        );
        let connect = parse_http(b"CONNECT a.com:443 HTTP/1.1\r\nHost: b.com\r\n\r\n").unwrap();
        assert_eq!(connect, HttpRequest::Connect(Target { host: "a.com".into(), port: 443 }));
        for odd in [
            "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET https://a.com/ HTTP/1.1\r\n\r\n",
            "GET http://a.com/ HTTP/2\r\n\r\n",
            "GET http://a.com/  HTTP/1.1\r\n\r\n",
            "GET http://a.com/\nHost:b.com HTTP/1.1\r\n\r\n",
            "GET http://a.com/\rHost:b.com HTTP/1.1\r\n\r\n",
            "GET http://a.com/\tx HTTP/1.1\r\n\r\n",
            "GET http://a.com/\u{e9} HTTP/1.1\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nX: a\nHost: b.com\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nContent-Length: \x0b5\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nX: \x7f\r\n\r\n",
            "GET http://u:p@a.com/ HTTP/1.1\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nbad header\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\n X: folded\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "CONNECT a.com HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert!(parse_http(odd.as_bytes()).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn socks_requests_are_read() {
        let name = b"\x05\x01\x00\x03\x05a.com\x01\xbb";
        assert_eq!(parse_socks(name).unwrap().unwrap().to_string(), "a.com:443");
        assert_eq!(
            parse_socks(b"\x05\x01\x00\x01\x0a\0\0\x07\0\x50").unwrap().unwrap().to_string(),
            "10.0.0.7:80"
        );
        assert_eq!(parse_socks(&name[..8]), None);
        assert!(parse_socks(b"\x05\x02\x00\x03\x05a.com\x01\xbb").unwrap().is_err());
        assert!(parse_socks(b"\x05\x01\x00\x03\x03a b\x01\xbb").unwrap().is_err());
    }

    /// Returns the first message of a TLS client.
    pub(crate) fn hello(name: Option<&str>) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        let mut extensions = vec![0, 43, 0, 3, 2, 3, 4];
        if let Some(name) = name {
            let length = name.len() as u16;
            extensions.extend([0, 0]);
            for number in [length + 5, length + 3] {
                extensions.extend(number.to_be_bytes());
            }
            extensions.push(0);
            extensions.extend(length.to_be_bytes());
            extensions.extend(name.bytes());
        }
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut message = vec![1, 0];
        message.extend((body.len() as u16).to_be_bytes());
        message.extend(body);
        let mut record = vec![0x16, 3, 1];
        record.extend((message.len() as u16).to_be_bytes());
        record.extend(message);
        record
    }

    #[test]
    fn the_server_name_of_tls_is_read() {
        assert_eq!(server_name(&hello(Some("A.example.com"))), ServerName::Named("a.example.com".into()));
        assert_eq!(server_name(&hello(None)), ServerName::Missing);
        assert_eq!(server_name(b"GET / HTTP/1.1"), ServerName::Missing);
        let whole = hello(Some("a.com"));
        for length in 0..whole.len() {
            assert_eq!(server_name(&whole[..length]), ServerName::Unfinished, "{length}");
        }
        // In two records.
        let mut split = vec![0x16, 3, 1, 0, 10];
        split.extend(&whole[5..15]);
        split.extend([0x16, 3, 1]);
        split.extend(((whole.len() - 15) as u16).to_be_bytes());
        split.extend(&whole[15..]);
        assert_eq!(server_name(&split), ServerName::Named("a.com".into()));
        let mut odd = whole.clone();
        odd[5] = 2;
        assert_eq!(server_name(&odd), ServerName::Malformed);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_http(&bytes);
            let _ = parse_socks(&bytes);
            let _ = server_name(&bytes);
            let mut framed = vec![0x16, 3, 1, 1, 0];
            framed.extend(&bytes);
            let _ = server_name(&framed);
        }

        #[test]
        fn a_head_for_the_host_has_one_request(path in "[\\x00-\\x7f]{0,40}", value in "[\\x00-\\x7f]{0,40}") {
            let head = format!("GET http://a.com/{path} HTTP/1.1\r\nX: {value}\r\n\r\n");
            if let Ok(HttpRequest::Plain { head, .. }) = parse_http(head.as_bytes()) {
                let text = String::from_utf8(head).unwrap();
                prop_assert_eq!(text.matches("\r\n\r\n").count(), 1);
                prop_assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
                prop_assert_eq!(text.to_ascii_lowercase().matches("\r\nhost:").count(), 1);
            }
        }
    }
}
