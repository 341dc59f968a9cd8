//! The pictures of the README and of the guide; `cargo xtask screenshots` puts them into place.

use switchboard_browser::ColorScheme;

use super::talk::{Talk, done};

/// Takes a picture in which the project has a name instead of the path of a temporary folder.
fn picture(talk: &Talk, name: &str) {
    let (folder, project) = (talk.place.work().display().to_string(), "~/projects/hello");
    talk.page.eval(&format!(
        "(() => {{
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll('{folder}', '{project}');
        }})()"
    ));
    let temporary = std::env::temp_dir().display().to_string();
    let left = talk
        .page
        .eval(&format!("document.body.innerText.split('\\n').filter(line => line.includes('{temporary}'))"));
    assert_eq!(left, serde_json::json!([]));
    talk.page.screenshot(name);
}

#[test]
fn the_pictures_of_the_readme_are_taken() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    page.prefer(ColorScheme::Light, true);
    page.resize(1280, 960);
    talk.ask("thoughts");
    talk.say("permission");
    page.click("[data-question] button :: allow once");
    page.wait_for("article.e-agent :: Debugging is on.");
    done(page);
    talk.say("command");
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length > 0");
    picture(&talk, "readme/talk");
    page.click("[data-question] button :: allow once");
    page.wait_for("article.e-tool .screen");
    done(page);
    page.resize(1600, 960);
    page.click("#show-inspector");
    page.click("#wire-rows .row-in :: session/request_perm");
    page.wait_for("#detail pre");
    page.wait_for("#wire-rows [aria-selected=true]");
    picture(&talk, "readme/inspector");
    talk.all_is_well();
}

#[test]
fn the_picture_of_sub_agents_is_taken() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    page.prefer(ColorScheme::Light, true);
    page.resize(1280, 960);
    talk.say("subagents");
    page.wait_until("find('[data-question]').length === 2");
    for left in [1, 0] {
        page.click("[data-question]:first-of-type button :: allow once");
        page.wait_until(&format!("find('[data-question]').length === {left}"));
    }
    page.wait_for("article.e-agent :: Both are done.");
    done(page);
    page.click(".nest-fold :: Explorer");
    page.wait_for(".nest-body article.e-tool :: Search for tests");
    page.eval("document.activeElement.blur(), document.querySelector('#scroller').scrollTop = 0");
    picture(&talk, "readme/subagents");
    talk.all_is_well();
}
