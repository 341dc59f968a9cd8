//! Changes to JSON as editors' settings have it that leave everything else as it is, to the byte: comments, order, white
//! space, the way numbers and texts are spelled. Only spans of the text are replaced.

mod layout;
mod tree;

use serde_json::Value;

use self::layout::Layout;
use self::tree::{Kind, Node};
use super::commented_json;

/// A text with JSON in it, and where its values are.
#[derive(Debug)]
pub(crate) struct EditedJson {
    text: String,
    root: Node,
}

/// A path to a value: keys of objects, and numbers in lists.
pub(crate) type Path<'p> = &'p [&'p str];

impl EditedJson {
    /// Reads a text. One that is no JSON is an error: nothing can be changed in it with care.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // What JSON is has been decided there.
        commented_json::parse(text).map_err(|error| format!("is no JSON: {error}"))?;
        let root = tree::parse(text).ok_or("is JSON of a kind that cannot be edited with care")?;
        Ok(EditedJson { text: text.to_owned(), root })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The value at a path.
    pub(crate) fn get(&self, path: Path<'_>) -> Option<Value> {
        let node = self.find(path).ok()??;
        commented_json::parse(&self.text[node.span.clone()]).ok()
    }

    /// Puts a value at a path, in the place of what is there. Objects on the way that are missing are made.
    pub(crate) fn set(&mut self, path: Path<'_>, value: &Value) -> Result<(), String> {
        let (mut node, layout) = (&self.root, Layout::of(&self.text, &self.root));
        for (depth, key) in path.iter().enumerate() {
            if node.kind == Kind::Scalar || node.kind == Kind::Array && node.child(key).is_none() {
                return Err(format!("has {} that is no object", shown(&path[..depth])));
            }
            match unique(node, key, &path[..depth])? {
                Some(child) => node = child,
                None => {
                    let inner = path[depth + 1..].iter().rev();
                    let value = inner.fold(value.clone(), |inner, key| serde_json::json!({ *key: inner }));
                    let text = layout.inserted(&self.text, node, Some(key), &value);
                    return self.take(&text);
                }
            }
        }
        let rendered = layout.replacing(&self.text, node, value);
        let span = node.span.clone();
        self.splice(span, &rendered)
    }

    /// Adds an item at the end of a list.
    pub(crate) fn push(&mut self, path: Path<'_>, value: &Value) -> Result<(), String> {
        let layout = Layout::of(&self.text, &self.root);
        let list = self.list(path)?;
        let text = layout.inserted(&self.text, list, None, value);
        self.take(&text)
    }

    /// Puts texts before the items of a list.
    pub(crate) fn prepend(&mut self, path: Path<'_>, items: &[String]) -> Result<(), String> {
        let list = self.list(path)?;
        let mut texts: Vec<String> =
            items.iter().map(|item| Value::from(item.as_str()).to_string()).collect();
        if !list.items.is_empty() {
            texts.push(String::new());
        }
        let (place, text) = (list.span.start + 1, texts.join(", "));
        self.splice(place..place, &text)
    }

    /// Takes the first items of a list out of it.
    pub(crate) fn remove_first(&mut self, path: Path<'_>, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let path: Vec<&str> = path.iter().copied().chain(["0"]).collect();
            self.remove(&path)?;
        }
        Ok(())
    }

    /// Takes a value out, with its key. Whether it was there.
    pub(crate) fn remove(&mut self, path: Path<'_>) -> Result<bool, String> {
        let Some((last, before)) = path.split_last() else { return Ok(false) };
        let Some(node) = self.find(before)? else { return Ok(false) };
        unique(node, last, before)?;
        let Some(place) = node.place(last) else { return Ok(false) };
        let text = layout::without(&self.text, node, place);
        self.take(&text)?;
        Ok(true)
    }

    fn list(&self, path: Path<'_>) -> Result<&Node, String> {
        let found = self.find(path)?.filter(|node| node.kind == Kind::Array);
        found.ok_or_else(|| format!("has {} that is no list", shown(path)))
    }

    fn find(&self, path: Path<'_>) -> Result<Option<&Node>, String> {
        let mut node = &self.root;
        for (depth, key) in path.iter().enumerate() {
            match unique(node, key, &path[..depth])? {
                Some(child) => node = child,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    fn splice(&mut self, span: std::ops::Range<usize>, with: &str) -> Result<(), String> {
        let mut text = self.text.clone();
        text.replace_range(span, with);
        self.take(&text)
    }

    /// The text after a change, which is read anew.
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = EditedJson::parse(text)
            .map_err(|error| format!("cannot be edited with care; it then {error}"))?;
        Ok(())
    }
}

/// The value of a key that stands once: which of two is meant, nobody can tell.
fn unique<'n>(node: &'n Node, key: &str, path: Path<'_>) -> Result<Option<&'n Node>, String> {
    if node.kind == Kind::Object
        && node.items.iter().filter(|item| item.key.as_deref() == Some(key)).count() > 1
    {
        return Err(format!("has the key {key:?} twice in {}", shown(path)));
    }
    Ok(node.child(key))
}

fn shown(path: Path<'_>) -> String {
    if path.is_empty() { "a value".to_owned() } else { format!("\"{}\"", path.join(".")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    // Tests hand `json!` values to small functions; a reference there would only be noise.
    #[allow(clippy::needless_pass_by_value)]
    fn set(text: &str, path: Path<'_>, value: Value) -> String {
        let mut edited = EditedJson::parse(text).unwrap();
        edited.set(path, &value).unwrap();
        edited.text().to_owned()
    }

    fn removed(text: &str, path: Path<'_>) -> String {
        let mut edited = EditedJson::parse(text).unwrap();
        assert!(edited.remove(path).unwrap());
        edited.text().to_owned()
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
    fn what_cannot_be_edited_with_care_is_refused() {
        for text in ["", "{", "[,]", "{,}", "// only"] {
            assert!(EditedJson::parse(text).is_err(), "{text}");
        }
        let mut edited = EditedJson::parse("{\"a\": 1, \"a\": 2, \"b\": [], \"c\": \"x\"}").unwrap();
        assert!(edited.set(&["a"], &json!(3)).unwrap_err().contains("twice"));
        assert!(edited.set(&["b", "x"], &json!(3)).unwrap_err().contains("no object"));
        assert!(edited.set(&["c", "x"], &json!(3)).unwrap_err().contains("no object"));
        assert!(edited.push(&["c"], &json!(3)).unwrap_err().contains("no list"));
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
            let mut expected: Value = commented_json::parse(&text).unwrap();
            edited.set(&["new", "inner"], &json!(value)).unwrap();
            expected["new"] = json!({"inner": value});
            edited.set(&["first", "added"], &json!([value])).ok().map_or_else(|| (), |()| expected["first"]["added"] = json!([value]));
            prop_assert_eq!(commented_json::parse(edited.text()).unwrap(), expected.clone());
            for key in ["new", "args"] {
                edited.remove(&[key]).unwrap();
                expected.as_object_mut().unwrap().remove(key);
                prop_assert_eq!(commented_json::parse(edited.text()).unwrap(), expected.clone());
            }
            // Nothing of what was there is spelled otherwise.
            let inner: String = document.chars().filter(|character| !character.is_whitespace()).collect();
            let after: String = edited.text().chars().filter(|character| !character.is_whitespace()).collect();
            prop_assert!(expected["first"].get("added").is_some() || after.contains(&inner), "{}", edited.text());
        }
    }
}
