//! A bridge inside a program of one's own: it stands where a client expects an agent, starts the agent, and translates where
//! their versions differ.
//!
//! ```sh
//! example-client FOLDER "notes.txt: buy milk" example-bridge example-agent --version-1
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use switchboard_bridge::{Bridge, BridgeOptions, Moment, Output, Side};
use switchboard_transport::{
    ClosureCause, DEFAULT_MESSAGE_LIMIT, Frame, LineReader, Outbox, OutboxOptions, Program, Spawned,
};

/// The bridge, and where its lines go.
struct Lines {
    bridge: Bridge,
    begun: Instant,
    to_client: Outbox,
    to_agent: Outbox,
}

impl Lines {
    fn now(&self) -> Moment {
        self.begun.elapsed().into()
    }

    /// How long until the bridge has something to do by itself.
    fn pause(&self) -> Duration {
        self.bridge.next_deadline().map_or(Duration::MAX, |due| due.since(self.now()))
    }

    async fn take(&mut self, from: Side, line: &str) -> Result<(), ClosureCause> {
        let now = self.now();
        let output = self.bridge.pass(from, line, now).collect();
        self.send(output).await
    }

    async fn tick(&mut self) -> Result<(), ClosureCause> {
        let now = self.now();
        self.bridge.tick(now);
        let output = self.bridge.drain().collect();
        self.send(output).await
    }

    /// The agent is gone: the client is told in every session and in answer to all that it waits for.
    async fn agent_ended(&mut self) -> Result<(), ClosureCause> {
        self.bridge.agent_ended("closed its output", &[]);
        let output = self.bridge.drain().collect();
        self.send(output).await
    }

    async fn send(&self, output: Vec<Output>) -> Result<(), ClosureCause> {
        for output in output {
            match output {
                Output::Line { to: Side::Client, line } => self.to_client.send(&line).await?,
                Output::Line { to: Side::Agent, line } => self.to_agent.send(&line).await?,
                Output::Loss(loss) => {
                    eprintln!("lost: {} of {}: {}", loss.element, loss.message, loss.reason)
                }
            }
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let program = Program::new(words.next().ok_or("usage: example-bridge AGENT [ARGUMENT...]")?).args(words);
    let Spawned { child, input, output } = program.spawn()?;
    let mut from_agent = LineReader::new(output, DEFAULT_MESSAGE_LIMIT);
    let mut from_client = LineReader::new(tokio::io::stdin(), DEFAULT_MESSAGE_LIMIT);
    let mut lines = Lines {
        bridge: Bridge::new(BridgeOptions::default()),
        begun: Instant::now(),
        to_client: Outbox::new(tokio::io::stdout(), OutboxOptions::default()),
        to_agent: Outbox::to_child(input, OutboxOptions::default()),
    };
    loop {
        let pause = lines.pause();
        tokio::select! {
            frame = from_client.next() => match frame? {
                Some(Frame::Message(line)) => lines.take(Side::Client, &line).await?,
                Some(_) => eprintln!("the client wrote something that is no message"),
                None => break,
            },
            frame = from_agent.next() => match frame? {
                Some(Frame::Message(line)) => lines.take(Side::Agent, &line).await?,
                Some(_) => eprintln!("the agent wrote something that is no message"),
                None => {
                    lines.agent_ended().await?;
                    break;
                }
            },
            () = tokio::time::sleep(pause) => lines.tick().await?,
        }
    }
    lines.to_client.flush().await?;
    child.shut_down().await;
    for (message, element, count) in lines.bridge.losses().counts() {
        eprintln!("lost {count} times: {element} of {message}");
    }
    Ok(())
}
