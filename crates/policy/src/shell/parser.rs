//! The grammar: lists, pipelines, compound and simple commands.

mod lexer;

use super::{
    Cwd, DirectoryChange, Doubt, MAX_DEPTH, MAX_PARTS, MAX_ROUNDS, Part, Redirection, Script, Word,
    is_private,
};
use lexer::{Lexer, Token};

/// A syntax error, or a construct that is not supported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault;

type Parsed<T> = Result<T, Fault>;

/// Parses a line into a script; commands found before an error are kept.
pub(super) fn parse(line: &str, depth: usize, script: &mut Script) -> Parsed<()> {
    let mut parser = Parser {
        lexer: Lexer::new(line),
        next: None,
        depth,
        nested: 0,
        script,
        cwd: Cwd::default(),
        variables: Vec::new(),
        rounds: 0,
    };
    parser.list(&[])?;
    match parser.peek()? {
        Token::End => Ok(()),
        _ => Err(Fault),
    }
}

/// Reserved words that cannot begin a simple command.
const CLOSING: [&str; 8] = ["then", "else", "elif", "fi", "do", "done", "esac", "}"];

struct Parser<'t, 's> {
    lexer: Lexer<'t>,
    next: Option<Token>,
    depth: usize,
    /// Number of open substitutions.
    nested: usize,
    script: &'s mut Script,
    cwd: Cwd,
    /// Variables of the enclosing loops, with their value in this iteration.
    variables: Vec<(String, Word)>,
    /// Number of unrolled loop iterations.
    rounds: usize,
}

/// Builtins that may change a variable, or read commands that do.
const SETTING: [&str; 18] = [
    ".",
    "declare",
    "exec",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "set",
    "shift",
    "source",
    "typeset",
    "unset",
    "wait",
];

impl Parser<'_, '_> {
    fn peek(&mut self) -> Parsed<&Token> {
        if self.next.is_none() {
            let token = lexer::token(self)?;
            self.next = Some(token);
        }
        self.next.as_ref().ok_or(Fault)
    }

    fn advance(&mut self) -> Parsed<Token> {
        self.peek()?;
        let token = self.next.take().ok_or(Fault)?;
        if self.nested == 0 {
            match &token {
                Token::Word(word) => self.script.tokens.push(word.text.clone()),
                Token::Operator(operator) => self.script.tokens.push((*operator).to_owned()),
                Token::Newline | Token::End => {}
            }
        }
        Ok(token)
    }

    fn expect(&mut self, operator: &str) -> Parsed<()> {
        match self.advance()? {
            Token::Operator(found) if found == operator => Ok(()),
            _ => Err(Fault),
        }
    }

    fn expect_word(&mut self, reserved: &str) -> Parsed<()> {
        match self.advance()? {
            Token::Word(word) if word.is_reserved(reserved) => Ok(()),
            _ => Err(Fault),
        }
    }

    fn is_operator(&mut self, operator: &str) -> Parsed<bool> {
        Ok(matches!(self.peek()?, Token::Operator(found) if *found == operator))
    }

    fn is_reserved(&mut self, reserved: &str) -> Parsed<bool> {
        Ok(matches!(self.peek()?, Token::Word(word) if word.is_reserved(reserved)))
    }

    fn skip_newlines(&mut self) -> Parsed<()> {
        while matches!(self.peek()?, Token::Newline) {
            self.advance()?;
        }
        Ok(())
    }

