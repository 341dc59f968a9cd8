//! Files and pictures: pasted, dropped, and shown.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use switchboard_browser::{ColorScheme, Page};

use super::scripted_agent::{heard, scripted_agent, update};
use super::talk::Talk;
use crate::agent_program::Place;

/// A picture of 96 by 48 pixels.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAGAAAAAwAQMAAADU2O2MAAAABlBMVEXwyFAfb2uN4iebAAAAG0lEQVR42mNg4P+PQIOM8/8DAg02zmi4kcUBAAEsHvBnMp/dAAAAAElFTkSuQmCC";

/// Before an agent that takes some kinds of files, and answers every prompt with the same content.
fn before_agent(takes: &Value, answer: &Value) -> Talk {
    let place = Place::new();
    let answer = json!({ "sessionUpdate": "agent_message", "messageId": "m", "content": answer });
    let agent = scripted_agent(&place.work(), takes, &json!({}), &[update(answer)]);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    talk.page.wait_until("document.body.classList.contains('is-live')");
    talk
}

fn thanks() -> Value {
    json!([{ "type": "text", "text": "Thanks" }])
}

/// The content of the last prompt, once it is answered.
fn prompt_that_was_heard(talk: &Talk) -> Value {
    talk.page.press("Enter");
    talk.page.wait_for("article.e-agent :: Thanks");
    talk.page.wait_gone("#attachments li");
    let lines = std::fs::read_to_string(heard(&talk.place.work())).unwrap();
    let prompt: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    prompt["params"]["prompt"].clone()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn files_are_dropped_anywhere_in_the_page() {
    let talk = before_agent(&json!({ "image": {}, "embeddedContext": {} }), &thanks());
    let page = &talk.page;
    let work = talk.place.work();
    let note = write(&work, "note.txt", b"remember the milk");
    let picture = write(&work, "picture.png", &STANDARD.decode(PICTURE).unwrap());
    page.drop_files("#prompt", &[&note]);
    page.wait_for("#attachments :: note.txt");
    page.drop_files("#scroller", &[&picture]);
    page.wait_for("#attachments :: picture.png");
    page.wait_until("document.activeElement.id === 'prompt'");
    page.type_text("Look");
    page.screenshot("dropped");
    let blocks = prompt_that_was_heard(&talk);
    assert_eq!(blocks[0], json!({ "type": "text", "text": "Look" }));
    assert_eq!(blocks[1]["resource"]["text"], "remember the milk");
    assert_eq!(blocks[2], json!({ "type": "image", "mimeType": "image/png", "data": PICTURE }));
    talk.all_is_well();
}

#[test]
fn an_agent_that_takes_no_files_gets_none() {
    let talk = before_agent(&json!({}), &thanks());
    let page = &talk.page;
    let note = write(&talk.place.work(), "note.txt", b"remember the milk");
    let here = page.eval("location.href");
    page.drop_files("#prompt", &[&note]);
    page.wait_for("#toasts :: This agent takes no files.");
    page.drop_files("#scroller", &[&note]);
    page.wait_until("find('#toasts p').length === 2");
    assert_eq!(page.eval("location.href"), here);
    assert_eq!(page.count("#attachments li"), 0);
    talk.all_is_well();
}

#[test]
fn what_the_agent_does_not_take_comes_back() {
    let talk = before_agent(&json!({ "image": {} }), &thanks());
    let page = &talk.page;
    let note = write(&talk.place.work(), "note.txt", b"remember the milk");
    page.drop_files("#prompt", &[&note]);
    page.wait_for("#attachments :: note.txt");
    page.type_text("Look");
    page.press("Enter");
    page.wait_for("#refusal :: the agent does not take note.txt (text/plain)");
    page.wait_for("#attachments :: note.txt");
    assert_eq!(page.eval("document.querySelector('#prompt').value"), "Look");
    page.click("#attachments button :: Remove note.txt");
    page.click("#prompt");
    assert_eq!(prompt_that_was_heard(&talk), json!([{ "type": "text", "text": "Look" }]));
    talk.all_is_well();
}

#[test]
fn a_picture_is_pasted() {
    let talk = before_agent(&json!({ "image": {} }), &thanks());
    let page = &talk.page;
    let _clipboard = talk.visitor.allow_clipboard(&format!("http://{}", talk.opened.host()));
    page.eval(&format!(
        "navigator.clipboard.write([new ClipboardItem({{ 'image/png':
            new Blob([Uint8Array.from(atob('{PICTURE}'), it => it.charCodeAt(0))], {{ type: 'image/png' }}) }})])"
    ));
    page.type_into("#prompt", "Look");
    page.paste();
    page.wait_for("#attachments :: image.png");
    // Text is pasted as text.
    page.eval("navigator.clipboard.writeText(' here')");
    page.paste();
    page.wait_until("document.querySelector('#prompt').value === 'Look here'");
    assert_eq!(page.count("#attachments li"), 1);
    let blocks = prompt_that_was_heard(&talk);
    assert_eq!(blocks[0]["text"], "Look here");
    assert_eq!((&blocks[1]["type"], &blocks[1]["mimeType"]), (&json!("image"), &json!("image/png")));
    // The browser has written the picture anew; it shows the same.
    let pixels = page.eval(&format!(
        "(async () => {{
            const [pasted, copied] = await Promise.all([{}, {}].map(async data => {{
                const picture = new Image();
                picture.src = `data:image/png;base64,${{data}}`;
                await picture.decode();
                const canvas = new OffscreenCanvas(picture.naturalWidth, picture.naturalHeight).getContext('2d');
                canvas.drawImage(picture, 0, 0);
                return canvas.getImageData(0, 0, picture.naturalWidth, picture.naturalHeight);
            }}));
            return [pasted.width, pasted.height, pasted.data.join() === copied.data.join()];
        }})()",
        blocks[1]["data"],
        json!(PICTURE)
    ));
    assert_eq!(pixels, json!([96, 48, true]));
    talk.all_is_well();
}

