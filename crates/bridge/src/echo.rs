//! A prompt that the agent says again, which the client does not have to be told.

use switchboard_acp::v2::ContentBlock;

/// The text of a prompt, and how much of it has been said again.
#[derive(Debug)]
pub(crate) struct Echo {
    prompt: String,
    said: usize,
}

impl Echo {
    pub(crate) fn of(prompt: &[ContentBlock<'_>]) -> Self {
        Echo { prompt: prompt.iter().filter_map(|block| block.as_text()).collect(), said: 0 }
    }

    /// Whether blocks say the prompt again: as a whole, or from where the last ones ended, which they then do too.
    pub(crate) fn goes_on(&mut self, blocks: &[ContentBlock<'_>], whole: bool) -> bool {
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
        assert!(echo.goes_on(&text("on"), false));
        assert!(!echo.goes_on(&text("on"), false), "said already");
        assert!(echo.goes_on(&text("e tw"), false));
        assert!(echo.goes_on(&text("one"), true));
        assert!(echo.goes_on(&text(" two"), false));
        assert!(!echo.goes_on(&text("!"), false));
        assert!(!echo.goes_on(&text("two"), true));
    }
}
