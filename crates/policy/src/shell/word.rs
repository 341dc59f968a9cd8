//! The words of a command line.

/// A word after unquoting.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Word {
    /// Its text. Parts that a shell would expand are as written.
    pub(crate) text: String,
    /// Set if a shell would expand it: variables, command substitutions, file names.
    pub(crate) is_open: bool,
    /// Set if it expands to file names only: it has wildcards and nothing else to expand.
    pub(crate) is_glob: bool,
    /// Set if a shell splits the expansion at blanks.
    pub(crate) splits: bool,
    /// Set if it has a brace that expands to several words.
    pub(crate) has_brace: bool,
    /// Set if an escape in it could not be decoded.
    pub(crate) is_undecoded: bool,
    /// Set if it begins with a tilde that the shell expands.
    pub(crate) has_tilde: bool,
    /// Set if a part was quoted, so that it is not a reserved word.
    pub(crate) is_quoted: bool,
    /// Start of the value in a word that sets a variable.
    pub(crate) value_at: Option<usize>,
}

impl Word {
    /// Creates a literal word.
    pub(crate) fn literal(text: impl Into<String>) -> Word {
        Word { text: text.into(), is_quoted: true, ..Word::default() }
    }

    /// Returns whether the command gets exactly this text.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_open && !self.has_brace && !self.is_undecoded
    }

    /// Returns whether it is a reserved word.
    pub(super) fn is_reserved(&self, word: &str) -> bool {
        !self.is_quoted && self.is_plain() && self.text == word
    }

    /// Returns the name of the variable that it sets.
    pub(crate) fn variable(&self) -> Option<&str> {
        let name = self.text.get(..self.value_at?)?.trim_end_matches(['=', '+']);
        Some(name.split('[').next().unwrap_or(name))
    }

    /// Returns whether it is an option rather than an argument.
    pub(crate) fn is_option(&self) -> bool {
        self.text.starts_with('-') && self.text.len() > 1
    }
}

/// Returns the start of the value in an assignment: `NAME=`, `NAME+=`, `NAME[...]=`.
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
