//! Extraction of code blocks and links from documentation.

/// A code block of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeBlock<'p> {
    /// Line number of its fence.
    pub line: usize,
    /// Text after the fence: the language, and possibly more.
    pub info: &'p str,
    /// The lines inside.
    pub lines: Vec<&'p str>,
}

/// Returns the code blocks of a page, or the line number and problem. Only one kind of fence is accepted, so
/// that no block is overlooked. Blocks in a list are indented with their fence.
pub fn code_blocks(page: &str) -> Result<Vec<CodeBlock<'_>>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, CodeBlock<'_>)> = None;
    for (line, text) in (1..).zip(page.lines()) {
        let trimmed = text.trim_start();
        match &mut open {
            None => {
                if let Some(info) = trimmed.strip_prefix("```") {
                    let indentation = &text[..text.len() - trimmed.len()];
                    open = Some((indentation, CodeBlock { line, info: info.trim(), lines: Vec::new() }));
                } else if trimmed.starts_with("~~~") {
                    return Err(format!("{line}: a fence that is not ```"));
                }
            }
            Some((indentation, block)) => {
                let text = text.strip_prefix(*indentation).unwrap_or(trimmed);
                if text == "```" {
                    blocks.extend(open.take().map(|(_, block)| block));
                } else {
                    block.lines.push(text);
                }
            }
        }
    }
    match open {
        Some((_, block)) => Err(format!("{}: a block without an end", block.line)),
        None => Ok(blocks),
    }
}

/// Returns the links of a page within the repository, with the section: `hub.md#tokens`. Code blocks are
/// skipped.
pub fn links(page: &str) -> impl Iterator<Item = &str> {
    let prose = page.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target)
        .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::{code_blocks, links};

    #[test]
    fn blocks_have_their_words_and_lines() {
        let page = "one\n```json message\n{}\n\n```x\n```\n```\n```\n";
        let blocks = code_blocks(page).unwrap();
        let found: Vec<_> = blocks.iter().map(|block| (block.line, block.info, &block.lines[..])).collect();
        assert_eq!(found, [(2, "json message", &["{}", "", "```x"][..]), (7, "", &[])]);
    }

    #[test]
    fn a_block_in_a_list_is_taken_as_if_it_were_in_none() {
        let blocks = code_blocks("- a\n  ```sh\n  one\n    two\n\n  ```\n").unwrap();
        assert_eq!(blocks[0].lines, ["one", "  two", ""]);
    }

    #[test]
    fn ambiguous_code_blocks_are_refused() {
        for (page, line) in [("a\n  ~~~\n", "2: "), ("~~~\n", "1: "), ("\n```\na\n", "2: ")] {
            let fault = code_blocks(page).unwrap_err();
            assert!(fault.starts_with(line), "{page:?}: {fault}");
        }
    }

    #[test]
    fn links_are_those_of_the_prose_to_places_in_the_repository() {
        let page = "[a](a.md), [b](b.md#c) [d](https://d)\n```\n[e](e.md)\n```\n[f](#f) ![g](g.png)";
        assert_eq!(links(page).collect::<Vec<_>>(), ["a.md", "b.md#c", "#f", "g.png"]);
    }
}
