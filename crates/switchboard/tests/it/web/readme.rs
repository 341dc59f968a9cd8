//! The two pictures of the README; `cargo xtask screenshots` puts them into place.

use switchboard_browser::ColorScheme;

use super::talk::{Talk, done};

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
    page.screenshot("readme/talk");
    page.click("[data-question] button :: allow once");
    page.wait_for("article.e-tool .screen");
    done(page);
    page.resize(1600, 960);
    page.click("#show-inspector");
    page.click("#wire-rows .row-in :: session/request_perm");
    page.wait_for("#detail pre");
    page.screenshot("readme/inspector");
    talk.all_is_well();
}
