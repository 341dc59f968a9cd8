//! Checks the HTML by an independent parser.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::Builder;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

const VOID: [&str; 4] = ["br", "hr", "img", "input"];
const ELEMENTS: &str = "a audio blockquote br button code dd del details div dl dt em fieldset figcaption figure form h3 h4 h5 \
    h6 header hr img input ins label legend li mark meter ol optgroup option p path pre progress section select \
    span strong summary svg table tbody td th thead time title tr ul use kbd";
const ATTRIBUTES: &str = "alt aria-expanded aria-hidden aria-label autocomplete checked class controls d decoding disabled height high href id \
    label loading max maxlength min minlength name open preload rel required role selected src start step \
    tabindex target title type value width";
/// Maximum depth of the markup.
const DEEPEST: usize = 64;

/// Checks that this crate writes every element and attribute, that all elements are balanced, that every address is
/// harmless, and that a browser parses the same tree.
#[track_caller]
pub(super) fn check(html: &str) {
    let read = read(html);
    assert!(read.faults.is_empty(), "{:#?}\n{html}", read.faults);
    let again = self::read(&BROWSER.clean(html).to_string());
    assert_eq!(read.tokens, again.tokens, "{html}");
}

/// Parses like a browser, and serializes the tree. It accepts everything that [`read`] accepts.
static BROWSER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut builder = Builder::empty();
    builder
        .tags(ELEMENTS.split(' ').collect())
        .generic_attributes(ATTRIBUTES.split(' ').chain(["viewBox"]).collect())
        .generic_attribute_prefixes(HashSet::from(["data-"]))
        .url_relative(ammonia::UrlRelative::PassThrough)
        .url_schemes(HashSet::from(["http", "https", "mailto", "data"]))
        .tag_attributes(HashMap::new())
        .link_rel(None);
    builder
});

#[derive(Debug, Default)]
struct Read {
    tokens: Vec<String>,
    open: Vec<String>,
    faults: Vec<String>,
}

fn read(html: &str) -> Read {
    let tokenizer =
        Tokenizer::new(Reader::default(), TokenizerOpts { exact_errors: true, ..Default::default() });
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    let mut read = tokenizer.sink.0.take();
    if !read.open.is_empty() {
        read.faults.push(format!("left open: {:?}", read.open));
    }
    read
}

#[derive(Debug, Default)]
struct Reader(RefCell<Read>);

impl TokenSink for Reader {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut read = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => read.tag(&tag),
            Token::CharacterTokens(text) => match read.tokens.last_mut() {
                Some(last) if !last.starts_with('<') => last.push_str(&text),
                _ => read.tokens.push(format!("\u{1}{text}")),
            },
            Token::CommentToken(text) => read.faults.push(format!("comment {text}")),
            Token::DoctypeToken(_) => read.faults.push("doctype".to_owned()),
            Token::NullCharacterToken => read.faults.push("null character".to_owned()),
            // Control characters in a text are harmless.
            Token::ParseError(error) if error.starts_with("Bad character") => {}
            Token::ParseError(error) => read.faults.push(format!("not well formed: {error}")),
            Token::EOFToken => {}
        }
        TokenSinkResult::Continue
    }
}

impl Read {
    fn tag(&mut self, tag: &Tag) {
        let name = tag.name.to_string();
        if !has_word(ELEMENTS, &name) {
            self.faults.push(format!("element {name}"));
        }
        if tag.kind == TagKind::EndTag {
            self.tokens.push(format!("</{name}>"));
            if self.open.pop().as_deref() != Some(&name) {
                self.faults.push(format!("</{name}> closes something else"));
            }
            return;
        }
        if !VOID.contains(&&*name) {
            self.open.push(name.clone());
        }
        if self.open.len() > DEEPEST {
            self.faults.push(format!("{name} is too deep"));
        }
        let mut attributes: Vec<(String, String)> = Vec::new();
        for attribute in &tag.attrs {
            let (key, value) = (attribute.name.local.to_string(), attribute.value.to_string());
            if !has_word(ATTRIBUTES, &key) && key != "viewbox" && !key.starts_with("data-") {
                self.faults.push(format!("attribute {key} of {name}"));
            }
            if !is_harmless(&key, &value) {
                self.faults.push(format!("address {value:?} of {name}"));
            }
            attributes.push((key, value));
        }
        let has = |key: &str, value: &str| attributes.iter().any(|(name, it)| name == key && it == value);
        let is_inside = has("data-action", "look");
        let is_guarded = has("rel", "noopener noreferrer nofollow") && has("target", "_blank");
        if name == "a"
            && is_inside != attributes.iter().any(|(key, value)| key == "href" && is_of_page(value))
        {
            self.faults.push("a link that leads elsewhere than it says".to_owned());
        }
        if name == "a" && !is_inside && !is_guarded {
            self.faults.push("a link without its guards".to_owned());
        }
        attributes.sort();
        self.tokens.push(format!("<{name} {attributes:?}>"));
    }
}

fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|it| it == word)
}

/// Returns `true` if an address is that of a session in the page.
fn is_of_page(address: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_~%".contains(character);
    let parts = address.strip_prefix("/r/").map(|rest| rest.split('/').collect::<Vec<_>>());
    parts.is_some_and(|parts| {
        parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && part.chars().all(is_plain))
    })
}

/// Returns `true` if an address is that of an icon in the page.
fn is_icon(address: &str) -> bool {
    let name = address.strip_prefix("#i-").unwrap_or_default();
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase())
}

fn is_harmless(key: &str, value: &str) -> bool {
    let starts =
        |schemes: &[&str]| schemes.iter().any(|scheme| value.to_ascii_lowercase().starts_with(scheme));
    match key {
        "href" if is_of_page(value) || is_icon(value) => true,
        "href" => starts(&["http://", "https://", "mailto:"]) && !value.chars().any(char::is_control),
        "src" => starts(&[
            "data:image/png;",
            "data:image/gif;",
            "data:image/jpeg;",
            "data:image/webp;",
            "data:audio/",
        ]),
        _ => true,
    }
}

#[test]
fn the_check_finds_invalid_markup() {
    let cases = [
        ("<script>x</script>", "element script"),
        ("<p onclick=\"x\"></p>", "attribute onclick of p"),
        ("<p style=\"x\"></p>", "attribute style of p"),
        ("<p>", "left open: [\"p\"]"),
        ("<p></em></p>", "</em> closes something else"),
        ("<!-- x -->", "comment  x "),
        ("<img src=\"http://x\">", "address \"http://x\" of img"),
        ("<img src=\"data:image/svg+xml;x\">", "address \"data:image/svg+xml;x\" of img"),
        ("<a href=\"http://x\">y</a>", "a link without its guards"),
        ("<a href=\"http://x\" data-action=\"look\">y</a>", "a link that leads elsewhere than it says"),
        ("<a href=\"/r/a/../b\" data-action=\"look\">y</a>", "a link that leads elsewhere than it says"),
    ];
    for (html, fault) in cases {
        let faults = read(html).faults;
        assert!(faults.iter().any(|found| found == fault), "{html}: {faults:?}");
    }
    check(
        "<p class=\"a\">x &amp; y<br><a href=\"http://x\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">y</a></p>",
    );
}

#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn the_check_finds_markup_that_a_browser_parses_differently() {
    check("<p>a<p>b</p></p>");
}
