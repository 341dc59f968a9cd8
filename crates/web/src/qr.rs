//! QR codes of links, so that a phone can open them.

use qrcode::{Color, EcLevel, QrCode};

/// Width of the light border in modules, which readers need.
const BORDER: usize = 4;

/// The modules of a code, with its border.
struct Modules {
    width: usize,
    dark: Vec<bool>,
}

impl Modules {
    /// Returns the code of a text; `None` if the text is too long.
    fn of(text: &str) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let width = code.width();
        let dark = code.to_colors().into_iter().map(|color| color == Color::Dark).collect();
        Some(Modules { width, dark })
    }

    /// Returns the number of modules on one side, with the border.
    fn side(&self) -> usize {
        self.width + 2 * BORDER
    }

    /// Returns whether a module is dark. The border is light.
    fn is_dark(&self, row: usize, column: usize) -> bool {
        let inside = |place: usize| place.checked_sub(BORDER).filter(|place| *place < self.width);
        match (inside(row), inside(column)) {
            (Some(row), Some(column)) => self.dark.get(row * self.width + column) == Some(&true),
            _ => false,
        }
    }
}

/// Returns a text as a QR code for a terminal: half blocks, black on white whatever the colors of the terminal are.
/// `None` if the text is too long.
///
/// ```
/// let code = switchboard_web::qr_for_terminal("https://hub.example.org/#code=0123").unwrap();
/// assert!(code.lines().all(|line| line.ends_with("\u{1b}[0m")));
/// ```
pub fn qr_for_terminal(text: &str) -> Option<String> {
    let modules = Modules::of(text)?;
    let mut lines = String::new();
    for row in (0..modules.side()).step_by(2) {
        lines.push_str("\u{1b}[38;5;16;48;5;231m");
        for column in 0..modules.side() {
            lines.push(match (modules.is_dark(row, column), modules.is_dark(row + 1, column)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        lines.push_str("\u{1b}[0m\n");
    }
    Some(lines)
}

/// Returns a text as a QR code in SVG; `None` if the text is too long.
pub(crate) fn svg(text: &str) -> Option<maud::Markup> {
    let modules = Modules::of(text)?;
    let side = modules.side();
    let mut path = String::new();
    for row in 0..side {
        let mut column = 0;
        while column < side {
            let length = (column..side).take_while(|column| modules.is_dark(row, *column)).count();
            if length > 0 {
                path.push_str(&format!("M{column} {row}h{length}v1h-{length}z"));
            }
            column += length.max(1);
        }
    }
    Some(maud::html! {
        svg class="qr" viewBox=(format!("0 0 {side} {side}")) width="240" height="240" role="img"
            aria-label="QR code of the link" shape-rendering="crispEdges" {
                rect width=(side) height=(side) fill="#fff" {}
                path d=(path) fill="#000" {}
            }
    })
}

/// Returns whether other devices can reach an address: its host is not this machine's loopback.
///
/// ```
/// use switchboard_web::is_reachable;
///
/// assert!(is_reachable("https://hub.example.org/#code=1"));
/// assert!(!is_reachable("http://127.0.0.1:4173/") && !is_reachable("http://localhost:4173"));
/// ```
pub fn is_reachable(link: &str) -> bool {
    let Some((_, rest)) = link.split_once("://") else { return false };
    let host = rest.split(['/', '#', '?']).next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(host) => host.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => !address.is_loopback() && !address.is_unspecified(),
        Err(_) => !host.is_empty() && !host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "https://hub.tailnet.ts.net/#code=0123456789abcdef0123456789abcdef";

    #[test]
    fn a_link_fits_into_41_columns_and_21_lines() {
        let code = qr_for_terminal(LINK).unwrap();
        let lines: Vec<&str> = code.lines().collect();
        assert_eq!(lines.len(), 21);
        for line in lines {
            let plain =
                line.strip_prefix("\u{1b}[38;5;16;48;5;231m").unwrap().strip_suffix("\u{1b}[0m").unwrap();
            assert_eq!(plain.chars().count(), 41);
        }
        assert_eq!(qr_for_terminal(&"x".repeat(5000)), None);
    }

    #[test]
    fn the_picture_has_the_modules_of_the_code_and_a_border() {
        let modules = Modules::of(LINK).unwrap();
        let svg = svg(LINK).unwrap().into_string();
        assert!(svg.contains("viewBox=\"0 0 41 41\""), "{svg}");
        // Draws the path again, and compares each module.
        let path = svg.split("d=\"").nth(1).unwrap().split('"').next().unwrap();
        let mut drawn = vec![false; 41 * 41];
        for run in path.split_terminator('z') {
            let (place, length) = run[1..].split_once('h').unwrap();
            let (column, row) = place.split_once(' ').unwrap();
            let length: usize = length.split('v').next().unwrap().parse().unwrap();
            let start = row.parse::<usize>().unwrap() * 41 + column.parse::<usize>().unwrap();
            drawn[start..start + length].fill(true);
        }
        for row in 0..41 {
            for column in 0..41 {
                assert_eq!(drawn[row * 41 + column], modules.is_dark(row, column), "{row} {column}");
                let is_border = !(4..37).contains(&row) || !(4..37).contains(&column);
                assert!(!is_border || !modules.is_dark(row, column));
            }
        }
    }

    #[test]
    fn loopback_addresses_are_not_reachable() {
        for near in [
            "http://127.0.0.1:1/",
            "http://127.9.9.9",
            "http://localhost",
            "http://[::1]:1/",
            "http://0.0.0.0:1",
            "x",
        ] {
            assert!(!is_reachable(near), "{near}");
        }
        for far in ["http://192.168.1.2:4173/", "https://[2001:db8::1]/", "https://localhost.example.org"] {
            assert!(is_reachable(far), "{far}");
        }
    }
}
