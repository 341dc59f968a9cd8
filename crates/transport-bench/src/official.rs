//! The receiver of the official SDK, used as in its own examples.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v2::{ConnectionTo, schema};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client};
use tokio::sync::Notify;

use crate::{Measured, NAP, agent_arguments, ourselves};

/// Receives `count` updates, or makes `count` calls.
pub(crate) fn measure(job: &str, count: u64, one_thread: bool) -> Measured {
    let mut builder = match one_thread {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().expect("a runtime can be made");
    runtime.block_on(receive(job, count)).expect("the connection holds")
}

async fn receive(job: &str, count: u64) -> Result<Measured, agent_client_protocol::Error> {
    let agent = AcpAgent::new(AcpAgentConfig::new(ourselves()).args(agent_arguments(job, count)));
    let seen = Arc::new(AtomicU64::new(0));
    let all_seen = Arc::new(Notify::new());
    let (counter, done) = (Arc::clone(&seen), Arc::clone(&all_seen));
    let naps = job == "nap";
    let echo = job == "echo";
    Client
        .v2()
        .name("receiver")
        .on_receive_notification(
            async move |notification: schema::UpdateSessionNotification, _: ConnectionTo<Agent>| {
                std::hint::black_box(notification);
                let before = counter.fetch_add(1, Ordering::Relaxed);
                if before == 0 && naps {
                    tokio::time::sleep(NAP).await;
                }
                if before + 1 == count {
                    done.notify_one();
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(agent, async move |connection| {
            let receiver = schema::Implementation::new("receiver", "1");
            connection
                .send_request(schema::InitializeRequest::new(ProtocolVersion::V2, receiver))
                .block_task()
                .await?;
            let begun = Instant::now();
            if echo {
                for _ in 0..count {
                    connection.send_request(schema::ListSessionsRequest::new()).block_task().await?;
                }
            } else {
                all_seen.notified().await;
            }
            Ok(Measured {
                count: if echo { count } else { seen.load(Ordering::Relaxed) },
                time: begun.elapsed(),
            })
        })
        .await
}
