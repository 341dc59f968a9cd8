//! Our receiver.

use std::time::Instant;

use switchboard_acp::rpc::Expected;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_transport::{Connection, ConnectionOptions, Json, Program, Received, SharedText};

use crate::{Measured, NAP, agent_arguments, ourselves};

/// Decodes an update with its envelope in one pass, like a client handle.
fn take(line: &SharedText) -> Option<()> {
    match Expected::<v2::UpdateSessionNotification<'_>>::decode_tolerant(line, WireFormat::Any) {
        Ok((Expected::Params(update), diagnostics)) => {
            std::hint::black_box((update, diagnostics));
            Some(())
        }
        Ok((Expected::Other(_), _)) | Err(_) => None,
    }
}

/// Receives `count` updates, or makes `count` calls.
pub(crate) fn measure(job: &str, count: u64) -> Measured {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let program = Program::new(ourselves()).args(agent_arguments(job, count));
        let (child, connection) = program.connect(ConnectionOptions::default()).expect("the agent starts");
        let Connection { caller, mut inbox } = connection;
        let initialize = v2::InitializeRequest::new(2_u16, v2::Implementation::new("receiver", "1"));
        let call = caller.call("initialize", Json::of(&initialize, WireFormat::Newest));
        inbox.until(call, drop).await.expect("the agent answers");
        let begun = Instant::now();
        let mut measured = 0;
        if job == "echo" {
            for _ in 0..count {
                let call = caller.call("session/list", Json::default());
                let answer = inbox.until(call, drop).await.expect("the agent answers");
                let result = answer.into_result().expect("a result");
                v2::ListSessionsResponse::decode(&result, WireFormat::Newest).expect("a list");
                measured += 1;
            }
        } else {
            while measured < count {
                match inbox.next_or(take).await {
                    Some(Received::Taken(())) => {}
                    other => panic!("no update: {other:?}"),
                }
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
