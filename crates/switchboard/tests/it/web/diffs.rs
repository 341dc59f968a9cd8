//! Diffs.

use super::talk::Talk;

#[test]
fn every_operation_has_its_badge_and_its_lines() {
    let talk = Talk::with_demo();
    talk.ask("edit");
    let (page, files) = (&talk.page, "article.e-tool .df");
    page.wait_for("article.e-tool :: 5 files");
    for (badge, path) in [
        (".op-add", "new.txt"),
        (".op-del", "obsolete.txt"),
        (".op-mod", "config.json"),
        (".op-mov", "letters/letter.txt"),
        (".op-cpy", "form.txt"),
    ] {
        page.wait_for(&format!("{files}:has({badge}) :: {path}"));
    }
    page.wait_for(&format!("{files}:has(.op-mov) .path.dim :: switchboard-demo/letter.txt"));
    page.wait_for(&format!("{files} ins :: \"debug\": true"));
    page.wait_for(&format!("{files} del :: \"debug\": false"));
    // What changed within the line.
    assert_eq!(page.texts(&format!("{files}:has(.op-mod) ins mark")), ["true"]);
    assert_eq!(page.texts(&format!("{files}:has(.op-mod) del mark")), ["false"]);
    page.screenshot("diff-unified");
    talk.all_is_well();
}

#[test]
fn lines_stand_one_below_the_other_or_side_by_side() {
    let talk = Talk::with_demo();
    talk.page.resize(1600, 900);
    talk.ask("edit");
    let page = &talk.page;
    let boxes = "['del', 'ins'].map(tag => {
        const box = find('article.e-tool .df:has(.op-mod) ' + tag)[0].getBoundingClientRect();
        return [box.left, box.top];
    })";
    page.wait_for("article.e-tool .df ins");
    let stacked = page.eval(boxes);
    assert_eq!(stacked[0][0], stacked[1][0], "{stacked}");
    assert!(stacked[0][1].as_f64() < stacked[1][1].as_f64(), "{stacked}");
    page.click("article.e-tool label :: side by side");
    page.wait_until(&format!("(boxes => boxes[0][1] === boxes[1][1] && boxes[0][0] < boxes[1][0])({boxes})"));
    page.screenshot("diff-side-by-side");
    talk.all_is_well();
}

#[test]
fn binary_files_and_links_are_named_as_such() {
    let talk = Talk::with_demo();
    talk.ask("binary");
    talk.page.wait_for("article.e-tool .df :: picture.bin");
    talk.page.wait_for("article.e-tool .df :: binary");
    talk.ask("symlink");
    talk.page.wait_for("article.e-tool .df :: symlink");
    talk.page.wait_for("article.e-tool .df ins :: config.json");
    talk.page.wait_for("article.e-tool .df del :: greeting.txt");
    talk.page.screenshot("diff-symlink");
    talk.all_is_well();
}

#[test]
fn locations_show_the_file_and_only_within_the_folder() {
    let talk = Talk::with_demo();
    talk.ask("edit");
    talk.page.click("article.e-tool [data-action=follow] :: new.txt");
    talk.page.wait_for("dialog :: This file is new.");
    talk.page.press("Escape");
    talk.page.wait_gone("dialog");
    talk.all_is_well();
}
