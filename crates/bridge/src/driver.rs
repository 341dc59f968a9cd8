//! Drives a [`Bridge`]: supplies the current time and collects its output.

use std::time::Instant;

use switchboard_acp::v2;

use crate::bridge::Handled;
use crate::context::Output;
use crate::host::Host;
use crate::{Bridge, BridgeOptions, Loss, Moment, Side};

/// Receiver of the lines and losses that a [`Driver`] produces.
///
/// Both methods are required, so every program that translates has to decide how it handles losses.
pub trait Port {
    /// Sends a line to one side.
    fn send(&mut self, to: Side, line: String);
    /// Reports information that the translation cannot carry.
    fn report_loss(&mut self, loss: Loss);
}

/// A [`Bridge`] together with its clock.
///
/// Every method that may produce lines or losses returns [`Outputs`], which are delivered to a [`Port`] in order.
///
/// ```
/// use switchboard_bridge::{BridgeOptions, Driver, Handled, Loss, Port, Side, Version};
///
/// #[derive(Default)]
/// struct Collected { lines: Vec<String>, losses: Vec<Loss> }
///
/// impl Port for Collected {
///     fn send(&mut self, _: Side, line: String) { self.lines.push(line) }
///     fn report_loss(&mut self, loss: Loss) { self.losses.push(loss) }
/// }
///
/// let mut driver = Driver::new(BridgeOptions::between(Version::V1, Version::V2));
/// let mut collected = Collected::default();
/// let line = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
///     {"sessionUpdate":"_weather","rain":true}}}"#;
/// assert_eq!(driver.receive(Side::Agent, line).deliver(&mut collected), Handled::Done);
/// assert_eq!(collected.losses[0].message, "_weather");
/// ```
#[derive(Debug)]
pub struct Driver {
    bridge: Bridge,
    /// Start of the clock. `None`: the caller sets the time with [`Driver::advance`].
    started: Option<Instant>,
    now: Moment,
}

/// The lines and losses of one step, in order.
#[derive(Debug)]
#[must_use = "undelivered lines and losses are dropped silently"]
pub struct Outputs {
    items: Vec<Output>,
    handled: Handled,
}

impl Driver {
    /// Creates a driver for peers that have not sent anything yet, with a host that offers no files or
    /// commands.
    pub fn new(options: BridgeOptions) -> Self {
        Driver::of(Bridge::new(options))
    }

    /// Creates a driver with a host that offers files or commands.
    pub fn with_host(options: BridgeOptions, host: Box<dyn Host + Send>) -> Self {
        Driver::of(Bridge::with_host(options, host))
    }

    /// Creates a driver whose clock only changes with [`Driver::advance`], as recordings need it.
    pub fn with_manual_clock(options: BridgeOptions) -> Self {
        Driver { started: None, ..Driver::new(options) }
    }

    fn of(bridge: Bridge) -> Self {
        Driver { bridge, started: Some(Instant::now()), now: Moment::default() }
    }

    /// Returns the bridge for inspection.
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// Returns the time since the driver was created, as of the last step.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Sets the time. An earlier time than the current one is ignored.
    pub fn advance(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    /// Reads the clock and returns the current time.
    fn refresh(&mut self) -> Moment {
        if let Some(started) = self.started {
            self.now = started.elapsed().into();
        }
        self.now
    }

    /// Handles one line from one side.
    pub fn receive(&mut self, from: Side, line: &str) -> Outputs {
        let now = self.refresh();
        // The clock is read before the line is handled, so that deadlines set by the line count from its
        // arrival.
        let handled = self.bridge.handle(from, line, now);
        self.outputs(handled)
    }

    /// Runs the work that is due now: deadlines, coalesced reports, held messages.
    pub fn tick(&mut self) -> Outputs {
        let now = self.refresh();
        self.bridge.tick(now);
        self.outputs(Handled::Done)
    }

    /// Returns the time of the next [`Driver::tick`]; `None` if no tick is needed before another line
    /// arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due = self.bridge.next_deadline()?;
        // Moments are whole milliseconds, rounded down. One more millisecond makes sure that the deadline has
        // passed.
        self.started.and_then(|started| started.checked_add(due.after(1).since(Moment::default())))
    }

    /// Announces that the client continues a session that it did not open through this bridge.
    pub fn reopen(&mut self, session: &str) -> Outputs {
        self.bridge.reopen(session);
        self.outputs(Handled::Done)
    }

    /// Releases all output that is held back, because no more input will arrive.
    pub fn finish(&mut self) -> Outputs {
        self.bridge.finish();
        self.outputs(Handled::Done)
    }

    /// Ends the agent's side: every pending request of the client fails. See [`Bridge::agent_ended`].
    pub fn agent_ended(&mut self, reason: &str, last_lines: &[String]) -> Outputs {
        self.bridge.agent_ended(reason, last_lines);
        self.outputs(Handled::Done)
    }

    /// Handles output of a command that the host runs.
    pub fn terminal_output(&mut self, terminal_id: &str, bytes: &[u8]) -> Outputs {
        let now = self.refresh();
        self.bridge.terminal_output(terminal_id, bytes, now);
        self.outputs(Handled::Done)
    }

    /// Handles a change of a client terminal in a recording.
    pub(crate) fn recorded_terminal(
        &mut self,
        session: &str,
        update: v2::TerminalUpdate<'static>,
    ) -> Outputs {
        let now = self.refresh();
        self.bridge.recorded_terminal(session, update, now);
        self.outputs(Handled::Done)
    }

    /// Handles the exit of a command that the host runs.
    pub fn terminal_exited(
        &mut self,
        terminal_id: &str,
        exit_code: Option<i64>,
        signal: Option<&str>,
    ) -> Outputs {
        let now = self.refresh();
        self.bridge.terminal_exited(terminal_id, exit_code, signal, now);
        self.outputs(Handled::Done)
    }

    fn outputs(&mut self, handled: Handled) -> Outputs {
        // Each step takes its own output, so that a caller cannot mix the outputs of two steps.
        Outputs { items: self.bridge.take_output(), handled }
    }
}

impl Outputs {
    /// Returns whether the caller must forward the received line itself after these outputs.
    pub fn handled(&self) -> Handled {
        self.handled
    }

    /// Returns the lines and losses for inspection.
    pub fn items(&self) -> &[Output] {
        &self.items
    }

    /// Passes everything to a port, in order. Returns whether the caller must forward the received line
    /// itself now.
    pub fn deliver(self, port: &mut impl Port) -> Handled {
        for item in self.items {
            match item {
                Output::Line { to, line } => port.send(to, line),
                Output::Loss(loss) => port.report_loss(loss),
            }
        }
        self.handled
    }
}
