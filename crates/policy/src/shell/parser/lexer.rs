//! Words and operators, including expansions inside words.

use super::{Fault, Parsed, Parser};
use crate::shell::word::assignment;
use crate::shell::{Doubt, Script, Word};

/// Longest operators first.
const OPERATORS: [&str; 23] = [
    "&>>", "<<<", "<<-", ";;&", "&&", "||", ";;", ";&", "|&", "<<", ">>", "<&", ">&", "<>", ">|", "&>", "&",
    ";", "|", "(", ")", "<", ">",
];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Word(Word),
    Operator(&'static str),
    Newline,
    End,
}

/// A position in the text.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// File descriptor number before the last redirection.
    pub(super) number: String,
    /// Here-documents whose text begins on the next line.
    documents: Vec<(Word, bool)>,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Lexer { text, at: 0, number: String::new(), documents: Vec::new() }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn letter(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let letter = self.letter()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    fn takes(&mut self, text: &str) -> bool {
        let is_there = self.rest().starts_with(text);
        if is_there {
            self.at += text.len();
        }
        is_there
    }

    /// Returns whether this character follows directly.
    pub(super) fn is_next(&self, letter: char) -> bool {
        self.letter() == Some(letter)
    }

    pub(super) fn await_document(&mut self, delimiter: Word, strips_tabs: bool) {
        self.documents.push((delimiter, strips_tabs));
    }

    /// Skips blanks, continued lines and a comment. Returns whether a line is continued directly after a word
    /// or operator, which some shells join with the next word.
    fn skip_blanks(&mut self) -> bool {
        let mut is_joined = false;
        loop {
            let before = self.text.get(..self.at).and_then(|before| before.chars().next_back());
            if self.takes("\\\n") {
                is_joined |= before.is_some_and(|before| !matches!(before, ' ' | '\t' | '\n'));
            } else if !self.takes(" ") && !self.takes("\t") {
                break;
            }
        }
        if self.is_next('#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
        is_joined
    }
}

/// Returns the next token.
pub(super) fn token(parser: &mut Parser<'_, '_>) -> Parsed<Token> {
    parser.lexer.number.clear();
    loop {
        if parser.lexer.skip_blanks() {
            parser.script.doubt(Doubt::ShellsDiffer);
        }
        let rest = parser.lexer.rest();
        let Some(letter) = rest.chars().next() else {
            // A here-document without text, on which shells disagree.
            return if parser.lexer.documents.is_empty() { Ok(Token::End) } else { Err(Fault) };
        };
        if letter == '\n' {
            parser.lexer.at += 1;
            documents(parser)?;
            return Ok(Token::Newline);
        }
        let is_process = rest.starts_with("<(") || rest.starts_with(">(");
        if !is_process
            && let Some(operator) = OPERATORS.into_iter().find(|operator| rest.starts_with(operator))
        {
            parser.lexer.at += operator.len();
            return Ok(Token::Operator(operator));
        }
        let word = word(parser)?;
        if parser.lexer.is_next('<') || parser.lexer.is_next('>') {
            // The number of a redirected file descriptor.
            if !word.is_quoted && word.text.bytes().all(|byte| byte.is_ascii_digit()) {
                parser.lexer.number = word.text;
                continue;
            }
            // A variable for the file descriptor.
            if !word.is_quoted && word.text.starts_with('{') {
                return Err(Fault);
            }
        }
        return Ok(Token::Word(word));
    }
}

fn word(parser: &mut Parser<'_, '_>) -> Parsed<Word> {
    let mut word = Word::default();
    // Number of open braces, and whether their content expands to several words.
    let (mut braces, mut several) = (0_usize, false);
    let mut has_equals = false;
    loop {
        let rest = parser.lexer.rest();
        let Some(letter) = rest.chars().next() else { break };
        match letter {
            '<' | '>' if word == Word::default() && rest[1..].starts_with('(') => {
                parser.lexer.at += 1;
                word.text.push(letter);
                substitution(parser, &mut word)?;
            }
            ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
            '\\' if rest.starts_with("\\\n") => {
                // Inside a word, where some shells ignore it.
                parser.script.doubt(Doubt::ShellsDiffer);
                parser.lexer.at += 2;
            }
            '\\' => {
                parser.lexer.at += 1;
                word.is_quoted = true;
                // The effect of a trailing backslash depends on the shell.
                word.text.push(parser.lexer.take().ok_or(Fault)?);
            }
            '\'' => {
                let (quoted, _) = rest[1..].split_once('\'').ok_or(Fault)?;
                word.text.push_str(quoted);
                word.is_quoted = true;
                parser.lexer.at += quoted.len() + 2;
            }
            '"' => {
                parser.lexer.at += 1;
                double_quoted(parser, &mut word)?;
            }
            '$' => dollar(parser, &mut word, false)?,
            '`' => backquoted(parser, &mut word)?,
            _ => {
                parser.lexer.at += letter.len_utf8();
                match letter {
                    '*' | '?' | '[' => {
                        word.is_glob |= !word.is_open;
                        word.is_open = true;
                        let set = rest.strip_prefix('[');
                        let is_command = word.text.is_empty()
                            && set.is_some_and(|set| set.is_empty() || set.starts_with([' ', '\t', '\n']));
                        if set.is_some_and(|set| !is_command && !is_common_set(set)) {
                            parser.script.doubt(Doubt::ShellsDiffer);
                        }
                    }
                    '~' if word.text.is_empty() && !word.is_quoted => {
                        word.has_tilde = true;
                        // Shells disagree on unknown users and on quotes here.
                        let is_common = |next: char| "/ \t\n;&|<>()".contains(next);
                        if rest[1..].chars().next().is_some_and(|next| !is_common(next)) {
                            parser.script.doubt(Doubt::ShellsDiffer);
                        }
                    }
                    // Some shells expand a tilde here as well.
                    '~' if word.value_at.is_some() && word.text.ends_with(['=', ':']) => {
                        parser.script.doubt(Doubt::ShellsDiffer);
                    }
                    '{' => braces += 1,
                    ',' => several |= braces > 0,
                    '.' if rest.starts_with("..") => several |= braces > 0,
                    '}' => word.has_brace |= several && braces > 0,
                    _ => {}
                }
                word.text.push(letter);
                if letter == '=' && !has_equals {
                    has_equals = true;
                    word.value_at = assignment(&word.text).filter(|_| !word.is_quoted);
                }
            }
        }
    }
    // The command `[` is not a pattern.
    if word.text == "[" {
        (word.is_open, word.is_glob) = (false, false);
    }
    if word.has_brace || word.is_undecoded {
        parser.script.doubt(Doubt::ShellsDiffer);
    }
    Ok(word)
}

/// Returns whether all shells interpret a set of letters the same way, given the text after its bracket.
fn is_common_set(set: &str) -> bool {
    let end =
        set.get(1..).and_then(|inner| inner.find(|letter: char| "]/'\"\\$` \t\n;&|<>()[".contains(letter)));
    !set.starts_with(['^', '!', ']']) && end.is_some_and(|at| set[at + 1..].starts_with(']'))
}

fn double_quoted(parser: &mut Parser<'_, '_>, word: &mut Word) -> Parsed<()> {
    word.is_quoted = true;
    loop {
        match parser.lexer.letter().ok_or(Fault)? {
            '"' => {
                parser.lexer.at += 1;
                return Ok(());
            }
            _ => quoted_letter(parser, word)?,
        }
    }
}

/// Parses one element inside double quotes or a here-document.
fn quoted_letter(parser: &mut Parser<'_, '_>, word: &mut Word) -> Parsed<()> {
    match parser.lexer.letter().ok_or(Fault)? {
        '$' => dollar(parser, word, true),
        '`' => backquoted(parser, word),
        '\\' => {
            parser.lexer.at += 1;
            match parser.lexer.letter() {
                Some('\n') => {
                    // After a dollar sign, some shells treat the next characters as a substitution.
                    parser.script.doubt(Doubt::ShellsDiffer);
                    parser.lexer.at += 1;
                }
                Some(letter @ ('$' | '`' | '"' | '\\')) => {
                    parser.lexer.at += 1;
                    word.text.push(letter);
                }
                _ => word.text.push('\\'),
            }
            Ok(())
        }
        letter => {
            parser.lexer.at += letter.len_utf8();
            word.text.push(letter);
            Ok(())
        }
    }
}

/// Parses an element that begins with a dollar sign.
fn dollar(parser: &mut Parser<'_, '_>, word: &mut Word, is_quoted: bool) -> Parsed<()> {
    let start = parser.lexer.at;
    parser.lexer.at += 1;
    match parser.lexer.letter() {
        Some('(') => {
            word.text.push('$');
            return substitution(parser, word);
        }
        Some('{') => {
            parser.lexer.at += 1;
            let name = parser.lexer.rest().split_once('}').map_or("", |(name, _)| name);
            if let Some(value) = parser.value_of(name) {
                parser.lexer.at += name.len() + 1;
                if put_value(parser, word, &value, is_quoted) {
                    return Ok(());
                }
            } else {
                parameter(parser)?;
            }
        }
        Some('[') => {
            parser.script.doubt(Doubt::Arithmetic);
            parser.lexer.at += 1;
        }
        Some('\'') if !is_quoted => {
            parser.lexer.at += 1;
            // Not all shells support it.
            (word.is_quoted, word.is_undecoded) = (true, true);
            return escaped(parser, word);
        }
        Some('"') if !is_quoted => {
            parser.lexer.at += 1;
            word.is_undecoded = true;
            return double_quoted(parser, word);
        }
        Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let rest = parser.lexer.rest();
            let name = &rest[..rest.find(|letter| !is_name(letter)).unwrap_or(rest.len())];
            parser.lexer.at += name.len();
            if let Some(value) = parser.value_of(name)
                && put_value(parser, word, &value, is_quoted)
            {
                return Ok(());
            }
        }
        Some(letter) if letter.is_ascii_digit() || "@*#?-$!".contains(letter) => parser.lexer.at += 1,
        _ => {
            word.text.push('$');
            return Ok(());
        }
    }
    (word.is_open, word.is_glob) = (true, false);
    word.text.push_str(parser.lexer.text.get(start..parser.lexer.at).unwrap_or_default());
    Ok(())
}

