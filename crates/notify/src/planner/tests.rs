#![allow(clippy::unwrap_used)]

use switchboard_hub::PendingQuestionEvent;

use super::*;
use crate::target::{Content, Endpoint, WebhookFormat};

fn webhook() -> Target {
    let endpoint = Endpoint::Webhook {
        url: crate::target::Address::parse("http://127.0.0.1:1/").unwrap(),
        format: WebhookFormat::Standard { key: None },
    };
    Target::new("hook", endpoint)
}

fn planner(target: Target) -> Planner {
    Planner::new(vec![Arc::new(target)], "id".to_owned())
}

fn at(seconds: u64) -> Now {
    Now { monotonic: Duration::from_secs(seconds), wall: 1_000 * i64::try_from(seconds).unwrap() }
}

fn event(session: &str, kind: SessionEventKind) -> SessionEvent {
    SessionEvent::new(session, "claude", "/w/project", kind)
}

fn asked_with(session: &str, id: u64, details: &str) -> SessionEvent {
    let details = details.to_owned();
    let action = "asks to run a command";
    let question = PendingQuestionEvent { id, action, details, is_complete: true, options: Vec::new() };
    event(session, SessionEventKind::Asked(question))
}

fn asked(session: &str, id: u64) -> SessionEvent {
    asked_with(session, id, "$ ls")
}

fn resolved(session: &str, question: u64) -> SessionEvent {
    event(session, SessionEventKind::Resolved { question, by: Some("anna".to_owned()) })
}

fn done(session: &str, seconds: u64) -> SessionEvent {
    let duration = Duration::from_secs(seconds);
    event(session, SessionEventKind::TurnEnded { reason: "end_turn".to_owned(), duration })
}

fn died(session: &str) -> SessionEvent {
    event(session, SessionEventKind::AgentDied { reason: "exited".to_owned() })
}

/// Returns the works that are due, each delivered at once.
fn deliver(planner: &mut Planner, now: Now) -> Vec<Work> {
    let mut works = Vec::new();
    loop {
        let jobs = planner.poll(now);
        if jobs.is_empty() {
            return works;
        }
        for job in jobs {
            works.push(job.work);
            planner.complete(job.index, &Delivery::Sent, now);
        }
    }
}

/// Returns the questions that are due.
fn questions(planner: &mut Planner, now: Now) -> Vec<u64> {
    let question = |work: Work| match work {
        Work::Notice(notice) => notice.question.unwrap(),
        other => panic!("{other:?}"),
    };
    deliver(planner, now).into_iter().map(question).collect()
}

fn outcomes(planner: &Planner) -> Outcomes {
    planner.outcomes().swap_remove(0).1
}

#[test]
fn a_question_is_sent_once_after_its_delay() {
    let mut planner = planner(webhook());
    planner.event(&asked("s", 1), at(0));
    assert_eq!(planner.next_wake(), Some(Duration::from_secs(10)));
    assert_eq!(questions(&mut planner, at(9)), [] as [u64; 0]);
    assert_eq!(questions(&mut planner, at(10)), [1]);
    // The same words again are no update.
    planner.event(&asked("s", 1), at(11));
    assert_eq!(questions(&mut planner, at(1000)), [] as [u64; 0]);
    assert_eq!(outcomes(&planner).sent, 1);
    assert_eq!(planner.next_wake(), None);
}

#[test]
fn an_answer_before_the_delay_sends_nothing_and_one_after_it_withdraws() {
    let mut planner = planner(webhook());
    planner.event(&asked("s", 1), at(0));
    planner.event(&resolved("s", 1), at(9));
    assert_eq!(deliver(&mut planner, at(100)), []);
    planner.event(&asked("s", 2), at(100));
    assert_eq!(questions(&mut planner, at(110)), [2]);
    planner.event(&resolved("s", 2), at(111));
    let works = deliver(&mut planner, at(111));
    assert!(
        matches!(&works[..], [Work::Withdraw { notice, by: Some(by) }] if notice.question == Some(2) && by == "anna"),
        "{works:?}"
    );
    // An unknown question, and one that is resolved twice.
    planner.event(&resolved("s", 2), at(112));
    planner.event(&resolved("x", 9), at(112));
    assert_eq!(deliver(&mut planner, at(112)), []);
    assert_eq!(outcomes(&planner), Outcomes { sent: 1, last_success: Some(111_000), ..Outcomes::default() });
}

