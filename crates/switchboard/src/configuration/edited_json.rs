//! JSON with comments and trailing commas, as in editors' settings, and edits that keep the rest of the text
//! byte for byte.
//!
//! `jsonc-parser` parses the text and locates every value and comma in it; the edits replace spans of the
//! text. The crate's own editable tree is not used: it breaks an object on one line into several lines, and
//! removes the comments before a removed item.

mod layout;

use std::ops::Range;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions};
use serde_json::Value;

use self::layout::Layout;

/// Comments and trailing commas, and no other extension: editors do not accept those either.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

const BYTE_ORDER_MARK: &str = "\u{FEFF}";

/// Parses JSON with comments. Errors name the line and the column.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    Ok(Tree::parse(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text))?.root.into())
}

/// A JSON text that is edited in place.
#[derive(Debug)]
pub(crate) struct EditedJson {
    has_mark: bool,
    /// The text after the byte order mark.
    text: String,
}

/// A path to a value: keys of objects, and indexes of lists.
pub(crate) type Path<'p> = &'p [&'p str];

impl EditedJson {
    /// Parses a text. Fails if it is not JSON: an edit could change its meaning.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let unmarked = text.strip_prefix(BYTE_ORDER_MARK);
        let mut edited = EditedJson { has_mark: unmarked.is_some(), text: String::new() };
        edited.take(unmarked.unwrap_or(text).to_owned())?;
        Ok(edited)
    }

    pub(crate) fn text(&self) -> String {
        format!("{}{}", if self.has_mark { BYTE_ORDER_MARK } else { "" }, self.text)
    }

    /// Returns the value at a path.
    pub(crate) fn get(&self, path: Path<'_>) -> Option<Value> {
        Some(Tree::parse(&self.text).ok()?.find(path).ok()??.clone().into())
    }

    /// Sets the value at a path. Objects that are missing on the path are created.
    pub(crate) fn set(&mut self, path: Path<'_>, value: &Value) -> Result<(), String> {
        let tree = Tree::parse(&self.text)?;
        let (mut node, layout) = (&tree.root, Layout::of(&self.text, &tree.container(&tree.root)));
        for (depth, key) in path.iter().enumerate() {
            match child(node, key, &path[..depth])? {
                Some(child) => node = child,
                None if node.as_object().is_some() => {
                    let inner = path[depth + 1..].iter().rev();
                    let value = inner.fold(value.clone(), |inner, key| serde_json::json!({ *key: inner }));
                    return self.take(layout.inserted(&self.text, &tree.container(node), Some(key), &value));
                }
                None => return Err(format!("has {} that is not an object", shown(&path[..depth]))),
            }
        }
        let (before, after) = (&self.text[..node.start()], &self.text[node.end()..]);
        self.take(format!("{before}{}{after}", layout.replacing(&self.text, node.start(), value)))
    }

    /// Appends an item to a list.
    pub(crate) fn push(&mut self, path: Path<'_>, value: &Value) -> Result<(), String> {
        let tree = Tree::parse(&self.text)?;
        let layout = Layout::of(&self.text, &tree.container(&tree.root));
        self.take(layout.inserted(&self.text, &tree.list(path)?, None, value))
    }

    /// Inserts strings before the items of a list.
    pub(crate) fn prepend(&mut self, path: Path<'_>, items: &[String]) -> Result<(), String> {
        let list = Tree::parse(&self.text)?.list(path)?;
        let mut texts: Vec<String> =
            items.iter().map(|item| Value::from(item.as_str()).to_string()).collect();
        if !list.items.is_empty() {
            texts.push(String::new());
        }
        let (before, after) = self.text.split_at(list.span.start + 1);
        self.take(format!("{before}{}{after}", texts.join(", ")))
    }

    /// Removes the first items of a list.
    pub(crate) fn remove_first(&mut self, path: Path<'_>, count: usize) -> Result<(), String> {
        (0..count).try_for_each(|_| self.remove(&[path, &["0"]].concat()).map(drop))
    }

    /// Removes a value, with its key. Returns whether it was there.
    pub(crate) fn remove(&mut self, path: Path<'_>) -> Result<bool, String> {
        let tree = Tree::parse(&self.text)?;
        let Some((_, parent)) = path.split_last() else { return Ok(false) };
        let (Some(node), Some(parent)) = (tree.find(path)?, tree.find(parent)?) else { return Ok(false) };
        let container = tree.container(parent);
        let Some(index) = container.items.iter().position(|item| item.end == node.end()) else {
            return Ok(false);
        };
        self.take(layout::without(&self.text, &container, index))?;
        Ok(true)
    }

    /// Replaces the text after an edit, provided that it is JSON.
    fn take(&mut self, text: String) -> Result<(), String> {
        Tree::parse(&text).map_err(|error| format!("is not valid JSON: {error}"))?;
        self.text = text;
        Ok(())
    }
}

