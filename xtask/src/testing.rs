//! Running the tests; those in a browser once more where they fail.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::{cargo, root};

/// Tests in a browser are the integration tests with this in their name. Each is several programs at once, and on a machine whose time goes
/// elsewhere something may take longer than a test has patience for.
const IN_BROWSER: &str = "web::";

/// More failures than this are no matter of patience.
const MOST_TRIED_AGAIN: usize = 5;

/// Runs the tests of all crates. Where a few of those in a browser fail, they are tried once more, one at a time: a
/// fault fails again, and what was only slow is told at the end.
pub(crate) fn run() -> Result<(), String> {
    cargo(["test", "--workspace", "--locked", "--lib", "--bins", "--examples"])?;
    cargo(["test", "--workspace", "--locked", "--test", "*", "--", "--skip", IN_BROWSER])?;
    cargo(["test", "--workspace", "--locked", "--doc"])?;
    let failed = in_browser()?;
    if failed.is_empty() {
        return Ok(());
    }
    println!("\nonce more, one at a time:\n    {}", failed.join("\n    "));
    let again = ["test", "--workspace", "--locked", "--test", "it", "--", "--exact", "--test-threads", "1"];
    cargo(again.into_iter().chain(failed.iter().map(String::as_str)))?;
    println!("\npassed at the second try only:\n    {}", failed.join("\n    "));
    Ok(())
}

/// The tests in a browser that failed; an error where there are too many, or something else went wrong.
fn in_browser() -> Result<Vec<String>, String> {
    let arguments = ["test", "--workspace", "--locked", "--test", "it", "--no-fail-fast", "--", IN_BROWSER];
    let line = format!("cargo {}", arguments.join(" "));
    println!("\n==> {line}");
    let mut child = Command::new("cargo")
        .args(arguments)
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {line}: {error}"))?;
    let mut failures = Failures::default();
    for output in BufReader::new(child.stdout.take().ok_or("no output")?).split(b'\n') {
        let output = output.map_err(|error| format!("cannot read the output of {line}: {error}"))?;
        let _ = std::io::stdout().write_all(&[&output, &b"\n"[..]].concat());
        failures.read(&String::from_utf8_lossy(&output));
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {line}: {error}"))?;
    let few = 1..=MOST_TRIED_AGAIN;
    if status.success() {
        Ok(Vec::new())
    } else if few.contains(&failures.confirmed.len()) {
        Ok(failures.confirmed)
    } else {
        Err(format!("failed ({status}): {line}"))
    }
}

/// The names that test programs list as failed before their result.
#[derive(Default)]
struct Failures {
    listed: Option<Vec<String>>,
    confirmed: Vec<String>,
}

impl Failures {
    fn read(&mut self, line: &str) {
        let name = line.strip_prefix("    ").filter(|name| !name.is_empty() && !name.contains(' '));
        match (&mut self.listed, name) {
            _ if line == "failures:" => self.listed = Some(Vec::new()),
            (Some(listed), Some(name)) => listed.push(name.to_owned()),
            (Some(_), None) if line.is_empty() => {}
            (Some(listed), None) if line.starts_with("test result: FAILED") => {
                self.confirmed.append(listed);
                self.listed = None;
            }
            _ => self.listed = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failures;

    #[test]
    fn only_the_last_list_before_the_result_names_failures() {
        let output = "\
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
failures:
    not::confirmed";
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.read(line));
        assert_eq!(failures.confirmed, ["web::b", "web::c"]);
    }
}
