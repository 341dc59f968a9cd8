//! Translation and passthrough of lines, compared with a plain copy of the same lines in the same run.

use switchboard_bridge::{Bridge, BridgeOptions, Dialect, Handled, Moment, Output, Side, Version};
use switchboard_testkit::{Contest, TagPlace, stream};

/// Lower bound for any bridge: copies each line into a buffer.
fn copy(lines: &[String]) -> usize {
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut written = 0;
    for line in lines {
        buffer.extend_from_slice(line.as_bytes());
        buffer.push(b'\n');
        if buffer.len() > 60 * 1024 {
            written += std::hint::black_box(&buffer).len();
            buffer.clear();
        }
    }
    written + buffer.len()
}

/// Passes all lines through a bridge into a buffer.
fn through(options: BridgeOptions, lines: &[String]) -> usize {
    let mut bridge = Bridge::new(options);
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut written = 0;
    for (number, line) in lines.iter().enumerate() {
        let handled = bridge.handle(Side::Agent, line, Moment(number as i64 / 100));
        for output in bridge.drain() {
            if let Output::Line { line, .. } = output {
                buffer.extend_from_slice(line.as_bytes());
                buffer.push(b'\n');
            }
        }
        if handled == Handled::Forward {
            buffer.extend_from_slice(line.as_bytes());
            buffer.push(b'\n');
        }
        if buffer.len() > 60 * 1024 {
            written += std::hint::black_box(&buffer).len();
            buffer.clear();
        }
    }
    written + buffer.len()
}

fn main() {
    let v2: Vec<String> = stream(100_000, TagPlace::First);
    let mut down = Bridge::new(BridgeOptions::between(Version::V1, Version::V2));
    let mut v1 = Vec::new();
    for line in &v2 {
        let _ = down.handle(Side::Agent, line, Moment(0));
        for output in down.drain() {
            if let Output::Line { line, .. } = output {
                v1.push(line);
            }
        }
    }
    let same = |dialect| BridgeOptions {
        client_dialect: dialect,
        agent_dialect: dialect,
        ..BridgeOptions::between(Version::V2, Version::V2)
    };
    let times = Contest::new(format!("{} lines of version 2, {} of version 1", v2.len(), v1.len()), 7)
        .contender("bare copy", || copy(&v2))
        .contender("same version and dialect", || through(same(Some(Dialect::Newest)), &v2))
        .contender("same version, dialects not known", || through(same(None), &v2))
        .contender("version 2 to version 1", || {
            through(BridgeOptions::between(Version::V1, Version::V2), &v2)
        })
        .contender("version 1 to version 2", || {
            through(BridgeOptions::between(Version::V2, Version::V1), &v1)
        })
        .run();
    for (name, time) in times {
        let lines = if name.starts_with("version 1") { v1.len() } else { v2.len() };
        println!("  {name:<46} {:>12.0} lines a second", lines as f64 / time.as_secs_f64());
    }
}
