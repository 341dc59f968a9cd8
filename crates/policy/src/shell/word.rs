//! The words of a command line.

/// A word after unquoting.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Word {
    /// What it says. Where a shell would put in something else, it is as it was written.
    pub(crate) text: String,
    /// Whether a shell would put something in its place: the value of a variable, what a command prints, file names.
    pub(crate) is_open: bool,
    /// Whether what a shell puts in are the names of files alone: it has wildcards, and nothing else is open in it.
    pub(crate) is_glob: bool,
    /// Whether a shell splits at blanks what it puts in.
    pub(crate) splits: bool,
    /// Whether it is a brace that makes several words.
    pub(crate) has_brace: bool,
    /// Whether an escape in it could not be read.
    pub(crate) is_undecoded: bool,
    /// Whether it begins with a tilde that the shell replaces.
    pub(crate) has_tilde: bool,
    /// Whether some of it was quoted, so that it is no reserved word.
    pub(crate) is_quoted: bool,
    /// Where the value begins of a word that sets a variable.
    pub(crate) value_at: Option<usize>,
}

impl Word {
    /// A word that is exactly this.
    pub(crate) fn literal(text: impl Into<String>) -> Word {
        Word { text: text.into(), is_quoted: true, ..Word::default() }
    }

    /// Whether the text is what the command gets.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_open && !self.has_brace && !self.is_undecoded
    }

    /// Whether it is a word of the language itself.
    pub(super) fn is_reserved(&self, word: &str) -> bool {
        !self.is_quoted && self.is_plain() && self.text == word
    }

    /// The name of the variable that it sets.
    pub(crate) fn variable(&self) -> Option<&str> {
        let name = self.text.get(..self.value_at?)?.trim_end_matches(['=', '+']);
        Some(name.split('[').next().unwrap_or(name))
    }

    /// Whether it is an option rather than an argument.
    pub(crate) fn is_option(&self) -> bool {
        self.text.starts_with('-') && self.text.len() > 1
    }
}

/// Where the value begins in what looks like an assignment: `NAME=`, `NAME+=`, `NAME[...]=`.
pub(crate) fn assignment(text: &str) -> Option<usize> {
    let at = text.find('=')?;
    let name = text[..at].strip_suffix('+').unwrap_or(&text[..at]);
    let (name, subscript) = name.split_once('[').map_or((name, None), |(name, rest)| (name, Some(rest)));
    let mut letters = name.chars();
    let is_name = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let closed = subscript.is_none_or(|rest| rest.ends_with(']'));
    (is_name && closed).then_some(at + 1)
}