#[test]
fn a_changed_question_updates_its_notification_at_most_every_ten_seconds() {
    let full = Target { content: Content::Full, after: Duration::ZERO, ..webhook() };
    let mut full = planner(full);
    full.event(&asked_with("s", 1, "$ ls"), at(0));
    assert_eq!(questions(&mut full, at(0)), [1]);
    for second in 1..5 {
        full.event(&asked_with("s", 1, &format!("$ ls {second}")), at(second));
        assert_eq!(deliver(&mut full, at(second)), []);
    }
    let works = deliver(&mut full, at(10));
    assert!(matches!(&works[..], [Work::Notice(notice)] if notice.details == "$ ls 4"), "{works:?}");
    // Without details the words have not changed.
    let mut minimal = planner(Target { after: Duration::ZERO, ..webhook() });
    minimal.event(&asked_with("s", 1, "$ ls"), at(0));
    assert_eq!(questions(&mut minimal, at(0)), [1]);
    minimal.event(&asked_with("s", 1, "$ rm"), at(1));
    assert_eq!(deliver(&mut minimal, at(100)), []);
}

#[test]
fn a_question_that_changes_before_it_is_sent_is_sent_as_it_is_then() {
    let mut planner = planner(Target { content: Content::Full, ..webhook() });
    planner.event(&asked_with("s", 1, "$ ls"), at(0));
    planner.event(&asked_with("s", 1, "$ rm"), at(9));
    let works = deliver(&mut planner, at(10));
    assert!(matches!(&works[..], [Work::Notice(notice)] if notice.details == "$ rm"), "{works:?}");
}

#[test]
fn a_question_is_held_while_somebody_looks_and_sent_when_they_leave() {
    let mut planner = planner(webhook());
    planner.event(&asked("s", 1), at(0));
    planner.look(7, Some("s"), at(9));
    assert_eq!(questions(&mut planner, at(10)), [] as [u64; 0]);
    planner.look(7, Some("other"), at(15));
    assert_eq!(questions(&mut planner, at(15)), [1]);
}

#[test]
fn a_page_without_a_sign_of_life_does_not_count() {
    let mut planner = planner(webhook());
    planner.look(7, Some("s"), at(0));
    planner.event(&asked("s", 1), at(5));
    assert_eq!(questions(&mut planner, at(15)), [] as [u64; 0]);
    assert_eq!(planner.next_wake(), Some(Duration::from_secs(30)));
    assert_eq!(questions(&mut planner, at(30)), [1]);
    // Another session's page does not count either.
    planner.look(7, Some("other"), at(100));
    planner.event(&asked("s", 2), at(100));
    assert_eq!(questions(&mut planner, at(110)), [2]);
}

#[test]
fn a_question_is_held_for_two_minutes_at_most() {
    let mut planner = planner(webhook());
    planner.event(&asked("s", 1), at(0));
    for second in (0..120).step_by(10) {
        planner.look(7, Some("s"), at(second));
        assert_eq!(questions(&mut planner, at(second)), [] as [u64; 0], "{second}");
    }
    planner.look(7, Some("s"), at(120));
    assert_eq!(questions(&mut planner, at(120)), [1]);
}

#[test]
fn an_answer_while_somebody_looks_and_the_end_of_a_turn_count_as_suppressed() {
    let mut planner = planner(webhook());
    planner.look(7, Some("s"), at(0));
    planner.event(&asked("s", 1), at(0));
    assert_eq!(deliver(&mut planner, at(10)), []);
    planner.event(&resolved("s", 1), at(11));
    planner.event(&died("s"), at(12));
    assert_eq!(deliver(&mut planner, at(12)), []);
    assert_eq!((outcomes(&planner).suppressed, outcomes(&planner).sent), (2, 0));
    planner.event(&died("other"), at(12));
    assert_eq!(deliver(&mut planner, at(12)).len(), 1);
}

#[test]
fn short_turns_and_events_that_a_target_does_not_want_are_not_sent() {
    let mut planner = planner(Target { events: vec![EventKind::Done], ..webhook() });
    planner.event(&done("s", 59), at(0));
    planner.event(&died("s"), at(0));
    planner.event(&asked("s", 1), at(0));
    assert_eq!(deliver(&mut planner, at(100)), []);
    planner.event(&done("s", 60), at(100));
    assert_eq!(deliver(&mut planner, at(100)).len(), 1);
    assert_eq!(outcomes(&planner).suppressed, 0);
}

