//! Syntax highlighting of code.
//!
//! A lexer without a grammar: comments, strings, numbers, keywords, and names of calls. Its time is linear in the
//! length of any text, which highlighters with regular expressions do not guarantee, and the text is untrusted.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};

use super::text::push_visible;

/// Maximum length of highlighted code in bytes.
const LONGEST: usize = 256 << 10;

/// A programming language, as far as the lexer knows it.
pub(crate) struct Language {
    names: &'static str,
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// Characters that delimit a string on one line. A string in backticks may span several lines.
    quotes: &'static str,
    words: &'static str,
    /// True if an apostrophe may also start a lifetime's name.
    has_lifetimes: bool,
    ignores_case: bool,
}

const C_LIKE: Language = Language {
    names: "",
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    quotes: "\"'",
    words: "",
    has_lifetimes: false,
    ignores_case: false,
};
const SCRIPT: Language = Language { line_comments: &["#"], block_comment: None, ..C_LIKE };

const LANGUAGES: [Language; 14] = [
    Language {
        names: "rust rs",
        words: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while yield",
        has_lifetimes: true,
        ..C_LIKE
    },
    Language {
        names: "python py",
        words: "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield",
        ..SCRIPT
    },
    Language {
        names: "javascript js jsx mjs cjs typescript ts tsx",
        quotes: "\"'`",
        words: "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in instanceof interface keyof let namespace never new null number of private protected public readonly return set static string super switch this throw true try type typeof undefined unknown var void while with yield",
        ..C_LIKE
    },
    Language {
        names: "go golang",
        quotes: "\"'`",
        words: "any bool break case chan const continue default defer else error fallthrough false for func go goto if import int interface iota make map new nil package range return select string struct switch true type var",
        ..C_LIKE
    },
    Language {
        names: "c h cpp c++ cc hpp objc",
        words: "alignas auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false final float for friend goto if inline int long namespace new noexcept nullptr operator override private protected public register return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while #include #define #if #ifdef #ifndef #else #endif",
        ..C_LIKE
    },
    Language {
        names: "java kotlin kt csharp cs c# scala swift dart",
        words: "abstract as async await base bool boolean break by case catch class companion const continue data def default do double else enum extends extension false final finally float for foreach fun func get guard if implements import in init inline int interface internal is lateinit let long namespace new null nil object operator out override package private protected public readonly record ref return sealed self set static string struct super suspend switch this throw throws trait true try typealias using val var virtual void volatile when where while with yield",
        ..C_LIKE
    },
    Language {
        names: "bash sh shell zsh console fish",
        words: "case do done elif else esac exit export fi for function if in local read return set shift then until while",
        ..SCRIPT
    },
    Language {
        names: "ruby rb elixir ex perl pl r",
        words: "and begin break case class def defmodule defp do else elsif end ensure false for function if in module my next nil not or redo require rescue retry return self sub super then true undef unless until use when while yield",
        ..SCRIPT
    },
    Language {
        names: "toml ini yaml yml dockerfile make makefile cmake nix",
        words: "true false null yes no on off FROM RUN COPY ADD CMD ENTRYPOINT ENV ARG WORKDIR EXPOSE let in with rec inherit",
        ..SCRIPT
    },
    Language { names: "json jsonc json5 jsonl", words: "true false null", ..C_LIKE },
    Language {
        names: "sql sqlite postgres mysql",
        line_comments: &["--"],
        words: "add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists false foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then transaction true union unique update values view when where with",
        ignores_case: true,
        ..C_LIKE
    },
    Language {
        names: "css scss less",
        words: "@media @import @layer @supports @keyframes @font-face !important",
        ..C_LIKE
    },
    Language {
        names: "php",
        line_comments: &["//", "#"],
        words: "abstract and array as break case catch class const continue declare default do echo else elseif enum extends false final finally fn for foreach function global if implements include instanceof interface match namespace new null or private protected public readonly require return static string switch this throw trait true try use var void while yield",
        ..C_LIKE
    },
    Language {
        names: "lua haskell hs",
        line_comments: &["--"],
        block_comment: None,
        words: "and case class data deriving do else elseif end false for function goto if import in infix instance let local module newtype nil not of or repeat return then true type until where while",
        ..C_LIKE
    },
];

