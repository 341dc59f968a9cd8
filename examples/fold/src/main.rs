//! Folds a recording, as `switchboard run --record` writes it, and compares the session in the middle with the session at
//! the end.
//!
//! ```sh
//! example-fold recording.jsonl
//! ```

use std::error::Error;

use switchboard_acp::{Recorded, RecordedLine, WireFormat};
use switchboard_session::{Conversation, Moment, Snapshot};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: example-fold RECORDING")?;
    let text = std::fs::read_to_string(path)?;
    let lines: Vec<&str> = text.lines().collect();

    let mut conversation = Conversation::new(WireFormat::Any);
    fold(&mut conversation, &lines[..lines.len() / 2])?;
    let middle = snapshot(&conversation);
    fold(&mut conversation, &lines[lines.len() / 2..])?;
    let Some(end) = snapshot(&conversation) else { return Err("nothing happened in a session".into()) };

    println!("at the end: {} entries, {:?}", end.len(), end.activity());
    match middle {
        None => println!("in the middle: no session yet"),
        Some(middle) => {
            println!("in the middle: {} entries, {:?}", middle.len(), middle.activity());
            for (position, entry) in end.changed_since(&middle) {
                let word = if middle.find(entry.kind(), entry.id()).is_some() { "changed" } else { "new" };
                println!("{word}: {position} {:?} {}", entry.kind(), entry.id());
            }
        }
    }
    Ok(())
}

/// Reads lines of a recording; what they mean is the conversation's business.
fn fold(conversation: &mut Conversation, lines: &[&str]) -> Result<(), Box<dyn Error>> {
    for line in lines {
        let recorded = RecordedLine::parse(line)?;
        // Of a translation the recording has both sides, which say the same.
        if let Recorded::Message { from, text, other_side: false, .. } = &recorded.recorded {
            conversation.read(text, *from, Moment(0))?;
        }
    }
    Ok(())
}

/// The first session, as it is now. It costs next to nothing, and never changes.
fn snapshot(conversation: &Conversation) -> Option<Snapshot> {
    conversation.sessions().next().map(|(_, session)| session.snapshot())
}