#[test]
fn a_burst_becomes_one_digest_which_is_withdrawn_with_its_last_question() {
    let mut planner = planner(webhook());
    for id in 0..7 {
        planner.event(&asked(["a", "b", "c"][id % 3], id as u64), at(id as u64 / 4));
    }
    let works = deliver(&mut planner, at(10));
    let [Work::Digest(digest)] = &works[..] else { panic!("{works:?}") };
    assert_eq!(digest.text(), "7 questions wait in 3 sessions");
    for id in 0..7 {
        assert_eq!(deliver(&mut planner, at(20)), []);
        planner.event(&resolved(["a", "b", "c"][id % 3], id as u64), at(20));
    }
    assert_eq!(deliver(&mut planner, at(20)), [Work::WithdrawDigest]);
}

#[test]
fn thousands_of_questions_in_a_minute_are_a_handful_of_notifications() {
    let mut planner = planner(webhook());
    let mut works = Vec::new();
    for second in 0..60 {
        for number in 0..100 {
            planner.event(&asked(&format!("s{number}"), second), at(second));
        }
        works.extend(deliver(&mut planner, at(second)));
    }
    for second in 60..200 {
        works.extend(deliver(&mut planner, at(second)));
    }
    assert!(works.len() <= 4, "{works:?}");
    let Some(Work::Digest(last)) = works.last() else { panic!("{works:?}") };
    assert_eq!(last.text(), "6000 questions wait in 100 sessions");
}

#[test]
fn five_single_notifications_are_followed_by_digests_a_minute_apart() {
    let mut planner = planner(Target { after: Duration::ZERO, ..webhook() });
    for id in 0..5 {
        planner.event(&asked("s", id), at(id * 3));
        assert_eq!(questions(&mut planner, at(id * 3)), [id]);
    }
    for (id, second) in [(5, 15), (6, 18)] {
        planner.event(&asked("s", id), at(second));
    }
    let works = deliver(&mut planner, at(18));
    let [Work::Digest(digest)] = &works[..] else { panic!("{works:?}") };
    assert_eq!(digest.text(), "7 questions wait in 1 session");
    planner.event(&asked("s", 8), at(19));
    for second in [19, 77] {
        assert_eq!(deliver(&mut planner, at(second)), []);
    }
    assert_eq!(deliver(&mut planner, at(78)).len(), 1);
    // After a quiet minute notifications are single again.
    planner.event(&asked("s", 9), at(200));
    assert_eq!(questions(&mut planner, at(200)), [9]);
}

fn retry(after: Option<u64>) -> Delivery {
    Delivery::Retry { reason: "503".to_owned(), after: after.map(Duration::from_secs) }
}

#[test]
fn failures_are_retried_with_growing_delays_and_then_given_up() {
    let mut planner = planner(webhook());
    planner.event(&died("s"), at(0));
    let mut ids = Vec::new();
    for second in [0, 2, 12, 72, 372] {
        assert!(second == 0 || planner.poll(at(second - 1)).is_empty(), "{second}");
        let [job] = &planner.poll(at(second))[..] else { panic!("{second}") };
        ids.push(job.id.clone());
        planner.complete(0, &retry(None), at(second));
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "a receiver recognizes a retry by the id");
    assert!(planner.poll(at(100_000)).is_empty() && planner.is_idle());
    let outcomes = outcomes(&planner);
    assert_eq!((outcomes.failed, outcomes.sent), (1, 0));
    assert_eq!(outcomes.last_failure, Some(("503".to_owned(), 372_000)));
}

#[test]
fn a_requested_delay_holds_for_the_whole_target_but_not_for_ever() {
    let mut planner = planner(webhook());
    planner.event(&died("s"), at(0));
    planner.event(&died("t"), at(0));
    assert_eq!(planner.poll(at(0)).len(), 1);
    planner.complete(0, &retry(Some(30)), at(0));
    assert!(planner.poll(at(29)).is_empty());
    assert_eq!(planner.next_wake(), Some(Duration::from_secs(30)));
    assert_eq!(planner.poll(at(30)).len(), 1);
    planner.complete(0, &retry(Some(u64::MAX / 1000)), at(30));
    assert_eq!(planner.poll(at(30 + 3600)).len(), 1);
}

#[test]
fn a_refusal_is_given_up_at_once() {
    let mut planner = planner(webhook());
    planner.event(&asked("s", 1), at(0));
    assert_eq!(planner.poll(at(10)).len(), 1);
    planner.complete(0, &Delivery::Failed("403".to_owned()), at(10));
    assert!(planner.is_idle());
    planner.event(&resolved("s", 1), at(11));
    assert_eq!(deliver(&mut planner, at(11)), [], "nothing was sent that could be withdrawn");
    assert_eq!(outcomes(&planner).failed, 1);
}

