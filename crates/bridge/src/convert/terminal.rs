//! Terminals of an agent for clients without terminals, which show their output as text.

use switchboard_acp::{Field, v2};

use crate::Error;
use crate::convert::Conversion;
use crate::loss::Severity;

const REASON: &str = "the client does not support terminals of the agent; their output is shown as text";

/// Notes the losses of a terminal update: everything except output and exit status, and for some clients
/// command and directory.
pub(crate) fn report_lost_update(
    update: &v2::TerminalUpdate<'_>,
    introduces: bool,
    cx: &mut Conversion<'_>,
) -> Result<(), Error> {
    let v2::TerminalUpdate {
        terminal_id: _,
        command,
        cwd,
        output,
        exit_status,
        size,
        capabilities,
        meta,
        extra,
        more: _,
    } = update;
    if let (Field::Set(_), false) = (command, introduces) {
        cx.key("command").report_loss(Severity::Minor, REASON)?;
    }
    if let (Field::Set(_), false) = (cwd, introduces) {
        cx.key("cwd").report_loss(Severity::Minor, REASON)?;
    }
    if let Field::Set(output) = output {
        let v2::TerminalOutput { data: _, meta, extra, more: _ } = output;
        cx.key("output").report_lost_rest(meta.as_ref(), extra, REASON)?;
    }
    if let Field::Set(status) = exit_status {
        let v2::TerminalExitStatus { exit_code: _, signal: _, meta, extra, more: _ } = status;
        cx.key("exitStatus").report_lost_rest(meta.as_ref(), extra, REASON)?;
    }
    if let Field::Set(_) = size {
        cx.key("size").report_loss(Severity::Minor, REASON)?;
    }
    if let Field::Set(_) = capabilities {
        cx.key("capabilities").report_loss(Severity::Minor, REASON)?;
    }
    cx.report_lost_rest(meta.value(), extra, REASON)
}

/// Notes the losses of an output chunk: everything except the output.
pub(crate) fn report_lost_chunk(
    chunk: &v2::TerminalOutputChunk<'_>,
    cx: &mut Conversion<'_>,
) -> Result<(), Error> {
    let v2::TerminalOutputChunk { terminal_id: _, data: _, meta, extra, more: _ } = chunk;
    cx.report_lost_rest(meta.as_ref(), extra, REASON)
}
