//! A client built with the official SDK: `official-client 1|2 PROMPT PROGRAM ARGUMENT...`.

use agent_client_protocol::{AcpAgent, AcpAgentConfig, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_default();
    let (version, prompt, program) = (next(), next(), next());
    let agent = AcpAgent::new(AcpAgentConfig::new(program).args(arguments));
    switchboard_interop::run_client(agent, &version, prompt).await
}