/// Inserts the value of a loop variable into a word like a shell. Returns `false` if the shell would split it
/// or expand it to files.
fn put_value(parser: &Parser<'_, '_>, word: &mut Word, value: &Word, is_quoted: bool) -> bool {
    if value.is_glob {
        // One of the expanded files, if no text precedes or follows.
        let rest = parser.lexer.rest();
        let rest = if is_quoted { rest.strip_prefix('"') } else { Some(rest) };
        let is_end = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '&', '|', ')']);
        if !word.text.is_empty() || word.is_open || !rest.is_some_and(is_end) {
            return false;
        }
        word.text.push_str(&value.text);
        (word.is_open, word.is_glob, word.is_quoted, word.splits) = (true, true, true, !is_quoted);
        return true;
    }
    let is_one_word = !value.text.is_empty()
        && !value.text.contains(|letter: char| letter.is_whitespace() || "*?[\\".contains(letter));
    if !is_quoted && !is_one_word {
        return false;
    }
    word.text.push_str(&value.text);
    // It is neither a reserved word nor an assignment, regardless of its text.
    word.is_quoted = true;
    true
}

/// Returns whether all shells support a form of `${...}`, given the text after its brace.
fn is_common_parameter(rest: &str) -> bool {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if let Some(behind) = rest.strip_prefix('#')
        && !behind.starts_with('}')
    {
        let name = behind.find(|letter| !is_name(letter)).unwrap_or(behind.len());
        return name > 0 && behind[name..].starts_with('}');
    }
    let name = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
    let behind = &rest[name..];
    let operator = behind.strip_prefix(':').unwrap_or(behind);
    name > 0
        && (behind.starts_with('}')
            || operator.starts_with(['-', '+', '?'])
            || behind.starts_with(['%', '#']))
}

