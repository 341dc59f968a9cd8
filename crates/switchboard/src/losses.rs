//! The report of translation losses on standard error.

use switchboard_bridge::{LossReport, Severity};

use crate::standard_error;

/// Prints the number of losses by kind, each with a reason. Prints nothing without losses.
pub(crate) fn report(losses: &LossReport) {
    if losses.total() == 0 {
        return;
    }
    standard_error::say(format!("switchboard: {} losses:", losses.total()));
    for (message, element, count) in losses.counts() {
        let why =
            losses.entries().iter().find(|loss| loss.message == message && loss.severity != Severity::Guess);
        let why = why.map_or("", |loss| &loss.reason);
        standard_error::say(format!("  {count} x {message} {element}: {why}"));
    }
}
