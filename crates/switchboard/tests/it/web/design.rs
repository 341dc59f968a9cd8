//! The components of the page at `/design` of a debug build: they keep to the sizes, weights, radii and colours of
//! `docs/design-system.md` in light and dark, on a phone, a laptop and a large screen.

use serde_json::json;
use switchboard_browser::{Browser, ColorScheme};

use super::looks::LEAST_CONTRAST;
use super::opened::Opened;
use crate::agent_program::Place;

/// Values of a property that elements with text of their own have, besides the allowed ones.
fn others(property: &str, allowed: &str) -> String {
    format!(
        "(() => {{
            const allowed = {allowed};
            const elements = [...document.querySelectorAll('body, main *')].filter(element => element.checkVisibility()
                && [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim() !== ''));
            const value = element => getComputedStyle(element)['{property}'];
            return [...new Set(elements.filter(it => !allowed.includes(value(it))).map(it => value(it) + ': ' + it.cloneNode().outerHTML))];
        }})()"
    )
}

#[test]
fn components_keep_to_the_design_system() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let visitor = Browser::shared().visitor();
    let page = visitor.open(&format!("http://{}/design", opened.host()));
    page.wait_for("h1 :: Design");
    for component in [
        ".e-user",
        ".e-agent",
        ".e-thought",
        ".e-tool .call-line",
        ".df ins .hk",
        ".run",
        ".term",
        ".question .opt",
        ".plan",
        ".notice",
    ] {
        page.wait_for(component);
    }
    let sizes = "['xs', 's', 'm', 'l'].map(name => { \
        const probe = document.body.appendChild(document.createElement('i')); \
        probe.style.fontSize = `var(--text-${name})`; \
        const size = getComputedStyle(probe).fontSize; probe.remove(); return size; })";
    for (scheme, name) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        page.prefer(scheme, true);
        for (width, height) in [(360, 740), (1280, 800), (1920, 1080)] {
            let state = format!("{name} at {width}");
            page.resize(width, height);
            assert_eq!(page.eval(&others("fontSize", sizes)), json!([]), "sizes, {state}");
            assert_eq!(page.eval(&others("fontWeight", "['400', '600']")), json!([]), "weights, {state}");
            let radii = "[...new Set([...document.querySelectorAll('main *')].map(it => getComputedStyle(it).borderRadius))]";
            let radii =
                page.eval(&format!("{radii}.filter(it => !['0px', '6px', '12px', '50%'].includes(it))"));
            assert_eq!(radii, json!([]), "radii, {state}");
            let borders = "[...document.querySelectorAll('main *')].filter(it => it.checkVisibility() && !it.matches('input') \
                && getComputedStyle(it).borderTopStyle === 'solid' && parseFloat(getComputedStyle(it).borderTopWidth) > 0)";
            assert_eq!(
                page.eval(&format!("{borders}.map(it => it.cloneNode().outerHTML)")),
                json!([]),
                "borders, {state}"
            );
            assert_eq!(page.eval(LEAST_CONTRAST), json!([]), "contrast, {state}");
            assert_eq!(
                page.eval("document.documentElement.scrollWidth <= innerWidth"),
                true,
                "{state} is too wide"
            );
            page.screenshot(&format!("design-{name}-{width}"));
        }
    }
    // Text grows with the setting of the browser, because all sizes are relative to it.
    page.eval("document.documentElement.style.fontSize = '32px'");
    assert_eq!(page.eval("getComputedStyle(document.body).fontSize"), "30px");
    assert_eq!(page.complaints(), [""; 0]);
}
