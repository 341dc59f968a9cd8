//! Small and large, light and dark, by keyboard and by ear.

use switchboard_browser::{ColorScheme, Named, Page};

use super::talk::{Talk, done};

/// Fails where something is wider than the page, or is cut off at its edge.
pub(crate) fn nothing_is_clipped(page: &Page, width: u32) {
    let wide = page.eval(
        "[...document.querySelectorAll('body *')].filter(element => {
            if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false;
            // It comes into sight with the focus.
            if (element.matches('.skip')) return false;
            const box = element.getBoundingClientRect();
            if (box.width < 2 || box.height < 2) return false;
            // What scrolls by itself may be wider inside.
            for (let parent = element.parentElement; parent; parent = parent.parentElement) {
                if (['auto', 'scroll'].includes(getComputedStyle(parent).overflowX) && parent.scrollWidth > parent.clientWidth
                    && parent !== document.body && parent.id !== 'scroller') return false;
            }
            return box.right > innerWidth + 1 || box.left < -1;
        }).map(element => element.cloneNode().outerHTML.slice(0, 200))",
    );
    assert_eq!(wide, serde_json::json!([]), "at {width}");
    let scrolls = page.eval("[document.documentElement.scrollWidth <= innerWidth, document.querySelector('#scroller').scrollWidth <= document.querySelector('#scroller').clientWidth]");
    assert_eq!(scrolls, serde_json::json!([true, true]), "at {width}");
}

#[test]
fn nothing_is_cut_off_from_a_phone_to_a_wall() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    for prompt in ["markdown", "edit", "terminal", "unknown", "notice", "plan"] {
        talk.ask(prompt);
    }
    talk.say("permission");
    page.wait_for("[data-question] ins");
    for (width, height) in [(360, 740), (768, 1024), (1280, 800), (2560, 1440)] {
        page.resize(width, height);
        nothing_is_clipped(page, width);
        page.screenshot(&format!("width-{width}"));
        page.press("Alt+i");
        page.wait_for("#inspector");
        page.wait_until("document.querySelector('#wire-rows').children.length > 0");
        nothing_is_clipped(page, width);
        page.screenshot(&format!("width-{width}-inspector"));
        page.press("Alt+i");
        page.wait_gone("#inspector");
        page.press("Alt+s");
        page.wait_for("#session-list h3");
        nothing_is_clipped(page, width);
        page.screenshot(&format!("width-{width}-sessions"));
        if width < 900 {
            page.press("Escape");
            page.wait_gone("#sessions");
        }
    }
    talk.all_is_well();
}

#[test]
fn an_empty_session_says_what_to_do_until_something_is_said() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    for (width, height) in [(360, 740), (1280, 800)] {
        page.resize(width, height);
        page.wait_for("#hint :: Tell the agent below what to do");
        nothing_is_clipped(page, width);
        // All of the placeholder can be read.
        page.wait_for("#prompt :: Tell the agent what to do");
        page.wait_until(
            "(prompt => prompt.scrollHeight <= prompt.clientHeight)(document.querySelector('#prompt'))",
        );
        page.screenshot(&format!("empty-{width}"));
    }
    talk.ask("hello");
    page.wait_gone("#hint");
    page.click("[data-action=new]");
    page.wait_for("#hint");
    talk.all_is_well();
}

/// Contrast between two colours, as the Web Content Accessibility Guidelines define it; and the least that any text
/// of the page has.
pub(crate) const LEAST_CONTRAST: &str = "(() => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const parse = color => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
    const over = (top, under) => [0, 1, 2].map(i => (top[i] * top[3] + under[i] * (255 - top[3])) / 255).concat(255);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => {
        const layers = [];
        for (let it = element; it; it = it.parentElement) layers.push(parse(getComputedStyle(it).backgroundColor));
        return layers.reverse().reduce((under, top) => over(top, under), parse('Canvas'));
    };
    const texts = [...document.querySelectorAll('body *')].filter(element =>
        element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !element.closest(':disabled, [inert]')
        && [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim() !== ''));
    return texts.map(element => {
        const under = behind(element);
        const [a, b] = [light(over(parse(getComputedStyle(element).color), under)), light(under)].sort((a, b) => b - a);
        return [(a + 0.05) / (b + 0.05), element.className + ' ' + element.tagName + ': ' + element.textContent.slice(0, 40)];
    }).filter(([contrast]) => contrast < 4.5).slice(0, 20);
})()";

