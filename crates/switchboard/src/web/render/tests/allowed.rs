//! What the HTML may hold, judged by a parser that knows nothing of how it was made.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

const VOID: [&str; 7] = ["br", "hr", "img", "input", "link", "meta", "base"];
const ELEMENTS: [&str; 63] = [
    "a",
    "article",
    "audio",
    "blockquote",
    "body",
    "br",
    "button",
    "code",
    "dd",
    "del",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "fieldset",
    "figcaption",
    "figure",
    "form",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "img",
    "input",
    "ins",
    "label",
    "li",
    "link",
    "main",
    "mark",
    "meta",
    "meter",
    "ol",
    "optgroup",
    "option",
    "p",
    "path",
    "pre",
    "progress",
    "section",
    "select",
    "small",
    "span",
    "strong",
    "summary",
    "svg",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "ul",
    "textarea",
    "kbd",
    "i",
];
const ATTRIBUTES: [&str; 44] = [
    "alt",
    "aria-hidden",
    "aria-label",
    "autocomplete",
    "charset",
    "checked",
    "class",
    "controls",
    "d",
    "decoding",
    "for",
    "height",
    "high",
    "href",
    "id",
    "label",
    "lang",
    "loading",
    "max",
    "maxlength",
    "min",
    "minlength",
    "name",
    "open",
    "preload",
    "rel",
    "required",
    "role",
    "selected",
    "src",
    "start",
    "step",
    "tabindex",
    "target",
    "title",
    "type",
    "value",
    "viewbox",
    "viewBox",
    "width",
    "hidden",
    "pattern",
    "list",
    "disabled",
];

/// Checks that every element and attribute is one that this crate writes, that all are closed as they were opened, and
/// that every address is harmless.
#[track_caller]
pub(super) fn check(html: &str) {
    let faults = judge(html, false);
    assert!(faults.is_empty(), "{faults:#?}\n{html}");
}

/// As [`check`], for a whole page.
#[track_caller]
pub(super) fn check_page(html: &str) {
    let faults = judge(html, true);
    assert!(faults.is_empty(), "{faults:#?}");
}

fn judge(html: &str, is_page: bool) -> Vec<String> {
    let judge = Judge { state: RefCell::default(), is_page };
    let tokenizer = Tokenizer::new(judge, TokenizerOpts { exact_errors: true, ..Default::default() });
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    let mut state = tokenizer.sink.state.take();
    if !state.open.is_empty() {
        state.faults.push(format!("left open: {:?}", state.open));
    }
    state.faults
}

#[derive(Debug, Default)]
struct State {
    open: Vec<String>,
    faults: Vec<String>,
}

struct Judge {
    state: RefCell<State>,
    is_page: bool,
}

impl TokenSink for Judge {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut state = self.state.borrow_mut();
        match token {
            Token::TagToken(tag) => self.tag(&mut state, &tag),
            Token::CommentToken(text) => state.faults.push(format!("comment {text}")),
            Token::DoctypeToken(_) if !self.is_page => state.faults.push("doctype".to_owned()),
            Token::NullCharacterToken => state.faults.push("null character".to_owned()),
            Token::ParseError(error) => state.faults.push(format!("not well formed: {error}")),
            Token::DoctypeToken(_) | Token::CharacterTokens(_) | Token::EOFToken => {}
        }
        TokenSinkResult::Continue
    }
}

impl Judge {
    fn tag(&self, state: &mut State, tag: &Tag) {
        let name = tag.name.to_string();
        let State { open, faults } = state;
        if !ELEMENTS.contains(&&*name) {
            faults.push(format!("element {name}"));
        }
        if tag.kind == TagKind::EndTag {
            if open.pop().as_deref() != Some(&name) {
                faults.push(format!("</{name}> closes something else"));
            }
            return;
        }
        if !VOID.contains(&&*name) {
            open.push(name.clone());
        }
        for attribute in &tag.attrs {
            let key = attribute.name.local.to_string();
            if !ATTRIBUTES.contains(&&*key) && !key.starts_with("data-") {
                faults.push(format!("attribute {key} of {name}"));
            }
            let value = &*attribute.value;
            let is_harmless = match &*key {
                "href" if name == "link" => self.is_page,
                "href" => {
                    ["http://", "https://", "mailto:"]
                        .iter()
                        .any(|scheme| value.to_ascii_lowercase().starts_with(scheme))
                        && !value.chars().any(char::is_control)
                }
                "src" => value.starts_with("data:image/") || value.starts_with("data:audio/"),
                _ => true,
            };
            if !is_harmless || (key == "src" && value.contains("svg")) {
                faults.push(format!("address {value:?} of {name}"));
            }
        }
        let has = |key: &str, value: &str| {
            tag.attrs.iter().any(|attribute| &*attribute.name.local == key && &*attribute.value == value)
        };
        if name == "a" && !(has("rel", "noopener noreferrer nofollow") && has("target", "_blank")) {
            faults.push("a link without its guards".to_owned());
        }
    }
}

#[test]
fn the_judge_finds_what_is_wrong() {
    let cases = [
        ("<script>x</script>", "element script"),
        ("<p onclick=\"x\"></p>", "attribute onclick of p"),
        ("<p style=\"x\"></p>", "attribute style of p"),
        ("<p>", "left open: [\"p\"]"),
        ("<p></em></p>", "</em> closes something else"),
        ("<!-- x -->", "comment  x "),
        ("<img src=\"http://x\">", "address \"http://x\" of img"),
    ];
    for (html, fault) in cases {
        assert!(judge(html, false).iter().any(|found| found == fault), "{html}: {:?}", judge(html, false));
    }
    check(
        "<p class=\"a\">x<br><a href=\"http://x\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">y</a></p>",
    );
}