    /// Runs a parser one nesting level deeper.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            self.script.doubt(Doubt::TooLong);
            return Err(Fault);
        }
        self.depth += 1;
        let outcome = inner(self);
        self.depth -= 1;
        outcome
    }

    /// Parses commands until the end, a closing operator or one of these reserved words. Returns their
    /// number.
    fn list(&mut self, ends: &[&str]) -> Parsed<usize> {
        let mut count = 0;
        loop {
            self.skip_newlines()?;
            if self.is_at_end(ends)? {
                return Ok(count);
            }
            let before = self.cwd.clone();
            self.and_or()?;
            count += 1;
            if self.is_at_end(ends)? {
                return Ok(count);
            }
            match self.advance()? {
                Token::Operator(";") | Token::Newline => self.cwd.any_may_fail(),
                // A background command changes only its own directory.
                Token::Operator("&") => self.cwd = before,
                _ => return Err(Fault),
            }
        }
    }

    /// Parses commands, of which at least one is required.
    fn some(&mut self, ends: &[&str]) -> Parsed<()> {
        match self.list(ends)? {
            0 => Err(Fault),
            _ => Ok(()),
        }
    }

    fn is_at_end(&mut self, ends: &[&str]) -> Parsed<bool> {
        Ok(match self.peek()? {
            Token::End | Token::Operator(")" | ";;" | ";&" | ";;&") => true,
            Token::Word(word) => ends.iter().any(|end| word.is_reserved(end)),
            Token::Operator(_) | Token::Newline => false,
        })
    }

    fn and_or(&mut self) -> Parsed<()> {
        let mut before = self.cwd.clone();
        self.pipeline()?;
        loop {
            let is_or = match self.peek()? {
                Token::Operator("&&") => false,
                Token::Operator("||") => true,
                _ => return Ok(()),
            };
            self.advance()?;
            self.skip_newlines()?;
            if is_or {
                // This command runs only if the change of directory failed, and the next one in either case.
                self.unless_same(&before);
                before = self.cwd.clone();
                self.pipeline()?;
                self.unless_same(&before);
            } else {
                self.pipeline()?;
            }
        }
    }

    /// Marks the directory as unknown unless it is unchanged.
    fn unless_same(&mut self, before: &Cwd) {
        if self.cwd != *before {
            self.cwd = Cwd::Unknown;
        }
    }

    fn pipeline(&mut self) -> Parsed<()> {
        let mut negations = 0;
        while self.is_reserved("!")? {
            self.advance()?;
            negations += 1;
        }
        if negations > 1 {
            self.script.doubt(Doubt::ShellsDiffer);
        }
        let before = self.cwd.clone();
        self.command()?;
        if negations > 0 {
            // The command after `&&` runs if the directory was not changed.
            self.unless_same(&before);
        }
        while let Token::Operator(operator @ ("|" | "|&")) = *self.peek()? {
            if operator == "|&" {
                self.script.doubt(Doubt::ShellsDiffer);
            }
            self.advance()?;
            self.skip_newlines()?;
            // At the start of a command `time` is a reserved word, which no shell accepts here; elsewhere it
            // is a program.
            if self.is_reserved("time")? {
                return Err(Fault);
            }
            self.cwd = before.clone();
            let first = self.script.parts.len();
            self.command()?;
            self.feed(first);
            self.cwd = before.clone();
        }
        Ok(())
    }

    /// Marks commands whose input comes from elsewhere.
    fn feed(&mut self, first: usize) {
        self.script.parts.iter_mut().skip(first).for_each(|part| part.is_fed = true);
    }

    fn command(&mut self) -> Parsed<()> {
        let reserved = match self.peek()? {
            Token::Operator("(") => "(",
            Token::Word(word) if !word.is_quoted && word.is_plain() => match &*word.text {
                "{" => "{",
                "if" => "if",
                "while" | "until" => "while",
                "for" => "for",
                "case" => "case",
                "function" => "function",
                text @ ("select" | "[[") => {
                    let reserved = if text == "[[" { "[[" } else { "for" };
                    self.script.doubt(Doubt::ShellsDiffer);
                    reserved
                }
                "coproc" => return Err(Fault),
                text if CLOSING.contains(&text) => return Err(Fault),
                _ => return self.simple(),
            },
            _ => return self.simple(),
        };
        self.deeper(|parser| parser.compound(reserved))
    }

    fn compound(&mut self, reserved: &str) -> Parsed<()> {
        let (first, before) = (self.script.parts.len(), self.cwd.clone());
        match reserved {
            "(" => {
                if self.lexer.is_next('(') {
                    self.script.doubt(Doubt::Arithmetic);
                }
                self.advance()?;
                self.some(&[])?;
                self.expect(")")?;
                self.cwd = before;
            }
            "{" => {
                self.advance()?;
                self.some(&["}"])?;
                self.expect_word("}")?;
            }
            "if" => self.conditional(&before)?,
            "while" => {
                self.advance()?;
                self.some(&["do"])?;
                self.body(first, &before)?;
            }
            "for" => self.for_loop(first, &before)?,
            "case" => self.case(&before)?,
            "function" => {
                self.advance()?;
                self.advance()?;
                if self.is_operator("(")? {
                    self.advance()?;
                    self.expect(")")?;
                }
                self.function()?;
            }
            _ => self.test()?,
        }
        self.redirections_of_all(first)
    }

    fn conditional(&mut self, before: &Cwd) -> Parsed<()> {
        self.advance()?;
        self.some(&["then"])?;
        self.expect_word("then")?;
        loop {
            self.some(&["elif", "else", "fi"])?;
            let Token::Word(word) = self.advance()? else { return Err(Fault) };
            self.unless_same(before);
            match &*word.text {
                "fi" => return Ok(()),
                "else" => {}
                "elif" => {
                    self.some(&["then"])?;
                    self.expect_word("then")?;
                }
                _ => return Err(Fault),
            }
        }
    }

    /// Parses the body of a loop. If it changes the directory, each iteration starts in another one.
    fn body(&mut self, first: usize, before: &Cwd) -> Parsed<()> {
        self.skip_newlines()?;
        self.expect_word("do")?;
        self.some(&["done"])?;
        self.expect_word("done")?;
        if self.cwd != *before {
            self.cwd = Cwd::Unknown;
            self.script.parts.iter_mut().skip(first).for_each(|part| part.cwd = Cwd::Unknown);
        }
        Ok(())
    }

    /// Parses a loop over words. Literal words are unrolled: the body is parsed once for each.
    fn for_loop(&mut self, first: usize, before: &Cwd) -> Parsed<()> {
        let (name, words) = self.for_words()?;
        if self.variables.iter().any(|(bound, _)| *bound == name.text) {
            // After the inner loop the variable has another value than in this iteration.
            self.script.doubt(Doubt::Substitution);
        }
        let is_followed = |word: &Word| word.is_plain() && !word.has_tilde || word.is_glob;
        let Some(words) = words.filter(|words| {
            !words.is_empty() && name.is_plain() && is_private(&name.text) && words.iter().all(is_followed)
        }) else {
            return self.body(first, before);
        };
        let (start, next, tokens) = (self.lexer.clone(), self.next.clone(), self.script.tokens.len());
        for (place, word) in words.into_iter().enumerate() {
            self.rounds += 1;
            if self.rounds > MAX_ROUNDS {
                self.script.doubt(Doubt::TooLong);
                return Err(Fault);
            }
            if place > 0 {
                (self.lexer, self.next) = (start.clone(), next.clone());
                self.script.tokens.truncate(tokens);
            }
            self.variables.push((name.text.clone(), word));
            let outcome = self.body(first, before);
            self.variables.pop();
            outcome?;
        }
        Ok(())
    }

    /// Returns whether a command leaves the variables of the enclosing loops unchanged.
    fn keeps_variables(&self, part: &Part) -> bool {
        let prints = part.words.first().is_some_and(|word| word.text == "printf")
            && part.words.get(1).is_some_and(|word| word.is_plain() && !word.is_option());
        self.variables.is_empty() || prints || !part.words.iter().any(|word| SETTING.contains(&&*word.text))
    }

    /// Returns the value of a loop variable in this iteration.
    fn value_of(&self, name: &str) -> Option<Word> {
        self.variables.iter().rev().find(|(bound, _)| bound == name).map(|(_, value)| value.clone())
    }

    /// Parses `for NAME in WORD...;` up to the `do`. Returns the variable and its words if they are given.
    fn for_words(&mut self) -> Parsed<(Word, Option<Vec<Word>>)> {
        self.advance()?;
        let Token::Word(name) = self.advance()? else { return Err(Fault) };
        if name.text.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(Fault);
        }
        if !name.is_plain() || !is_private(&name.text) {
            // The loop variable is set like any other: `for PATH in ...`.
            let value_at = Some(name.text.len() + 1);
            let set = Word { text: format!("{}=", name.text), value_at, ..Word::default() };
            self.add(Part { assignments: vec![set], cwd: self.cwd.clone(), ..Part::default() })?;
        }
        self.skip_newlines()?;
        let mut words = None;
        if self.is_reserved("in")? {
            self.advance()?;
            let mut found = Vec::new();
            while let Token::Word(_) = self.peek()? {
                let Token::Word(word) = self.advance()? else { return Err(Fault) };
                found.push(word);
            }
            words = Some(found);
        }
        match self.peek()? {
            Token::Operator(";") | Token::Newline => drop(self.advance()?),
            Token::Word(word) if word.is_reserved("do") && words.is_none() => {}
            _ => return Err(Fault),
        }
        Ok((name, words))
    }

    fn case(&mut self, before: &Cwd) -> Parsed<()> {
        self.advance()?;
        let Token::Word(_) = self.advance()? else { return Err(Fault) };
        self.skip_newlines()?;
        self.expect_word("in")?;
        loop {
            self.skip_newlines()?;
            if self.is_reserved("esac")? {
                self.advance()?;
                return Ok(());
            }
            if self.is_operator("(")? {
                self.advance()?;
            }
            loop {
                let Token::Word(_) = self.advance()? else { return Err(Fault) };
                match self.advance()? {
                    Token::Operator("|") => {}
                    Token::Operator(")") => break,
                    _ => return Err(Fault),
                }
            }
            self.list(&["esac"])?;
            self.unless_same(before);
            match self.peek()? {
                Token::Operator(";;") => drop(self.advance()?),
                Token::Operator(";&" | ";;&") => {
                    self.script.doubt(Doubt::ShellsDiffer);
                    self.advance()?;
                }
                Token::Word(word) if word.is_reserved("esac") => {}
                _ => return Err(Fault),
            }
        }
    }

    /// Parses `[[ ... ]]`, in which operators have another meaning.
    fn test(&mut self) -> Parsed<()> {
        let mut part = Part { cwd: self.cwd.clone(), ..Part::default() };
        loop {
            match self.advance()? {
                Token::Word(word) => {
                    let is_last = word.is_reserved("]]");
                    part.words.push(word);
                    if is_last {
                        return self.add(part);
                    }
                }
                Token::Operator(operator) => part.words.push(Word::literal(operator)),
                Token::Newline => {}
                Token::End => return Err(Fault),
            }
        }
    }

    /// Parses the body of a function, which may have the name of any command.
    fn function(&mut self) -> Parsed<()> {
        self.script.doubt(Doubt::Function);
        self.skip_newlines()?;
        self.command()
    }

    /// Applies redirections after a compound command to all commands in it.
    fn redirections_of_all(&mut self, first: usize) -> Parsed<()> {
        let mut part = Part { cwd: self.cwd.clone(), ..Part::default() };
        while self.redirection(&mut part)? {}
        if self.script.parts.len() == first && !part.redirections.is_empty() {
            // No command runs, as in `case x in esac > file`, but the file is written.
            return self.add(part);
        }
        for target in self.script.parts.iter_mut().skip(first) {
            target.redirections.extend(part.redirections.iter().cloned());
            target.is_fed |= part.is_fed;
        }
        Ok(())
    }

    fn simple(&mut self) -> Parsed<()> {
        let mut part = Part::default();
        loop {
            match self.peek()? {
                Token::Word(word) if part.words.is_empty() && word.value_at.is_some() => {
                    let Token::Word(word) = self.advance()? else { return Err(Fault) };
                    let is_common = word.text.find(['=', '+', '[']) == word.value_at.map(|at| at - 1);
                    if !is_common {
                        self.script.doubt(Doubt::ShellsDiffer);
                    }
                    part.assignments.push(word);
                }
                Token::Word(_) => {
                    let Token::Word(word) = self.advance()? else { return Err(Fault) };
                    part.words.push(word);
                }
                Token::Operator("(")
                    if part.words.len() == 1
                        && part == Part { words: part.words.clone(), ..Part::default() } =>
                {
                    self.advance()?;
                    self.expect(")")?;
                    return self.deeper(Self::function);
                }
                Token::Operator("(") => return Err(Fault),
                Token::Operator(_) | Token::Newline | Token::End => {
                    if !self.redirection(&mut part)? {
                        break;
                    }
                }
            }
        }
        if part == Part::default() {
            return Err(Fault);
        }
        part.cwd = self.cwd.clone();
        self.change_directory(&part);
        if !self.keeps_variables(&part) {
            self.script.doubt(Doubt::Substitution);
        }
        self.add(part)
    }

    /// Parses a redirection if one follows. Returns whether it did.
    fn redirection(&mut self, part: &mut Part) -> Parsed<bool> {
        let Token::Operator(operator) = self.peek()? else { return Ok(false) };
        let operator = *operator;
        const ALL: [&str; 12] = ["<", ">", ">>", "<>", ">|", "&>", "&>>", "<&", ">&", "<<", "<<-", "<<<"];
        if !ALL.contains(&operator) {
            return Ok(false);
        }
        // Shown as one word.
        let (first, number) = (self.script.tokens.len(), std::mem::take(&mut self.lexer.number));
        self.advance()?;
        let Token::Word(target) = self.advance()? else { return Err(Fault) };
        if self.nested == 0 {
            self.script.tokens.truncate(first);
            self.script.tokens.push(format!("{number}{operator}{}", target.text));
        }
        if matches!(operator, "<<" | "<<-") {
            self.lexer.await_document(target, operator == "<<-");
            part.is_fed = true;
            return Ok(true);
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_copy = matches!(operator, "<&" | ">&")
            && (target.text == "-" || is_number(target.text.strip_suffix('-').unwrap_or(&target.text)));
        let is_common = match operator {
            "<&" | ">&" => target.is_plain() && !target.is_quoted && is_copy && target.text.len() == 1,
            _ => !matches!(operator, "&>" | "&>>" | "<<<"),
        };
        if !is_common || number.len() > 1 {
            self.script.doubt(Doubt::ShellsDiffer);
        }
        match operator {
            "<<<" => part.is_fed = true,
            _ if is_copy => {}
            _ if target.text == "/dev/null" && target.is_plain() => {}
            _ => part.redirections.push(Redirection { target, writes: operator != "<" }),
        }
        Ok(true)
    }

    fn add(&mut self, part: Part) -> Parsed<()> {
        if self.script.parts.len() >= MAX_PARTS {
            self.script.doubt(Doubt::TooLong);
            return Err(Fault);
        }
        self.script.parts.push(part);
        Ok(())
    }

    /// Tracks `cd`.
    fn change_directory(&mut self, part: &Part) {
        let through =
            part.words.iter().take_while(|word| matches!(&*word.text, "builtin" | "command")).count();
        let mut words = part.words.iter().skip(through);
        let Some(command) = words.next() else { return };
        match &*command.text {
            "cd" if part.words.iter().take(through).all(|word| word.text == "command") => {}
            // Not all shells support these.
            "cd" | "chdir" | "pushd" | "popd" | "source" | "." | "eval" => return self.cwd = Cwd::Unknown,
            _ => return,
        }
        let options = ["-P", "-L", "--"];
        let mut targets = words.skip_while(|word| options.contains(&&*word.text));
        match (targets.next(), targets.next()) {
            (None, _) => self.cwd.step(DirectoryChange::Home),
            (Some(word), None) if word.is_plain() && !word.text.is_empty() && word.text != "-" => {
                if !word.has_tilde {
                    return self.cwd.step(DirectoryChange::To(word.text.clone()));
                }
                match word.text.strip_prefix('~') {
                    Some("") => self.cwd.step(DirectoryChange::Home),
                    Some(rest) if rest.starts_with('/') => {
                        self.cwd.step(DirectoryChange::InHome(rest.to_owned()));
                    }
                    _ => self.cwd = Cwd::Unknown,
                }
            }
            _ => self.cwd = Cwd::Unknown,
        }
    }
}
