//! `open` as a client: each scenario of `conform client`, with somebody before the page.

use switchboard_conform::Verdict;
use switchboard_conform::live::{CLIENT_SCENARIOS, ClientChecker, ClientEnd};

use super::talk::Talk;
use crate::agent_program::Place;

/// Those that take seconds, and show nothing of the page that the others do not.
const LONG: &[&str] = &["large", "slow"];

#[test]
fn open_is_a_client_that_survives_everything_and_shows_it() {
    let mut judge = ClientChecker::new();
    for scenario in CLIENT_SCENARIOS.iter().filter(|scenario| !LONG.contains(&scenario.id)) {
        let place = Place::new();
        // An answer is an answer, and nobody has to click.
        place.write("work/no.toml", "default = \"deny\"\n");
        let [rules, log] = ["no.toml", "log.jsonl"].map(|name| place.work().join(name).display().to_string());
        let agent = [env!("CARGO_BIN_EXE_switchboard"), "conform", "peer", scenario.id, &log, "60"];
        let talk = Talk::with(place, &[&["--permissions", &rules, "--"], &agent[..]].concat());
        talk.ask("hi");
        talk.page.wait_for("article.e-agent :: conform-kept-two");
        let shown = talk.page.texts("#transcript > article").join("\n");
        let log = std::fs::read_to_string(&log).unwrap();
        judge.scenario(scenario, &log, ClientEnd::Regular, Some(&shown));
        talk.all_is_well();
    }
    let (report, _) = judge.report("open");
    let failed: Vec<_> = report.failed().map(|judged| (judged.rule.rule().id, &judged.reason)).collect();
    assert_eq!((report.verdict, failed), (Verdict::Conformant, Vec::new()));
}
