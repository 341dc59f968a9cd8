//! `switchboard open` in a real Chromium: what a person sees and clicks, and what an attacker tries. Screenshots are
//! left in `target/screenshots/`.

mod askers;
mod attachments;
mod attacks;
mod axe;
mod conformance;
mod design;
mod diffs;
mod doors;
mod folding;
mod hostile;
mod hub_page;
mod inspector;
mod leaving;
mod login;
mod looks;
mod many_sessions;
mod messages;
mod offers;
pub(crate) mod opened;
mod permissions;
mod phone;
mod presence;
mod reading;
mod readme;
mod review;
mod rules;
mod scripted_agent;
mod sessions;
mod subagents;
mod subagents_odd;
mod talk;
mod trust;
mod work;
mod writing;

#[test]
fn every_file_of_the_web_tests_is_a_module() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/web");
    let main = std::fs::read_to_string(format!("{folder}.rs")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(main.contains(&format!("mod {module};")), "{name} is not declared in web.rs");
    }
}