/// Parses `${...}` after its brace. Some forms run the content of the variable.
fn parameter(parser: &mut Parser<'_, '_>) -> Parsed<()> {
    if !is_common_parameter(parser.lexer.rest()) {
        parser.script.doubt(Doubt::ShellsDiffer);
    }
    parser.deeper(|parser| {
        let mut inner = Word::default();
        loop {
            match parser.lexer.letter().ok_or(Fault)? {
                '}' => {
                    parser.lexer.at += 1;
                    return Ok(());
                }
                '@' | '!' | '[' => {
                    parser.script.doubt(Doubt::Substitution);
                    parser.lexer.at += 1;
                }
                // Sets the variable, or starts arithmetic, which runs the content of a variable.
                '=' => {
                    parser.script.doubt(Doubt::Substitution);
                    parser.lexer.at += 1;
                }
                ':' => {
                    parser.lexer.at += 1;
                    if !parser.lexer.letter().is_some_and(|next| "-+?".contains(next)) {
                        parser.script.doubt(Doubt::Arithmetic);
                    }
                }
                '<' | '>' if parser.lexer.rest()[1..].starts_with('(') => {
                    // A command runs here too, unless it is quoted.
                    parser.script.doubt(Doubt::Substitution);
                    parser.lexer.at += 1;
                }
                '\'' => {
                    // Inside double quotes it has another meaning.
                    parser.script.doubt(Doubt::Substitution);
                    parser.lexer.at += 1;
                }
                '\\' => {
                    // Its effect on the end of this form depends on the context.
                    parser.script.doubt(Doubt::Substitution);
                    parser.lexer.at += 1;
                    parser.lexer.at += parser.lexer.letter().ok_or(Fault)?.len_utf8();
                }
                '"' => {
                    // Whether it ends the enclosing quotes depends on the shell.
                    parser.script.doubt(Doubt::ShellsDiffer);
                    parser.lexer.at += 1;
                    double_quoted(parser, &mut inner)?;
                }
                _ => quoted_letter(parser, &mut inner)?,
            }
        }
    })
}

