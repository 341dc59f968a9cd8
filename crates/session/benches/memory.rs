//! Memory usage of a session. Separate from the timing, because counting slows allocation down.

use peak_alloc::PeakAlloc;
use switchboard_acp::rpc::Expected;
use switchboard_acp::{WireFormat, v2};
use switchboard_session::Session;
use switchboard_testkit::{TagPlace, stream};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

fn measured<T>(title: &str, text_bytes: usize, make: impl FnOnce() -> T) {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let value = make();
    let taken = ALLOCATOR.current_usage() - before;
    let peak = ALLOCATOR.peak_usage() - before;
    let beyond = |bytes: usize| (bytes as f64 - text_bytes as f64) / text_bytes as f64;
    println!("\n{title}: {text_bytes} bytes");
    println!("  {taken:>11} bytes taken, {:.2} times as much beyond it", beyond(taken));
    println!("  {peak:>11} bytes at the peak, {:.2} times as much beyond it", beyond(peak));
    drop(value);
}

fn main() {
    measured("Text of one message of 1,000,000 chunks (to be under 3 times)", 8_000_000, || {
        let chunk = v2::ContentChunk::new("m", v2::ContentBlock::text("8 bytes."));
        let update = v2::SessionUpdate::AgentMessageChunk(chunk);
        let mut session = Session::new(WireFormat::Any);
        for _ in 0..1_000_000 {
            session.apply(&update);
        }
        session
    });
    let lines = stream(200_000, TagPlace::First);
    let bytes = lines.iter().map(String::len).sum();
    measured("200,000 generated updates on the wire", bytes, || {
        let mut session = Session::new(WireFormat::Any);
        for line in &lines {
            if let Ok(Expected::Params(notification)) =
                Expected::<v2::UpdateSessionNotification<'_>>::decode(line, WireFormat::Any)
            {
                session.apply(&notification.update);
            }
        }
        session
    });
}
