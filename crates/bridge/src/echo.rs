//! Detection of a prompt that the agent sends back, which the client does not need again.

use switchboard_acp::v2::ContentBlock;

/// The text of a prompt and the length of its echo so far.
#[derive(Debug)]
pub(crate) struct Echo {
    prompt: String,
    said: usize,
}

impl Echo {
    pub(crate) fn of(prompt: &[ContentBlock<'_>]) -> Self {
        Echo { prompt: prompt.iter().filter_map(|block| block.as_text()).collect(), said: 0 }
    }

    /// Returns whether blocks repeat the prompt, as a whole or from the end of the last repeated part.
    /// Advances that position if they do.
    pub(crate) fn continues(&mut self, blocks: &[ContentBlock<'_>], whole: bool) -> bool {
        let mut rest = if whole { Some(&*self.prompt) } else { self.prompt.get(self.said..) };
        for text in blocks.iter().filter_map(|block| block.as_text()) {
            rest = rest.and_then(|rest| rest.strip_prefix(text));
        }
        let Some(rest) = rest else { return false };
        self.said = self.prompt.len() - rest.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentBlock, Echo};

    #[test]
    fn only_what_goes_on_as_the_prompt_does_is_its_echo() {
        let text = |text: &'static str| [ContentBlock::text(text)];
        let mut echo = Echo::of(&[ContentBlock::text("one "), ContentBlock::text("two")]);
        assert!(echo.continues(&text("on"), false));
        assert!(!echo.continues(&text("on"), false), "said already");
        assert!(echo.continues(&text("e tw"), false));
        assert!(echo.continues(&text("one"), true));
        assert!(echo.continues(&text(" two"), false));
        assert!(!echo.continues(&text("!"), false));
        assert!(!echo.continues(&text("two"), true));
    }
}
