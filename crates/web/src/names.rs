//! Words that come up again and again, as small numbers.

use std::collections::HashMap;

/// Numbers for words. Number 0 is no word.
pub(crate) struct Names {
    words: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u16>,
}

/// What all further words are once there are too many.
const OTHERS: &str = "(others)";

impl Names {
    pub(crate) fn new() -> Self {
        Names { words: vec!["".into()], numbers: HashMap::new() }
    }

    /// The number of a word, which gets one if it has none.
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

    /// The word of a number.
    pub(crate) fn word(&self, number: u16) -> &str {
        self.words.get(number as usize).map_or("", |word| word)
    }

    /// The number of a word that has come up.
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
