//! Mouse and keyboard input as real events.

use std::path::Path;

use serde_json::{Value, json};

use crate::Page;
use crate::page::quoted;

/// Named keys: name, code, number, typed text.
const KEYS: [(&str, &str, u32, &str); 15] = [
    ("Enter", "Enter", 13, "\r"),
    ("Tab", "Tab", 9, ""),
    ("Escape", "Escape", 27, ""),
    ("Backspace", "Backspace", 8, ""),
    ("Delete", "Delete", 46, ""),
    ("Space", "Space", 32, " "),
    ("ArrowLeft", "ArrowLeft", 37, ""),
    ("ArrowUp", "ArrowUp", 38, ""),
    ("ArrowRight", "ArrowRight", 39, ""),
    ("ArrowDown", "ArrowDown", 40, ""),
    ("PageUp", "PageUp", 33, ""),
    ("PageDown", "PageDown", 34, ""),
    ("End", "End", 35, ""),
    ("Home", "Home", 36, ""),
    ("F1", "F1", 112, ""),
];

/// Maximum number of attempts to hit a moving element.
pub(crate) const MOST_AIMS: usize = 5;

/// Returns a script that computes the click position: the center of an element, once it stands still, is
/// enabled and is not covered. `pressReached` in the page tells whether the press reached it.
pub(crate) fn point(element: &str) -> String {
    format!(
        "(async () => {{
            const element = find({})[0];
            if (!element) throw 'it is not there';
            if (element.matches(':disabled, [aria-disabled=true]') || element.closest('[inert]')) throw 'it is disabled';
            const middle = () => {{
                const box = [...element.getClientRects()].find(box => box.width * box.height > 0);
                return [box.left + box.width / 2, box.top + box.height / 2];
            }};
            const hit = () => document.elementFromPoint(...middle());
            if (!element.contains(hit())) element.scrollIntoView({{ block: 'center', inline: 'center', behavior: 'instant' }});
            const [x, y] = middle();
            await new Promise(requestAnimationFrame);
            if (middle().join() !== [x, y].join()) throw 'it moves';
            if (!element.contains(hit())) throw 'it is behind ' + (hit()?.cloneNode().outerHTML ?? 'the edge');
            globalThis.pressReached = false;
            const pressed = event => globalThis.pressReached = element.contains(event.target);
            addEventListener('pointerdown', pressed, {{ capture: true, once: true }});
            return [x, y];
        }})()",
        quoted(element)
    )
}

/// The pressed mouse button.
#[derive(Debug)]
pub struct Held<'p> {
    page: &'p Page,
    point: Value,
}

impl Held<'_> {
    /// Releases the button at the same position.
    #[track_caller]
    pub fn release(self) {
        self.page.mouse("mouseReleased", &self.point, 0);
    }
}

impl Page {
    /// Clicks the center of an element, once it stands still, is enabled and is not covered.
    #[track_caller]
    pub fn click(&self, element: &str) {
        self.hold(element).release();
    }