/// The size that the pictures of a message are shown in, once they are there.
fn shown_pictures(page: &Page) -> Value {
    page.wait_until(
        "find('article.e-agent img').length && find('article.e-agent img').every(it => it.complete)",
    );
    page.eval("find('article.e-agent img').map(it => [it.naturalWidth, it.clientWidth, it.clientHeight])")
}

#[test]
fn pictures_in_a_message_are_shown() {
    let picture = json!({ "type": "image", "mimeType": "image/png", "data": PICTURE });
    let mut named = picture.clone();
    named["uri"] = "file:///pictures/<b>flag</b>.png".into();
    let said = |text: &str| json!({ "type": "text", "text": text });
    let false_kind = json!({ "type": "image", "mimeType": "image/gif", "data": PICTURE });
    let drawing =
        json!({ "type": "image", "mimeType": "image/svg+xml", "data": STANDARD.encode("<svg onload='x'/>") });
    let answer =
        json!([said("Before"), picture, said("between"), named, false_kind, drawing, said("after.")]);
    let talk = before_agent(&json!({}), &answer);
    let page = &talk.page;
    talk.page.type_into("#prompt", "Draw");
    talk.page.press("Enter");
    page.wait_for("article.e-agent :: after.");
    assert_eq!(shown_pictures(page), json!([[96, 96, 48], [96, 96, 48]]));
    page.wait_for("article.e-agent figcaption :: <b>flag</b>.png");
    page.wait_for("article.e-agent .file-chip :: not the kind of picture that it is said to be");
    page.wait_for("article.e-agent .file-chip :: not a kind of picture that is shown here");
    // Words and pictures stand in the order in which they were said.
    let order = page.eval(
        "[...document.querySelector('article.e-agent').querySelectorAll('p, img')].map(it => it.matches('img') ? 'img' : it.innerText)
            .filter(it => ['Before', 'img', 'between', 'after.'].includes(it))",
    );
    assert_eq!(order, json!(["Before", "img", "between", "img", "after."]));
    for (scheme, name) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        page.prefer(scheme, true);
        page.screenshot(&format!("pictures-{name}"));
    }
    talk.all_is_well();
}