/// A parsed text.
struct Tree<'t> {
    root: Node<'t>,
    tokens: Vec<TokenAndRange<'t>>,
}

/// An object or a list: the spans of it, its items and the commas after them.
struct Container {
    span: Range<usize>,
    items: Vec<Range<usize>>,
    commas: Vec<usize>,
}

impl Container {
    /// Returns the comma after the last item.
    fn trailing_comma(&self) -> Option<usize> {
        self.commas.get(self.items.len().checked_sub(1)?).copied()
    }
}

impl<'t> Tree<'t> {
    fn parse(text: &'t str) -> Result<Self, String> {
        let collect = CollectOptions { comments: CommentCollectionStrategy::Off, tokens: true };
        let parsed =
            jsonc_parser::parse_to_ast(text, &collect, &OPTIONS).map_err(|error| error.to_string())?;
        let root = parsed.value.ok_or("it has no value")?;
        Ok(Tree { root, tokens: parsed.tokens.unwrap_or_default() })
    }

    fn find(&self, path: Path<'_>) -> Result<Option<&Node<'t>>, String> {
        let mut node = &self.root;
        for (depth, key) in path.iter().enumerate() {
            match child(node, key, &path[..depth])? {
                Some(child) => node = child,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    fn list(&self, path: Path<'_>) -> Result<Container, String> {
        let list = self.find(path)?.filter(|node| node.as_array().is_some());
        Ok(self.container(list.ok_or_else(|| format!("has {} that is not a list", shown(path)))?))
    }

    fn container(&self, node: &Node<'_>) -> Container {
        let items: Vec<Range<usize>> = match node {
            Node::Object(object) => object.properties.iter().map(span).collect(),
            Node::Array(list) => list.elements.iter().map(span).collect(),
            _ => Vec::new(),
        };
        let comma_after = |item: &Range<usize>| {
            let next = self.tokens.partition_point(|token| token.range.start < item.end);
            self.tokens.get(next).filter(|token| token.token == Token::Comma).map(|token| token.range.start)
        };
        let commas = items.iter().filter_map(comma_after).collect();
        Container { span: span(node), items, commas }
    }
}

fn span(node: &impl Ranged) -> Range<usize> {
    node.start()..node.end()
}

/// Returns the item of an object or a list. A duplicate key is an error: either may be meant.
fn child<'n, 't>(node: &'n Node<'t>, key: &str, path: Path<'_>) -> Result<Option<&'n Node<'t>>, String> {
    let Some(object) = node.as_object() else {
        return Ok(node.as_array().and_then(|list| list.elements.get(key.parse::<usize>().ok()?)));
    };
    let mut named = object.properties.iter().filter(|property| property.name.as_str() == key);
    match (named.next(), named.next()) {
        (_, Some(_)) => Err(format!("has the key {key:?} twice in {}", shown(path))),
        (property, None) => Ok(property.map(|property| &property.value)),
    }
}

fn shown(path: Path<'_>) -> String {
    if path.is_empty() { "a value".to_owned() } else { format!("\"{}\"", path.join(".")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    // Tests pass `json!` values to small functions; a reference would only be noise.
    #[allow(clippy::needless_pass_by_value)]
    fn set(text: &str, path: Path<'_>, value: Value) -> String {
        let mut edited = EditedJson::parse(text).unwrap();
        edited.set(path, &value).unwrap();
        edited.text()
    }

    fn removed(text: &str, path: Path<'_>) -> String {
        let mut edited = EditedJson::parse(text).unwrap();
        assert!(edited.remove(path).unwrap());
        edited.text()
    }

    #[test]
    fn comments_and_last_commas_are_passed_over() {
        let check = |text: &str, expected| assert_eq!(parse(text).unwrap(), expected, "{text}");
        check("{// c\n\"a\": 1, /* , */ }", json!({"a": 1}));
        check("[1, 2, // end\n ]", json!([1, 2]));
        check(
            r#"{"a": "// no, \" comment ,]", "b": [",}",],}"#,
            json!({"a": "// no, \" comment ,]", "b": [",}"]}),
        );
        check("\u{FEFF}{} /* end */", json!({}));
        check("[\"ü\", /* ü */ 1,]", json!(["ü", 1]));
    }

    #[test]
    fn invalid_json_is_not_repaired() {
        for text in ["[1,,2]", "{\"a\" 1}", "\"open", "// only a comment", "{} /* open"] {
            assert!(parse(text).is_err(), "{text}");
        }
        // Neither a crash of the parser nor an extension of JSON that editors refuse.
        assert!(parse(&"[".repeat(100_000)).unwrap_err().contains("nesting"));
        for text in ["{a: 1}", "['a']", "[0x10]", "[+1]", "[1 2]", "[NaN]", "[.5]"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_is_replaced_and_nothing_else() {
        let text = "// top\n{\n\t\"a\": 1.50, // one\n\t\"b\": {\"c\": [1,2,],},\n}\n";
        assert_eq!(set(text, &["a"], json!(2)), text.replace("1.50", "2"));
        assert_eq!(set(text, &["b", "c", "1"], json!("x")), text.replace("[1,2,]", "[1,\"x\",]"));
    }

    #[test]
    fn a_key_is_added_as_its_neighbours_are() {
        let check = |text: &str, path: Path<'_>, expected: &str| {
            assert_eq!(set(text, path, json!(1)), expected, "{text}");
        };
        check("{}", &["a"], "{\n  \"a\": 1\n}");
        check("{ }\n", &["a", "b"], "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n");
        check("{\"x\": 0}", &["a"], "{\"x\": 0, \"a\": 1}");
        check("{\"x\": 0,}", &["a"], "{\"x\": 0, \"a\": 1,}");
        check("{\n\t\"x\": 0\n}", &["a"], "{\n\t\"x\": 0,\n\t\"a\": 1\n}");
        check("{\r\n    \"x\": 0, // why\r\n}", &["a"], "{\r\n    \"x\": 0, // why\r\n    \"a\": 1,\r\n}");
        check("{\n  \"x\": 0 // why\n}", &["a"], "{\n  \"x\": 0, // why\n  \"a\": 1\n}");
        check("{\n  // nothing yet\n}", &["a"], "{\n  // nothing yet\n  \"a\": 1\n}");
        check("{\n  \"x\": {}, \"y\": 2 }", &["x", "a"], "{\n  \"x\": {\n    \"a\": 1\n  }, \"y\": 2 }");
        check("{\n  \"x\": 0 /* a\n b */\n}", &["a"], "{\n  \"x\": 0,\n  \"a\": 1 /* a\n b */\n}");
        check("\u{FEFF}{\"x\": 0}", &["a"], "\u{FEFF}{\"x\": 0, \"a\": 1}");
    }

    #[test]
    fn a_value_is_taken_out_with_its_line() {
        let check =
            |text: &str, path: Path<'_>, expected: &str| assert_eq!(removed(text, path), expected, "{text}");
        check("{\n  \"a\": 1,\n  \"b\": 2\n}", &["a"], "{\n  \"b\": 2\n}");
        check("{\n  \"a\": 1,\n  \"b\": 2\n}", &["b"], "{\n  \"a\": 1\n}");
        check("{\n  \"a\": 1, // one\n  \"b\": 2, // two\n}", &["b"], "{\n  \"a\": 1, // one\n}");
        check("{\n  \"a\": 1, // one\n  \"b\": 2\n}", &["b"], "{\n  \"a\": 1 // one\n}");
        check("{\"a\": 1, \"b\": 2}", &["a"], "{\"b\": 2}");
        check("{\"a\": 1, \"b\": 2}", &["b"], "{\"a\": 1}");
        check("{\"a\": 1}", &["a"], "{}");
        check("[1, /* x */ 2, 3]", &["1"], "[1, /* x */ 3]");
    }

    #[test]
    fn lists_are_changed_at_both_ends() {
        let text = "{\"args\": [ // first\n \"--acp\" ]}";
        let mut edited = EditedJson::parse(text).unwrap();
        edited.prepend(&["args"], &["bridge".into(), "--".into(), "a\"b".into()]).unwrap();
        assert_eq!(edited.get(&["args"]), Some(json!(["bridge", "--", "a\"b", "--acp"])));
        edited.remove_first(&["args"], 3).unwrap();
        assert_eq!(edited.get(&["args"]), Some(json!(["--acp"])));
        assert!(edited.text().contains("// first"));
        edited.push(&["args"], &json!({"a": 1})).unwrap();
        assert_eq!(edited.get(&["args", "1", "a"]), Some(json!(1)));
    }

    #[test]
    fn ambiguous_edits_are_refused() {
        for text in ["", "{", "[,]", "{,}", "// only"] {
            assert!(EditedJson::parse(text).is_err(), "{text}");
        }
        let mut edited = EditedJson::parse("{\"a\": 1, \"a\": 2, \"b\": [], \"c\": \"x\"}").unwrap();
        assert!(edited.set(&["a"], &json!(3)).unwrap_err().contains("twice"));
        assert!(edited.set(&["b", "x"], &json!(3)).unwrap_err().contains("not an object"));
        assert!(edited.set(&["c", "x"], &json!(3)).unwrap_err().contains("not an object"));
        assert!(edited.push(&["c"], &json!(3)).unwrap_err().contains("not a list"));
        assert!(!edited.remove(&["d"]).unwrap());
        let mut list = EditedJson::parse("[]").unwrap();
        assert!(list.set(&["x"], &json!(3)).is_err());
    }

    /// JSON with comments, superfluous commas and all kinds of white space.
    fn documents() -> impl Strategy<Value = String> {
        let space = prop::sample::select(vec!["", " ", "\n", "\r\n  ", " // c, }\n", "/* \" ] */", "\t"]);
        let scalar = prop::sample::select(vec![
            "1",
            "-2.50e3",
            "\"t\"",
            "\"// \\\" ,}\"",
            "null",
            "true",
            "{}",
            "[ ]",
        ]);
        let leaf = (space.clone(), scalar).prop_map(|(space, scalar)| format!("{space}{scalar}"));
        leaf.prop_recursive(4, 32, 4, move |inner| {
            let items = prop::collection::vec((inner, space.clone(), space.clone()), 1..4);
            (items, any::<bool>(), any::<bool>()).prop_map(|(items, is_object, has_comma)| {
                let items: Vec<String> = items
                    .into_iter()
                    .enumerate()
                    .map(|(place, (value, before, after))| match is_object {
                        true => format!("{before}\"k{place}\":{value}{after}"),
                        false => format!("{before}{value}{after}"),
                    })
                    .collect();
                let (open, close) = if is_object { ('{', '}') } else { ('[', ']') };
                format!("{open}{}{}\n{close}", items.join(","), if has_comma { "," } else { "" })
            })
        })
    }

    proptest! {
        #[test]
        fn any_document_is_changed_where_it_should_be_and_nowhere_else(document in documents(), value in "[a-z\"\\\\]{0,4}") {
            let text = format!("{{\"first\": {document}, \"args\": [\"x\"] // end\n}}");
            let mut edited = EditedJson::parse(&text).unwrap();
            let mut expected: Value = parse(&text).unwrap();
            edited.set(&["new", "inner"], &json!(value)).unwrap();
            expected["new"] = json!({"inner": value});
            edited.set(&["first", "added"], &json!([value])).ok().map_or_else(|| (), |()| expected["first"]["added"] = json!([value]));
            prop_assert_eq!(parse(&edited.text()).unwrap(), expected.clone());
            for key in ["new", "args"] {
                edited.remove(&[key]).unwrap();
                expected.as_object_mut().unwrap().remove(key);
                prop_assert_eq!(parse(&edited.text()).unwrap(), expected.clone());
            }
            // The spelling of existing text is unchanged.
            let inner: String = document.chars().filter(|character| !character.is_whitespace()).collect();
            let after: String = edited.text().chars().filter(|character| !character.is_whitespace()).collect();
            prop_assert!(expected["first"].get("added").is_some() || after.contains(&inner), "{}", edited.text());
        }
    }
}
