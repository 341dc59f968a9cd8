//! An agent that clients reach by WebSocket (and by streamable HTTP). It prints its address; whoever is on this machine may
//! come.
//!
//! ```sh
//! example-websocket &
//! example-client FOLDER "hello" ws://127.0.0.1:PORT/acp
//! ```

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;

use switchboard_peer::transport::server::{
    self, HttpHead, ListenerLimits, Refusal, ServerConnection, ServerLimits, Service, StatusCode,
};
use switchboard_peer::{Agent, Error, Introduction, Turn, agent_connection_options, serve, v2};

struct Echo;

impl Agent for Echo {
    fn introduce(&self) -> Introduction {
        Introduction::new("example-echo", env!("CARGO_PKG_VERSION"))
    }

    async fn prompt(&self, turn: &Turn) -> Result<v2::StopReason, Error> {
        turn.say(&turn.text()).await?;
        Ok(v2::StopReason::EndTurn)
    }
}

/// One agent for each client, and all clients are the same person.
struct Door;

impl Service for Door {
    type Identity = ();

    /// A server for others would look for a token here. A page in a browser says where it is from, and is not let in.
    fn identify(&self, head: &HttpHead, from: SocketAddr) -> Result<(), Refusal> {
        if from.ip().is_loopback() && !head.headers.contains_key("origin") {
            Ok(())
        } else {
            Err(Refusal::new(StatusCode::FORBIDDEN, "only programs of this machine may come in"))
        }
    }

    fn has_agent(&self, agent: Option<&str>) -> bool {
        agent.is_none()
    }

    fn open(&self, (): (), _agent: Option<String>, client: ServerConnection) {
        let connection = client.into_connection(agent_connection_options());
        tokio::spawn(async move {
            if let Err(error) = serve(Echo, connection).await {
                eprintln!("{error}: {:?}", error.source());
            }
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("ws://{}/acp", listener.local_addr()?);
    let (router, _connections) = server::router(Arc::new(Door), ServerLimits::default());
    match server::serve(&listener, &router, None, ListenerLimits::default()).await {}
}
