//! The two pictures of the README; `cargo xtask screenshots` puts them into place.

use switchboard_browser::ColorScheme;

use super::talk::Talk;

#[test]
fn the_pictures_of_the_readme_are_taken() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    page.prefer(ColorScheme::Light, true);
    page.resize(1280, 860);
    talk.ask("thoughts");
    talk.ask("terminal");
    talk.say("permission");
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length > 0");
    page.screenshot("readme/talk");
    page.click("[data-question] button :: allow once");
    page.wait_for("article.e-agent :: Debugging is on.");
    page.resize(1600, 900);
    page.click("#show-inspector");
    page.click("article.e-tool .title :: Edit config.json");
    page.click("#wire-rows .row-in :: tool_call_update");
    page.wait_for("#detail pre");
    page.screenshot("readme/inspector");
    talk.all_is_well();
}