/// Parses `$(...)`, `<(...)` and `>(...)` from their parenthesis on.
fn substitution(parser: &mut Parser<'_, '_>, word: &mut Word) -> Parsed<()> {
    let start = parser.lexer.at;
    parser.script.doubt(Doubt::Substitution);
    parser.lexer.at += 1;
    let documents = std::mem::take(&mut parser.lexer.documents);
    let (cwd, next) = (parser.cwd.clone(), parser.next.take());
    parser.nested += 1;
    parser.deeper(|parser| {
        parser.list(&[])?;
        parser.expect(")")
    })?;
    parser.nested -= 1;
    (parser.cwd, parser.next) = (cwd, next);
    parser.lexer.documents = documents;
    (word.is_open, word.is_glob) = (true, false);
    word.text.push_str(parser.lexer.text.get(start..parser.lexer.at).unwrap_or_default());
    Ok(())
}

/// Parses the backquote form of a substitution.
fn backquoted(parser: &mut Parser<'_, '_>, word: &mut Word) -> Parsed<()> {
    let start = parser.lexer.at;
    parser.script.doubt(Doubt::Substitution);
    parser.lexer.at += 1;
    let mut inner = String::new();
    loop {
        match parser.lexer.take().ok_or(Fault)? {
            '`' => break,
            '\\' => match parser.lexer.take().ok_or(Fault)? {
                letter @ ('`' | '\\' | '$') => inner.push(letter),
                letter => inner.extend(['\\', letter]),
            },
            letter => inner.push(letter),
        }
    }
    let Script { parts, guesses, doubts, tokens: _ } = Script::parse_at(&inner, parser.depth + 1);
    doubts.into_iter().for_each(|doubt| parser.script.doubt(doubt));
    for part in parts.into_iter().chain(guesses) {
        parser.add(part)?;
    }
    (word.is_open, word.is_glob) = (true, false);
    word.text.push_str(parser.lexer.text.get(start..parser.lexer.at).unwrap_or_default());
    Ok(())
}

