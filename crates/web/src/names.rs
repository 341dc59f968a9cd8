//! Interned strings for frequent words.

use std::collections::HashMap;

/// A string interner. Number 0 is the empty word.
pub(crate) struct Names {
    words: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u16>,
}

/// Replacement for all further words once the numbers are used up.
const OTHERS: &str = "(others)";

impl Names {
    pub(crate) fn new() -> Self {
        Names { words: vec!["".into()], numbers: HashMap::new() }
    }

    /// Returns the number of a word, and assigns one if it is new.
    pub(crate) fn number(&mut self, word: &str) -> u16 {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        let word = match u16::try_from(self.words.len()) {
            Ok(u16::MAX) | Err(_) => return u16::MAX - 1,
            Ok(number) if number == u16::MAX - 1 => OTHERS,
            Ok(_) => word,
        };
        let number = self.words.len() as u16;
        self.words.push(word.into());
        self.numbers.insert(word.into(), number);
        number
    }

    /// Returns the word of a number.
    pub(crate) fn word(&self, number: u16) -> &str {
        self.words.get(number as usize).map_or("", |word| word)
    }

    /// Returns the number of a word, or `None` if it is unknown.
    pub(crate) fn find(&self, word: &str) -> Option<u16> {
        self.numbers.get(word).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_words_than_numbers_share_the_last_one() {
        let mut names = Names::new();
        assert_eq!((names.number("a"), names.number("b"), names.number("a")), (1, 2, 1));
        for number in 0..70_000 {
            names.number(&number.to_string());
        }
        let late = names.number("late");
        assert_eq!(names.word(late), OTHERS);
        assert_eq!(names.word(names.find("a").unwrap()), "a");
    }
}