/// Renders a code block, highlighted if its language is known, with a copy button.
pub(super) fn block(language: Option<&str>, text: &str) -> Markup {
    html! {
        button.copy type="button" data-action="copy" aria-label="Copy the code" { "Copy" }
        pre data-lang=[language] { code { (coloured(language, text)) } }
    }
}

fn coloured(language: Option<&str>, text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() * 2);
    let name = language.map(str::to_ascii_lowercase);
    let known = name.as_deref().and_then(named);
    match known {
        _ if text.len() > LONGEST => push_visible(&mut out, text),
        Some(language) => Lexer { text, language }.write(&mut out),
        None if matches!(name.as_deref(), Some("diff" | "patch")) => push_diff(&mut out, text),
        None => push_visible(&mut out, text),
    }
    PreEscaped(out)
}

fn named(name: &str) -> Option<&'static Language> {
    LANGUAGES.iter().find(|it| it.names.split(' ').any(|it| it == name))
}

/// Returns the language of a file, by the extension or the whole of its name.
pub(crate) fn language_of(path: &str) -> Option<&'static Language> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    named(name.rsplit('.').next().unwrap_or(&name))
}

/// A coloured piece of code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) class: &'static str,
    pub(super) range: Range<usize>,
}

/// Returns the coloured pieces of a text, in order.
pub(super) fn tokens(language: &'static Language, text: &str) -> Vec<Token> {
    let lexer = Lexer { text, language };
    let (mut at, mut tokens) = (0, Vec::new());
    while at < text.len() {
        let (class, length) = lexer.token(at);
        if !class.is_empty() {
            tokens.push(Token { class, range: at..at + length });
        }
        at += length;
    }
    tokens
}

/// Renders one line of a file with colours.
pub(crate) fn line(language: Option<&'static Language>, text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() * 2);
    match language {
        Some(language) if text.len() <= LONGEST => Lexer { text, language }.write(&mut out),
        _ => push_visible(&mut out, text),
    }
    PreEscaped(out)
}

fn push(out: &mut String, class: &str, text: &str) {
    if class.is_empty() {
        return push_visible(out, text);
    }
    out.push_str("<span class=\"");
    out.push_str(class);
    out.push_str("\">");
    push_visible(out, text);
    out.push_str("</span>");
}

fn push_diff(out: &mut String, text: &str) {
    for line in text.split_inclusive('\n') {
        let class = match line.as_bytes().first() {
            Some(b'+') => "hs",
            Some(b'-') => "hd",
            Some(b'@') => "hc",
            _ => "",
        };
        push(out, class, line);
    }
}

struct Lexer<'t> {
    text: &'t str,
    language: &'static Language,
}

