//! Our receiver.

use std::time::Instant;

use switchboard_protocol::{Revision, Wire, v2};
use switchboard_transport::{Connection, ConnectionOptions, Event, Json, Program};

use crate::{Measured, NAP, agent_arguments, ourselves};

/// Takes in `count` updates, or makes `count` calls.
pub(crate) fn measure(job: &str, count: u64) -> Measured {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let program = Program::new(ourselves()).args(agent_arguments(job, count));
        let (child, connection) = program.connect(ConnectionOptions::default()).expect("the agent starts");
        let Connection { caller, mut inbox } = connection;
        let initialize = v2::InitializeRequest::new(2_u16, v2::Implementation::new("receiver", "1"));
        let call = caller.call("initialize", Json::of(&initialize, Revision::Newest));
        inbox.until(call, drop).await.expect("the agent answers");
        let begun = Instant::now();
        let mut measured = 0;
        if job == "echo" {
            for _ in 0..count {
                let call = caller.call("session/list", Json::default());
                let answer = inbox.until(call, drop).await.expect("the agent answers");
                let result = answer.into_result().expect("a result");
                v2::ListSessionsResponse::decode(&result, Revision::Newest).expect("a list");
                measured += 1;
            }
        } else {
            while measured < count {
                let Some(Event::Notification(notification)) = inbox.next().await else { panic!("no update") };
                let update =
                    v2::UpdateSessionNotification::decode_tolerant(notification.params(), Revision::Any);
                std::hint::black_box(update.expect("an update"));
                if measured == 0 && job == "nap" {
                    tokio::time::sleep(NAP).await;
                }
                measured += 1;
            }
        }
        let time = begun.elapsed();
        child.shut_down().await;
        Measured { count: measured, time }
    })
}