#[test]
fn a_question_that_is_answered_between_attempts_is_not_sent_any_more() {
    let mut planner = planner(webhook());
    planner.event(&asked("s", 1), at(0));
    assert_eq!(planner.poll(at(10)).len(), 1);
    planner.complete(0, &retry(None), at(10));
    planner.event(&resolved("s", 1), at(11));
    assert_eq!(deliver(&mut planner, at(1000)), []);
    // Answered while it is in flight: it may arrive, so it is withdrawn.
    planner.event(&asked("s", 2), at(1000));
    assert_eq!(planner.poll(at(1010)).len(), 1);
    planner.event(&resolved("s", 2), at(1011));
    assert!(planner.poll(at(1011)).is_empty(), "one at a time");
    planner.complete(0, &retry(None), at(1012));
    let works = deliver(&mut planner, at(2000));
    assert!(matches!(&works[..], [Work::Withdraw { .. }]), "{works:?}");
}

#[test]
fn a_full_queue_drops_the_oldest_end_of_a_turn_and_never_a_question() {
    let mut planner = planner(Target { after: Duration::ZERO, ..webhook() });
    // A target that does not respond.
    planner.event(&died("first"), at(0));
    assert_eq!(planner.poll(at(0)).len(), 1);
    for minute in 1..=60 {
        for number in 0..4 {
            planner.event(&done(&format!("d{minute}-{number}"), 100), at(minute * 60));
        }
        planner.event(&asked("q", minute), at(minute * 60));
        assert!(planner.poll(at(minute * 60)).is_empty());
    }
    let queue = &planner.targets[0].queue;
    assert!(queue.len() <= MAX_QUEUE, "{}", queue.len());
    let questions = queue.iter().filter(|item| item.question().is_some()).count();
    assert_eq!(questions, 60);
    assert_eq!(outcomes(&planner).dropped, 60 * 5 - 100);
}

#[test]
fn a_dead_target_does_not_delay_another_one() {
    let targets = vec![Arc::new(webhook()), Arc::new(Target { name: "two".to_owned(), ..webhook() })];
    let mut planner = Planner::new(targets, "id".to_owned());
    for number in 0..3 {
        planner.event(&died(&format!("s{number}")), at(number));
        let jobs = planner.poll(at(number));
        assert!(jobs.iter().any(|job| job.index == 1), "{number}");
        planner.complete(1, &Delivery::Sent, at(number));
    }
    let outcomes = planner.outcomes();
    assert_eq!((outcomes[0].1.sent, outcomes[1].1.sent), (0, 3));
}

#[test]
fn a_restart_withdraws_what_was_sent_and_sends_what_was_not() {
    let mut before = planner(webhook());
    before.event(&asked("sent", 1), at(0));
    assert_eq!(questions(&mut before, at(10)), [1]);
    before.event(&asked("waits", 2), at(10));
    before.event(&died("unsent"), at(11));
    assert!(before.take_changed());
    let state = before.state();
    let mut after = planner(webhook());
    after.restore(&state, at(20));
    let works = deliver(&mut after, at(20));
    assert_eq!(works.len(), 2, "{works:?}");
    assert!(matches!(&works[0], Work::Withdraw { notice, .. } if notice.session == "sent"));
    assert!(matches!(&works[1], Work::Notice(notice) if notice.session == "unsent"));
    // After hours it is stale.
    let mut late = planner(webhook());
    late.restore(&state, at(20 + 3600));
    assert_eq!(deliver(&mut late, at(20 + 3600)).len(), 1);
    // A clock that was set back does not matter, nor does a damaged state.
    let mut early = planner(webhook());
    early.restore(&state, at(0));
    assert_eq!(deliver(&mut early, at(0)).len(), 2);
    for damaged in
        [json!(null), json!({"hook": 7}), json!({"hook": {"open": [1], "queued": [{"notice": {}}]}})]
    {
        let mut planner = planner(webhook());
        planner.restore(&damaged, at(0));
        assert!(planner.is_idle());
    }
}

#[test]
fn a_restart_during_a_delivery_counts_it_as_sent() {
    let mut before = planner(webhook());
    before.event(&asked("s", 1), at(0));
    assert_eq!(before.poll(at(10)).len(), 1);
    let mut after = planner(webhook());
    after.restore(&before.state(), at(20));
    assert!(matches!(&deliver(&mut after, at(20))[..], [Work::Withdraw { .. }]));
}