impl Lexer<'_> {
    fn write(&self, out: &mut String) {
        let mut plain = 0;
        for Token { class, range } in tokens(self.language, self.text) {
            push(out, "", &self.text[plain..range.start]);
            push(out, class, &self.text[range.clone()]);
            plain = range.end;
        }
        push(out, "", &self.text[plain..]);
    }

    /// Returns the class and the length of the token at an offset. The length is at least one character.
    fn token(&self, at: usize) -> (&'static str, usize) {
        let rest = &self.text[at..];
        let Some(first) = rest.chars().next() else { return ("", 1) };
        let line = || rest.find('\n').unwrap_or(rest.len());
        if self.language.line_comments.iter().any(|start| rest.starts_with(start)) && !self.is_in_a_word(at) {
            return ("hc", line());
        }
        if let Some((start, end)) = self.language.block_comment
            && let Some(inside) = rest.strip_prefix(start)
        {
            return ("hc", inside.find(end).map_or(rest.len(), |found| start.len() + found + end.len()));
        }
        if self.language.quotes.contains(first) {
            return self.string(rest, first);
        }
        if first.is_ascii_digit() {
            let is_number = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '.';
            return ("hn", rest.find(|it| !is_number(it)).unwrap_or(rest.len()));
        }
        let is_word = |it: char| it.is_alphanumeric() || it == '_' || !it.is_ascii();
        if !is_word(first) && !matches!(first, '#' | '@' | '!') {
            return ("", first.len_utf8());
        }
        let length = rest
            .char_indices()
            .skip(1)
            .find(|(_, it)| !is_word(*it) && *it != '-' || *it == '-' && !self.has_dashes());
        let length = length.map_or(rest.len(), |(length, _)| length);
        let word = &rest[..length];
        let is_known =
            |known: &str| known == word || (self.language.ignores_case && known.eq_ignore_ascii_case(word));
        let class = match rest[length..].chars().next() {
            _ if self.language.words.split(' ').any(is_known) => "hk",
            Some('(' | '!') if first.is_alphabetic() => "hf",
            _ => "",
        };
        (class, length)
    }

    /// Returns `true` if names may contain hyphens, as in style sheets.
    fn has_dashes(&self) -> bool {
        self.language.names.starts_with("css")
    }

    /// Returns `true` if a `#` at an offset is inside a word, so that it does not start a comment.
    fn is_in_a_word(&self, at: usize) -> bool {
        let before = self.text[..at].chars().next_back();
        self.text[at..].starts_with('#') && before.is_some_and(|it| !it.is_whitespace() && it != ';')
    }

    fn string(&self, rest: &str, quote: char) -> (&'static str, usize) {
        let inside = &rest[quote.len_utf8()..];
        if quote == '\'' && self.language.has_lifetimes {
            let mut letters = inside.chars();
            let (first, second) = (letters.next(), letters.next());
            if first.is_some_and(|it| it.is_alphabetic() || it == '_') && second != Some('\'') {
                return ("", 1);
            }
        }
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        if let Some(inside) = rest.strip_prefix(&*triple) {
            return ("hs", inside.find(&*triple).map_or(rest.len(), |found| found + 2 * triple.len()));
        }
        let mut is_escaped = false;
        for (place, letter) in inside.char_indices() {
            match letter {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '\n' if quote != '`' => return ("hs", quote.len_utf8() + place),
                letter if letter == quote => return ("hs", place + 2 * quote.len_utf8()),
                _ => {}
            }
        }
        ("hs", rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: &str, text: &str, expected: &str) {
        assert_eq!(coloured(Some(language), text).0, expected);
    }

    #[test]
    fn words_are_coloured_and_markup_is_text() {
        check(
            "rust",
            "fn f<'a>(x: &'a str) { print!(\"<b>\\\"\"); } // 'x",
            "<span class=\"hk\">fn</span> f&lt;'a&gt;(x: &amp;'a str) { <span class=\"hf\">print</span>!(<span class=\"hs\">\"&lt;b&gt;\\\"\"</span>); } <span class=\"hc\">// 'x</span>",
        );
        check("py", "x = 'a' # b\n", "x = <span class=\"hs\">'a'</span> <span class=\"hc\"># b</span>\n");
        check("SQL", "SELECT 1", "<span class=\"hk\">SELECT</span> <span class=\"hn\">1</span>");
        check("json", "{\"a\": null}", "{<span class=\"hs\">\"a\"</span>: <span class=\"hk\">null</span>}");
        check("sh", "a#b $# 'x", "a#b $# <span class=\"hs\">'x</span>");
        check("diff", "+a\n-b\n c", "<span class=\"hs\">+a\n</span><span class=\"hd\">-b\n</span> c");
        check("nothing", "fn <", "fn &lt;");
        check("rust", "/* open é", "<span class=\"hc\">/* open é</span>");
        check(
            "rust",
            "let é\u{200d} = \"",
            "<span class=\"hk\">let</span> é\u{200d} = <span class=\"hs\">\"</span>",
        );
    }

    #[test]
    fn every_text_is_kept_whatever_it_is() {
        let pieces =
            ["'", "\"", "`", "/*", "*/", "//", "#", "\\", "é", "\n", "fn", "1.", "'''", "-", "@", " "];
        let mut seed = 7_u32;
        for language in ["rust", "py", "js", "css", "sh", "sql", "c"] {
            for _ in 0..200 {
                let mut text = String::new();
                for _ in 0..20 {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    text.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
                }
                let html = coloured(Some(language), &text).0;
                let mut shown = String::new();
                let mut in_tag = false;
                for letter in html.chars() {
                    match letter {
                        '<' => in_tag = true,
                        '>' => in_tag = false,
                        letter if !in_tag => shown.push(letter),
                        _ => {}
                    }
                }
                assert_eq!(shown, text, "{language}");
            }
        }
    }
}
