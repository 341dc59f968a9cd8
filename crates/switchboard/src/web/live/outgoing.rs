//! What was said and the agent has not taken yet: until then it can be taken back.

use std::sync::Mutex;

use serde::Serialize;
use switchboard_protocol::v2;
use tokio::sync::oneshot;

use super::{Failure, Live, locked};
use crate::web::request::File;

/// What somebody said.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) files: Vec<File>,
    /// Files of the folder that it names.
    pub(crate) mentions: Vec<String>,
}

/// What is on its way to the agent.
#[derive(Default)]
pub(super) struct Outgoing {
    prompts: Mutex<(u64, Vec<Prompt>)>,
}

struct Prompt {
    number: u64,
    said: Said,
    taken_back: oneshot::Sender<()>,
}

impl Outgoing {
    fn begin(&self, said: Said) -> (u64, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let mut prompts = locked(&self.prompts);
        prompts.0 += 1;
        let number = prompts.0;
        prompts.1.push(Prompt { number, said, taken_back: sender });
        (number, receiver)
    }

    fn take(&self, number: u64) -> Option<Prompt> {
        let prompts = &mut locked(&self.prompts).1;
        let place = prompts.iter().position(|prompt| prompt.number == number)?;
        Some(prompts.remove(place))
    }
}

impl Live {
    /// Sends a prompt. It is done when the agent has taken it, or when it was taken back before: then it is not `true`.
    pub(crate) async fn prompt_unless_taken_back(
        &self,
        session: &str,
        content: Vec<v2::ContentBlock<'_>>,
        said: Said,
    ) -> Result<bool, Failure> {
        let (number, taken_back) = self.outgoing.begin(said);
        let outcome = tokio::select! {
            outcome = self.prompt(session, content) => outcome.map(|()| true),
            // A request that nobody waits for any more is taken back.
            _ = taken_back => Ok(false),
        };
        self.outgoing.take(number);
        outcome
    }

    /// Takes back what was said, unless the agent has it.
    pub(crate) fn take_back(&self, number: u64) -> Option<Said> {
        let prompt = self.outgoing.take(number)?;
        // Its sender may be about to hear that the agent has it.
        prompt.taken_back.send(()).ok()?;
        Some(prompt.said)
    }

    /// The numbers of what was said here, for beginnings of what waits for its turn, in the same order. What others said
    /// has none.
    pub(crate) fn numbers_of(&self, waiting: &[String]) -> Vec<Option<u64>> {
        let prompts = locked(&self.outgoing.prompts);
        let mut left: Vec<&Prompt> = prompts.1.iter().collect();
        let number = |beginning: &String| {
            let place = left.iter().position(|prompt| prompt.said.text.starts_with(&**beginning))?;
            Some(left.remove(place).number)
        };
        waiting.iter().map(number).collect()
    }
}
