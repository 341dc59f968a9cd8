//! What was said and the agent has not taken yet: until then it can be taken back.

use std::sync::Mutex;

use serde::Serialize;
use switchboard_acp::extensions::OPERATION_ID;
use switchboard_acp::v2;
use switchboard_hub::QueuedPrompt;
use tokio::sync::oneshot;

use super::{Failure, Live, locked};
use crate::request::File;

const TAKEN: &str = "the agent has it already";

/// What somebody said.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) files: Vec<File>,
    /// Files of the folder that it names.
    pub(crate) mentions: Vec<String>,
}

/// What is on its way to the agent.
pub(super) struct Outgoing {
    /// No other connection calls its prompts so.
    name: String,
    prompts: Mutex<Prompts>,
}

#[derive(Default)]
struct Prompts {
    last: u64,
    open: Vec<Prompt>,
}

struct Prompt {
    number: u64,
    /// Whoever wants it back gets it here, if the agent does not have it.
    wanted_back: oneshot::Sender<oneshot::Sender<Said>>,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        let mut random = [0; 16];
        // Without it, only the names of others could be mistaken for those of here.
        let _ = getrandom::fill(&mut random);
        Outgoing { name: format!("page-{:032x}", u128::from_le_bytes(random)), prompts: Mutex::default() }
    }

    fn begin(&self) -> (u64, oneshot::Receiver<oneshot::Sender<Said>>) {
        let (wanted_back, receiver) = oneshot::channel();
        let mut prompts = locked(&self.prompts);
        prompts.last += 1;
        let number = prompts.last;
        prompts.open.push(Prompt { number, wanted_back });
        (number, receiver)
    }

    fn take(&self, number: u64) -> Option<Prompt> {
        let open = &mut locked(&self.prompts).open;
        let place = open.iter().position(|prompt| prompt.number == number)?;
        Some(open.remove(place))
    }

    fn operation(&self, number: u64) -> String {
        format!("{}-{number}", self.name)
    }

    /// The number of a prompt that was said here and is not asked back.
    fn number(&self, operation: &str) -> Option<u64> {
        let number = operation.strip_prefix(&self.name)?.strip_prefix('-')?.parse().ok()?;
        locked(&self.prompts).open.iter().any(|prompt| prompt.number == number).then_some(number)
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
        let (number, wanted_back) = self.outgoing.begin();
        let mut request = v2::PromptRequest::new(self.wire(session), content);
        request.meta = Some(OPERATION_ID.meta(self.outgoing.operation(number)));
        let mut asker = None;
        let wanted = async {
            match wanted_back.await {
                Ok(wants) => asker = Some(wants),
                // Nobody can want it back any more.
                Err(_) => std::future::pending().await,
            }
        };
        let reply = self.agent.prompt_unless(&request, wanted).await;
        self.outgoing.take(number);
        match (reply.map_err(|error| error.to_string())?, asker) {
            (Ok(_), _) => Ok(true),
            (Err(_), Some(asker)) => {
                // Where nobody hears it any more, nothing is to be done.
                let _ = asker.send(said);
                Ok(false)
            }
            (Err(error), None) => Err(self.refused(&error)),
        }
    }

    /// Takes back what was said, unless the agent has it: the hub decides which it is.
    pub(crate) async fn take_back(&self, number: u64) -> Result<Said, Failure> {
        let prompt = self.outgoing.take(number).ok_or(TAKEN)?;
        let (asker, said) = oneshot::channel();
        // Its sender may be about to hear that the agent has it.
        prompt.wanted_back.send(asker).map_err(|_| TAKEN)?;
        said.await.map_err(|_| TAKEN.to_owned())
    }

    /// The number of what was said here and waits for its turn. What others said has none.
    pub(crate) fn number_of(&self, waiting: &QueuedPrompt) -> Option<u64> {
        self.outgoing.number(waiting.operation.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_here_and_is_not_asked_back_has_a_number() {
        let (here, there) = (Outgoing::new(), Outgoing::new());
        let ((first, _a), (second, _b)) = (here.begin(), here.begin());
        assert_eq!(here.number(&here.operation(first)), Some(first));
        assert_eq!(here.number(&here.operation(second)), Some(second));
        // Two connections count alike, and say the same.
        let (other, _c) = there.begin();
        assert_eq!(other, first);
        assert_eq!(here.number(&there.operation(other)), None);
        assert_eq!(here.number(&here.name), None);
        assert_eq!(here.number(&format!("{}-", here.name)), None);
        assert_eq!(here.number(""), None);
        assert!(here.take(first).is_some());
        assert_eq!(here.number(&here.operation(first)), None, "it is asked back");
        assert!(here.take(first).is_none());
    }
}
