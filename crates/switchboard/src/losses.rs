//! The report of translation losses on standard error.

use switchboard_bridge::{LossReport, Severity};

use crate::standard_error;

/// Prints how many things could not be carried over, by kind and with a reason each. Prints nothing where all could.
pub(crate) fn report(losses: &LossReport) {
    if losses.total() == 0 {
        return;
    }
    standard_error::say(format!("switchboard: {} things could not be carried over:", losses.total()));
    for (message, element, count) in losses.counts() {
        let why =
            losses.entries().iter().find(|loss| loss.message == message && loss.severity != Severity::Guess);
        let why = why.map_or("", |loss| &loss.reason);
        standard_error::say(format!("  {count} x {message} {element}: {why}"));
    }
}