/// Parses `$'...'` after its quote.
fn escaped(parser: &mut Parser<'_, '_>, word: &mut Word) -> Parsed<()> {
    loop {
        match parser.lexer.take().ok_or(Fault)? {
            '\'' => return Ok(()),
            '\\' => {
                let letter = parser.lexer.take().ok_or(Fault)?;
                let digits = |parser: &mut Parser<'_, '_>, radix: u32, most: usize| {
                    let rest = parser.lexer.rest();
                    let length = rest.chars().take(most).take_while(|letter| letter.is_digit(radix)).count();
                    parser.lexer.at += length;
                    u32::from_str_radix(&rest[..length], radix).ok().and_then(char::from_u32)
                };
                let decoded = match letter {
                    'n' => Some('\n'),
                    't' => Some('\t'),
                    'r' => Some('\r'),
                    'a' => Some('\x07'),
                    'b' => Some('\x08'),
                    'f' => Some('\x0c'),
                    'v' => Some('\x0b'),
                    'e' | 'E' => Some('\x1b'),
                    '\\' | '\'' | '"' | '?' => Some(letter),
                    'x' => digits(parser, 16, 2),
                    'u' => digits(parser, 16, 4),
                    'U' => digits(parser, 16, 8),
                    '0'..='7' => {
                        parser.lexer.at -= 1;
                        digits(parser, 8, 3)
                    }
                    _ => None,
                };
                word.text.push(decoded.unwrap_or(letter));
            }
            letter => word.text.push(letter),
        }
    }
}

/// Reads the here-documents that begin on this line.
fn documents(parser: &mut Parser<'_, '_>) -> Parsed<()> {
    for (delimiter, strips_tabs) in std::mem::take(&mut parser.lexer.documents) {
        let start = parser.lexer.at;
        let (mut end, mut is_ended) = (start, false);
        for line in parser.lexer.rest().split_inclusive('\n') {
            parser.lexer.at += line.len();
            let text = line.strip_suffix('\n').unwrap_or(line);
            let text = if strips_tabs { text.trim_start_matches('\t') } else { text };
            if text == delimiter.text {
                is_ended = true;
                break;
            }
            end = parser.lexer.at;
        }
        if !is_ended {
            // Shells disagree on a here-document without an end.
            return Err(Fault);
        }
        if delimiter.is_quoted && delimiter.is_plain() {
            continue;
        }
        let text = parser.lexer.text.get(start..end).unwrap_or_default();
        // A continued line may hide the end of the document.
        if text.contains("\\\n") || !delimiter.is_plain() {
            return Err(Fault);
        }
        scan_document(parser, text)?;
    }
    Ok(())
}

/// Searches a here-document for substitutions.
fn scan_document(parser: &mut Parser<'_, '_>, text: &str) -> Parsed<()> {
    if text.contains("$(") || text.contains('`') || text.contains("${") || text.contains("$[") {
        let quoted: String = text
            .chars()
            .flat_map(|letter| (letter == '"').then_some('\\').into_iter().chain([letter]))
            .collect();
        let Script { parts, guesses, doubts, tokens: _ } =
            Script::parse_at(&format!(": \"{quoted}\""), parser.depth + 1);
        doubts.into_iter().for_each(|doubt| parser.script.doubt(doubt));
        for part in parts
            .into_iter()
            .chain(guesses)
            .filter(|part| part.words.first().is_none_or(|word| word.text != ":"))
        {
            parser.add(part)?;
        }
    }
    Ok(())
}