#[test]
fn text_can_be_read_in_light_and_dark() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    for prompt in ["markdown", "edit", "terminal", "notice"] {
        talk.ask(prompt);
    }
    talk.say("permission");
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length > 0");
    let background = "getComputedStyle(document.body).backgroundColor";
    let mut backgrounds = Vec::new();
    for (scheme, name) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        page.prefer(scheme, true);
        backgrounds.push(page.eval(background));
        page.wait_until("document.getAnimations().every(animation => animation.playState !== 'running')");
        page.screenshot(name);
        let poor = page.eval(LEAST_CONTRAST);
        assert_eq!(poor, serde_json::json!([]), "{name}");
    }
    assert_ne!(backgrounds[0], backgrounds[1]);
    talk.all_is_well();
}

#[test]
fn everything_works_without_a_mouse() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    // One can begin at once.
    page.wait_until("document.activeElement.id === 'prompt'");
    // From elsewhere, the first stop leads there.
    page.eval("document.querySelector('a[href]').focus()");
    page.wait_until("document.activeElement.textContent === 'Skip to the prompt'");
    page.press("Enter");
    page.wait_until("document.activeElement.id === 'prompt'");
    page.type_text("ask");
    page.press("Enter");
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length === 3");
    page.press("Alt+1");
    page.wait_for("article.e-agent :: Then I go on.");
    done(page);
    // From entry to entry.
    page.eval("document.querySelector('#scroller').focus()");
    page.press("k");
    page.wait_until("document.activeElement.matches('article')");
    // Every control can be reached, and shows that it was.
    page.press("Alt+i");
    page.wait_for("#inspector");
    page.press("Alt+n");
    page.wait_until("find('article').length === 0");
    let controls = "find('button, input, select, textarea, summary, a[href]').filter(it => !it.disabled && it.tabIndex >= 0 && it.type !== 'file').length";
    let mut reached = std::collections::HashSet::new();
    let count = page.eval(controls).as_u64().unwrap();
    page.eval("document.activeElement.blur()");
    for _ in 0..count + 10 {
        page.press("Tab");
        let here = page.eval(
            "(it => it === document.body ? 'body' : [it.tagName, it.id, it.className, it.textContent.slice(0, 30), it.title].join(' '))(document.activeElement)",
        );
        let outline = page.eval(
            "(style => style.outlineStyle !== 'none' || style.boxShadow !== 'none')(getComputedStyle(document.activeElement))",
        );
        assert!(outline == true || here == "body", "{here} does not show that it has the focus");
        reached.insert(here.to_string());
    }
    assert!(reached.len() as u64 >= count, "{count} controls, reached {reached:#?}");
    talk.all_is_well();
}

#[test]
fn a_screen_reader_has_names_and_roles_for_everything() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    for prompt in ["thoughts", "tool", "edit"] {
        talk.ask(prompt);
    }
    page.press("Alt+i");
    page.press("Alt+s");
    page.wait_for("#session-list h3");
    talk.say("permission");
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length > 0");
    let named = page.accessibility();
    for (role, name) in [
        ("feed", "Entries"),
        ("textbox", "Prompt"),
        ("button", "Stop"),
        ("navigation", "Sessions"),
        ("complementary", "Inspector"),
        ("combobox", "Direction"),
        ("article", "Message of the user"),
        ("article", "Thought of the agent"),
        ("article", "Tool call: Edit five files"),
        ("group", "Changes to files"),
        ("combobox", "Mood"),
        ("checkbox", "Verbose"),
    ] {
        let wanted = Named { role: role.into(), name: name.into() };
        assert!(named.contains(&wanted), "{wanted:?} is not among {named:#?}");
    }
    let asks = |it: &&Named| it.role == "group" && it.name.contains("config.json");
    assert_eq!(named.iter().filter(asks).count(), 1, "{named:#?}");
    let roles =
        ["button", "textbox", "combobox", "checkbox", "slider", "link", "searchbox", "article", "spinbutton"];
    let nameless: Vec<_> =
        named.iter().filter(|it| roles.contains(&&*it.role) && it.name.trim().is_empty()).collect();
    assert_eq!(nameless, Vec::<&Named>::new());
    // What happens is said.
    let live = page
        .eval("[...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].map(it => it.id)");
    assert!(live.as_array().unwrap().contains(&"announcer".into()), "{live}");
    page.wait_until("document.querySelector('#announcer').textContent.includes('config.json')");
    page.click("[data-question] button :: allow once");
    done(page);
    page.wait_until("document.querySelector('#announcer').textContent === 'The agent is done.'");
    talk.all_is_well();
}
