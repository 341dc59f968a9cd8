//! Runs the tests, and repeats failed ones alone.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::{cargo, root};

/// Maximum number of failed tests that are repeated.
const MOST_TRIED_AGAIN: usize = 5;

/// Runs the tests of all crates. Many of them run several programs at once (agents, servers, browsers), and
/// on a busy machine a test may exceed its timeout. If only a few fail, they are repeated one at a time: a
/// real fault fails again, and slow tests are listed at the end.
pub(crate) fn run() -> Result<(), String> {
    let mut slow = Vec::new();
    for targets in [&["--lib", "--bins", "--examples"][..], &["--test", "*"]] {
        let failed = failures(targets)?;
        if !failed.is_empty() {
            println!("\nonce more, one at a time:\n    {}", failed.join("\n    "));
            let again = ["test", "--workspace", "--locked"].iter().chain(targets);
            let alone = ["--", "--exact", "--test-threads", "1"];
            cargo(again.chain(&alone).copied().chain(failed.iter().map(String::as_str)))?;
            slow.extend(failed);
        }
    }
    // Features outside of the default build. Only the program itself is built again for them.
    let with_telemetry =
        ["test", "--workspace", "--locked", "--features", "switchboard/otlp", "--test", "it"];
    cargo(with_telemetry.into_iter().chain(["--", "telemetry::"]))?;
    cargo(["test", "--workspace", "--locked", "--doc"])?;
    if !slow.is_empty() {
        println!("\npassed at the second try only:\n    {}", slow.join("\n    "));
    }
    Ok(())
}

/// Runs the tests of some targets. Returns the failed ones if they are few; fails if they are many, or for
/// other reasons.
fn failures(targets: &[&str]) -> Result<Vec<String>, String> {
    let arguments = [&["test", "--workspace", "--locked", "--no-fail-fast"], targets].concat();
    let line = format!("cargo {}", arguments.join(" "));
    println!("\n==> {line}");
    let mut child = Command::new("cargo")
        .args(arguments)
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {line}: {error}"))?;
    let mut report = Report::default();
    for output in BufReader::new(child.stdout.take().ok_or("no output")?).split(b'\n') {
        let output = output.map_err(|error| format!("cannot read the output of {line}: {error}"))?;
        let _ = std::io::stdout().write_all(&[&output, &b"\n"[..]].concat());
        report.read(&String::from_utf8_lossy(&output));
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {line}: {error}"))?;
    let is_few = (1..=MOST_TRIED_AGAIN).contains(&report.failed.len());
    if status.success() {
        Ok(Vec::new())
    } else if is_few && report.unfinished == 0 {
        Ok(report.failed)
    } else {
        Err(format!("failed ({status}): {line}"))
    }
}

/// Output of test programs.
#[derive(Default)]
struct Report {
    /// Number of tests that started without reporting a result, because they crashed.
    unfinished: usize,
    listed: Option<Vec<String>>,
    failed: Vec<String>,
}

impl Report {
    fn read(&mut self, line: &str) {
        let name = line.strip_prefix("    ").filter(|name| !name.is_empty() && !name.contains(' '));
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.unfinished += 1;
        }
        if line.starts_with("test result: ") {
            self.unfinished = self.unfinished.saturating_sub(1);
        }
        match (&mut self.listed, name) {
            _ if line == "failures:" => self.listed = Some(Vec::new()),
            (Some(listed), Some(name)) => listed.push(name.to_owned()),
            (Some(_), None) if line.is_empty() => {}
            (Some(listed), None) if line.starts_with("test result: FAILED") => {
                self.failed.append(listed);
                self.listed = None;
            }
            _ => self.listed = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn only_the_last_list_before_the_result_names_failures() {
        let output = "\
running 3 tests
test web::a ... ok
test web::b ... FAILED

failures:

---- web::b stdout ----
    said
failures:
    no::test

failures:
    web::b
    web::c

test result: FAILED. 1 passed; 2 failed; 0 ignored

running 1 test
failures:
    not::confirmed";
        let mut report = Report::default();
        output.lines().for_each(|line| report.read(line));
        assert_eq!(report.failed, ["web::b", "web::c"]);
        assert_eq!(report.unfinished, 1, "the second died");
    }
}