#[test]
fn targets_that_cannot_withdraw_are_not_asked_to() {
    let desktop = Target::new("desktop", Endpoint::Desktop);
    let mut planner = planner(Target { after: Duration::ZERO, ..desktop });
    planner.event(&asked("s", 1), at(0));
    assert_eq!(planner.poll(at(0)).len(), 1);
    planner.complete(0, &Delivery::Unavailable("no bus".to_owned()), at(0));
    planner.event(&resolved("s", 1), at(1));
    assert_eq!(deliver(&mut planner, at(1)), []);
    assert_eq!((outcomes(&planner).suppressed, outcomes(&planner).sent), (1, 0));
}

#[test]
fn results_of_prompts_are_delivered_to_their_webhook_and_restored_with_a_short_text() {
    let mut planner = planner(webhook());
    let result = Arc::new(json!({"id": "nightly", "text": "x".repeat(10_000)}));
    assert!(planner.takes_results_at("hook") && !planner.takes_results_at("other"));
    assert!(!planner.send_result("other", Arc::clone(&result), at(0)));
    assert!(planner.send_result("hook", Arc::clone(&result), at(0)));
    assert_eq!(planner.poll(at(0)).len(), 1);
    planner.complete(0, &retry(None), at(0));
    let state = planner.state();
    assert_eq!(deliver(&mut planner, at(2)), [Work::Result(Arc::clone(&result))]);
    let mut after = self::planner(webhook());
    after.restore(&state, at(10));
    let works = deliver(&mut after, at(10));
    let [Work::Result(restored)] = &works[..] else { panic!("{works:?}") };
    assert_eq!((restored["id"].as_str(), &restored["text_cut"]), (Some("nightly"), &json!(true)));
    assert_eq!(restored["text"].as_str().map(str::len), Some(MAX_KEPT_TEXT));
    // A target that does not respond does not make the queue grow.
    for _ in 0..3 * MAX_QUEUE {
        assert!(planner.send_result("hook", Arc::clone(&result), at(20)));
    }
    assert!(planner.targets[0].queue.len() <= MAX_QUEUE);
}

#[test]
fn only_webhooks_in_the_standard_format_take_results() {
    let mut planner = planner(Target::new("desktop", Endpoint::Desktop));
    assert!(!planner.send_result("desktop", Arc::new(json!({})), at(0)));
}

#[test]
fn targets_come_and_go_without_effect_on_others() {
    let mut planner = planner(webhook());
    let second = Target { name: "two".to_owned(), after: Duration::ZERO, ..webhook() };
    planner.add_target(Arc::new(second.clone()));
    planner.event(&died("s"), at(0));
    let jobs = planner.poll(at(0));
    assert_eq!(jobs.iter().map(|job| &*job.target.name).collect::<Vec<_>>(), ["hook", "two"]);
    planner.complete(jobs[1].index, &Delivery::Gone("410".to_owned()), at(0));
    planner.complete(jobs[0].index, &Delivery::Sent, at(0));
    assert_eq!(planner.outcomes().iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["hook"]);
    // A delivery that ends after its target was replaced counts for no other.
    planner.add_target(Arc::new(second));
    planner.complete(jobs[1].index, &Delivery::Sent, at(1));
    assert_eq!(planner.outcomes()[1].1.sent, 0);
    planner.remove_target("hook");
    planner.event(&died("s"), at(2));
    assert_eq!(planner.poll(at(2)).len(), 1);
}

#[test]
fn a_target_of_a_token_gets_only_the_sessions_that_the_token_sees() {
    use crate::target::Viewer;
    let viewer = |sees_all| Some(Viewer { name: "anna".to_owned(), made: 7, sees_all });
    let shared = |name: &str, made| {
        let mut event = died("s");
        event.shared_with = vec![(Arc::from(name), made)];
        event
    };
    let mut limited = planner(Target { viewer: viewer(false), ..webhook() });
    for event in [died("s"), shared("ben", 7), shared("anna", 8)] {
        limited.event(&event, at(0));
        assert!(limited.poll(at(0)).is_empty(), "{event:?}");
    }
    limited.event(&shared("anna", 7), at(0));
    assert_eq!(limited.poll(at(0)).len(), 1);
    let mut all = planner(Target { viewer: viewer(true), ..webhook() });
    all.event(&died("s"), at(0));
    assert_eq!(all.poll(at(0)).len(), 1);
}
