//! Second line of defence: the output of the Markdown writer passes an independent sanitizer.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};
use maud::{Markup, PreEscaped};

const TAGS: &str = "a blockquote br button code del div em h3 h4 h5 h6 hr li ol p pre \
    span strong table tbody td th thead tr ul";

static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let set = |words: &'static str| words.split(' ').collect::<HashSet<_>>();
    let mut builder = Builder::empty();
    builder
        .tags(set(TAGS))
        .tag_attributes(HashMap::from([
            ("a", set("href rel target title")),
            ("button", set("data-line data-path")),
            ("ol", set("start")),
            ("pre", set("data-lang")),
            ("span", set("title")),
        ]))
        // Text can only produce buttons that show a file.
        .tag_attribute_values(HashMap::from([(
            "button",
            HashMap::from([("data-action", set("follow")), ("type", set("button"))]),
        )]))
        .allowed_classes(HashMap::from([
            ("button", set("path")),
            ("div", set("tbl html")),
            ("span", set("hid nolink task")),
            ("td", set("ac ar")),
            ("th", set("ac ar")),
        ]))
        .url_schemes(set("http https mailto"))
        .url_relative(UrlRelative::Deny)
        .link_rel(None);
    builder
});

/// Sanitizes the HTML of a Markdown block.
pub(super) fn clean(html: &str) -> Markup {
    PreEscaped(SANITIZER.clean(html).to_string())
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn only_harmless_markup_passes() {
        let cases = [
            ("<p>a <em>b</em></p>", "<p>a <em>b</em></p>"),
            ("<script>x</script><p onclick=\"x\">a</p>", "<p>a</p>"),
            ("<a href=\"javascript:x\">a</a>", "<a>a</a>"),
            ("<a href=\"/x\">a</a>", "<a>a</a>"),
            ("<img src=x onerror=y><svg><a/></svg>", ""),
            ("<p style=\"a\" class=\"b\">c</p>", "<p>c</p>"),
            (
                "<button data-action=\"delete-now\" data-option=\"x\" type=\"submit\">a</button>",
                "<button>a</button>",
            ),
            ("<span class=\"hid evil\" title=\"t\">c</span>", "<span class=\"hid\" title=\"t\">c</span>"),
        ];
        for (html, expected) in cases {
            assert_eq!(clean(html).0, expected, "{html}");
        }
    }
}
