//! Prompts that the agent has not accepted yet. Until then they can be cancelled.

use std::sync::Mutex;

use serde::Serialize;
use switchboard_acp::extensions::OPERATION_ID;
use switchboard_acp::v2;
use switchboard_hub::QueuedPrompt;
use tokio::sync::oneshot;

use super::{Failure, Live, locked};
use crate::request::File;

const TAKEN: &str = "the agent has it already";

/// A prompt of the user, as written on the page.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) files: Vec<File>,
    /// Files of the session's folder that the prompt mentions.
    pub(crate) mentions: Vec<String>,
}

/// Prompts on their way to the agent.
pub(super) struct Outgoing {
    /// Prefix of this connection's operation names, unique among connections.
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
    /// Cancels the prompt. If the agent has not accepted it, the sender inside receives its content.
    wanted_back: oneshot::Sender<oneshot::Sender<Said>>,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        let mut random = [0; 16];
        // Without random numbers the prefix may equal that of another connection, whose queued prompts then look like
        // ours.
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

    /// Returns the number of a prompt of this connection that is pending and not being cancelled.
    fn number(&self, operation: &str) -> Option<u64> {
        let number = operation.strip_prefix(&self.name)?.strip_prefix('-')?.parse().ok()?;
        locked(&self.prompts).open.iter().any(|prompt| prompt.number == number).then_some(number)
    }
}

impl Live {
    /// Sends a prompt. Returns `true` when the agent has accepted it, or `false` if it was cancelled before.
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
                // The prompt can no longer be cancelled.
                Err(_) => std::future::pending().await,
            }
        };
        let reply = self.agent.prompt_unless(&request, wanted).await;
        self.outgoing.take(number);
        match (reply.map_err(|error| error.to_string())?, asker) {
            (Ok(_), _) => Ok(true),
            (Err(_), Some(asker)) => {
                // The cancelling request may be gone, which is fine.
                let _ = asker.send(said);
                Ok(false)
            }
            (Err(error), None) => Err(self.refused(&error)),
        }
    }

    /// Cancels a prompt and returns its content. Fails if the agent has accepted it; the hub decides.
    pub(crate) async fn take_back(&self, number: u64) -> Result<Said, Failure> {
        let prompt = self.outgoing.take(number).ok_or(TAKEN)?;
        let (asker, said) = oneshot::channel();
        // The prompt may just have been accepted.
        prompt.wanted_back.send(asker).map_err(|_| TAKEN)?;
        said.await.map_err(|_| TAKEN.to_owned())
    }

    /// Returns the number of a queued prompt of this connection. Prompts of other connections have none.
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
        // Numbers repeat between connections; the prefix distinguishes them.
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
