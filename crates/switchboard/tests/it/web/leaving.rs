//! What a session leaves behind: text to copy, links, files, paper, and pictures of how it went.

use super::talk::Talk;

/// Keeps what the page wants to save, and does not leave for it.
const KEEP_DOWNLOADS: &str = "(() => { globalThis.saved = []; URL.createObjectURL = blob => { \
    blob.text().then(text => saved.push(text)); return '#'; }; })()";

#[test]
fn a_session_is_copied_exported_printed_and_drawn() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    let _clipboard = talk.visitor.allow_clipboard(&format!("http://{}", talk.opened.host()));
    talk.ask("markdown");
    // Code is coloured by its language, and copied.
    page.wait_until("find('article pre .hk').some(it => it.innerText === 'fn')");
    let colors = page.eval(
        "['article pre code', 'article pre .hk'].map(it => getComputedStyle(document.querySelector(it)).color)",
    );
    assert_ne!(colors[0], colors[1]);
    page.click("article .copy");
    page.wait_until("navigator.clipboard.readText().then(text => text.startsWith('fn main() {'))");
    page.click("article.e-agent [data-action=copy-entry]");
    page.wait_until("navigator.clipboard.readText().then(text => text.startsWith('# A heading') && text.includes('**strong words**'))");
    page.click("article.e-agent [data-action=link-entry]");
    page.wait_until(
        "navigator.clipboard.readText().then(text => text === location.origin + location.pathname + '#e1')",
    );
    page.screenshot("code");

    talk.ask("edit");
    talk.ask("permission-free words <script>alert(1)</script>");
    talk.ask("thoughts");
    page.wait_for("article.e-thought .who :: words");
    // All files that were changed, with what was done to each.
    page.click("#menu > summary");
    page.click("#offers [data-action=changes]");
    page.wait_for("#dialog .changes .review-line :: changed once");
    page.wait_for("#dialog .review-hunk ins");
    page.screenshot("changes");
    page.click("#dialog .changes a :: entry");
    page.wait_gone("#dialog");
    page.wait_for("article.e-tool.is-meant, article.e-tool:focus");

    // How it went.
    page.click("#menu > summary");
    page.click("#offers [data-action=pictures]");
    page.wait_until("document.querySelectorAll('#dialog .timeline').length >= 4");
    page.wait_until("document.querySelectorAll('#dialog .timeline rect.lane-tool').length > 0");
    page.screenshot("pictures");
    page.press("Escape");

    // A file that asks for nothing and runs nothing.
    page.eval(KEEP_DOWNLOADS);
    for format in ["html", "markdown"] {
        page.click("#menu > summary");
        page.click("#offers [data-action=export]");
        page.click(&format!("#export [value={format}]"));
        page.screenshot("export");
        page.click("#export button");
        page.wait_gone("#dialog");
    }
    page.wait_until("saved.length === 2");
    let saved = page.eval("saved");
    let (file, markdown) = (saved[0].as_str().unwrap(), saved[1].as_str().unwrap());
    assert!(file.contains("default-src 'none'") && !file.contains("<script"), "{file}");
    assert!(file.contains("A quotation, at the end.") && file.contains("&lt;script&gt;alert(1)"), "{file}");
    assert!(markdown.contains("## You\n\nmarkdown") && markdown.contains("```diff\n"), "{markdown}");
    let path = talk.place.home().join("exported.html");
    std::fs::write(&path, file).unwrap();
    let exported = talk.visitor.open(&format!("file://{}", path.display()));
    exported.wait_for("h1 :: markdown");
    exported.wait_for("article.e-agent :: A quotation, at the end.");
    exported.wait_for("article.e-tool .diff");
    assert_eq!(exported.count("button :: Copy"), 0);
    exported.screenshot("exported");
    assert_eq!(exported.complaints(), [""; 0]);

    // Paper gets all of it, also what is folded or out of sight.
    page.eval("(() => { window.print = () => { globalThis.printed = true; }; })()");
    page.press("Control+p");
    page.wait_until("globalThis.printed && document.querySelectorAll('#print article').length > 8");
    let printed = page.eval("document.querySelector('#print').textContent");
    for words in ["A quotation, at the end.", "obsolete.txt", "alert(1)"] {
        assert!(printed.as_str().unwrap().contains(words), "{words}");
    }
    page.wait_until("[...document.querySelectorAll('#print details')].every(it => it.open)");
    talk.all_is_well();
}

#[test]
fn a_session_is_exported_without_its_secrets() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    let key = format!("ghp_{}", "a1".repeat(18));
    talk.ask(&format!("keep {key} to yourself"));
    page.wait_for(&format!("article.e-agent :: {key}"));
    page.eval(KEEP_DOWNLOADS);
    for redacts in [true, false] {
        page.click("#menu > summary");
        page.click("#offers [data-action=export]");
        page.wait_for("#export");
        if redacts {
            page.click("#export [name=redact]");
        }
        page.click("#export button");
        page.wait_gone("#dialog");
        page.wait_until(&format!("saved.length === {}", if redacts { 1 } else { 2 }));
    }
    let saved = page.eval("saved");
    let (redacted, whole) = (saved[0].as_str().unwrap(), saved[1].as_str().unwrap());
    assert!(!redacted.contains("a1a1a1") && redacted.contains("to yourself"), "{redacted}");
    assert!(whole.contains(&key), "{whole}");
    talk.all_is_well();
}