    /// Presses the mouse button like [`Page::click`] and holds it. Tries again if the element moved away
    /// before the press.
    #[track_caller]
    #[must_use]
    pub fn hold(&self, element: &str) -> Held<'_> {
        for _ in 0..MOST_AIMS {
            let aim = self.try_wait(&point(element));
            let point = aim.unwrap_or_else(|state| self.fail(&format!("a click on {element}"), &state));
            self.mouse("mouseMoved", &point, 0);
            self.mouse("mousePressed", &point, 1);
            let held = Held { page: self, point };
            // A press that navigated away has removed the variable.
            if self.script("globalThis.pressReached").is_ok_and(|reached| reached != false) {
                return held;
            }
            held.release();
        }
        self.fail(&format!("a click on {element}"), " (it moved away before each press)")
    }

    #[track_caller]
    fn mouse(&self, kind: &str, point: &Value, buttons: u32) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let event = json!({
            "type": kind, "x": point[0], "y": point[1], "button": button, "buttons": buttons, "clickCount": 1,
        });
        self.command("Input.dispatchMouseEvent", &event);
    }

    /// Turns the mouse wheel over the center of an element.
    #[track_caller]
    pub fn scroll(&self, element: &str, down: i32) {
        let point = self.middle(element);
        let event =
            json!({ "type": "mouseWheel", "x": point[0], "y": point[1], "deltaX": 0, "deltaY": down });
        self.command("Input.dispatchMouseEvent", &event);
    }

    /// Returns the center of an element, once it exists.
    #[track_caller]
    fn middle(&self, element: &str) -> Value {
        self.wait_for(element);
        let box_of = format!("find({})[0].getBoundingClientRect()", quoted(element));
        self.eval(&format!("(box => [box.left + box.width / 2, box.top + box.height / 2])({box_of})"))
    }

    /// Types a text at the cursor, key by key; a line break is Shift and Enter.
    #[track_caller]
    pub fn type_text(&self, text: &str) {
        for character in text.chars() {
            match character {
                '\n' => self.press("Shift+Enter"),
                ' ' => self.press("Space"),
                _ => self.key(&character.to_string(), 0),
            }
        }
    }

    /// Puts a text at the cursor at once, as an input method does: editors that complete words do not change it.
    #[track_caller]
    pub fn insert_text(&self, text: &str) {
        self.command("Input.insertText", &json!({ "text": text }));
    }

    /// Clicks an element and types a text.
    #[track_caller]
    pub fn type_into(&self, element: &str, text: &str) {
        self.click(element);
        self.type_text(text);
    }

    /// Presses a key: a character or a name such as `Escape`, `Control+Enter`, `Shift+Tab`.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        let mut words: Vec<&str> = keys.split('+').collect();
        let key = words.pop().unwrap_or_default();
        let modifiers = words.iter().map(|word| match *word {
            "Alt" => 1,
            "Control" => 2,
            "Meta" => 4,
            "Shift" => 8,
            other => panic!("{other} is not a modifier"),
        });
        self.key(key, modifiers.sum());
    }

    #[track_caller]
    fn key(&self, key: &str, modifiers: u32) {
        let (code, number, text) = match KEYS.iter().find(|(name, ..)| *name == key) {
            Some((_, code, number, text)) => ((*code).to_owned(), *number, *text),
            None => match key.chars().next() {
                Some(letter) if letter.is_ascii_alphabetic() => (
                    format!("Key{}", letter.to_ascii_uppercase()),
                    u32::from(letter.to_ascii_uppercase()),
                    key,
                ),
                Some(digit) if digit.is_ascii_digit() => (format!("Digit{digit}"), u32::from(digit), key),
                _ => (String::new(), 0, key),
            },
        };
        // With Control and similar modifiers, a key types nothing.
        let text = if modifiers & 7 == 0 { text } else { "" };
        let key = if key == "Space" { " " } else { key };
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        let mut event = json!({
            "type": kind, "modifiers": modifiers, "key": key, "code": code,
            "windowsVirtualKeyCode": number, "text": text,
        });
        self.command("Input.dispatchKeyEvent", &event);
        event["type"] = "keyUp".into();
        event["text"] = "".into();
        self.command("Input.dispatchKeyEvent", &event);
    }

    /// Selects files in a file input, which may be hidden.
    #[track_caller]
    pub fn attach(&self, selector: &str, files: &[&Path]) {
        let expression = format!("document.querySelector({})", json!(selector));
        let found = self.command("Runtime.evaluate", &json!({ "expression": expression }));
        let Some(object) = found["result"]["objectId"].as_str() else { self.fail(selector, "") };
        self.command("DOM.setFileInputFiles", &json!({ "objectId": object, "files": files }));
    }
    /// Drags files over an element and drops them.
    #[track_caller]
    pub fn drop_files(&self, element: &str, files: &[&Path]) {
        let point = self.middle(element);
        let data = json!({ "items": [], "files": files, "dragOperationsMask": 1 });
        for kind in ["dragEnter", "dragOver", "drop"] {
            let event = json!({ "type": kind, "x": point[0], "y": point[1], "data": data });
            self.command("Input.dispatchDragEvent", &event);
        }
    }

    /// Pastes the clipboard at the cursor.
    #[track_caller]
    pub fn paste(&self) {
        let event = json!({
            "type": "rawKeyDown", "modifiers": 2, "key": "v", "code": "KeyV", "windowsVirtualKeyCode": 86,
            "commands": ["paste"],
        });
        self.command("Input.dispatchKeyEvent", &event);
        let event = json!({ "type": "keyUp", "modifiers": 2, "key": "v", "code": "KeyV", "windowsVirtualKeyCode": 86 });
        self.command("Input.dispatchKeyEvent", &event);
    }
}
