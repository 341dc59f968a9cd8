//! The core depends on nothing but its events: no clock, no random numbers, no order of a hash table.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::json;
use switchboard_store::Role;

use super::world::world;
use super::{Action, Notes, action};

/// Number of action sequences.
const CASES: usize = 100;

/// Returns all outputs of the core, in order.
fn outputs_of(actions: &[Action], send_window: usize) -> Vec<String> {
    let mut world = world(send_window);
    world.outputs = Some(Vec::new());
    let mut notes = Notes::default();
    let first = world.connect(Role::Admin);
    world.request(first, "session/new", json!({"cwd": "/w/p"}));
    for action in actions {
        world.act(*action, &mut notes);
    }
    world.settle();
    world.outputs.unwrap()
}

#[test]
fn the_same_events_give_the_same_outputs_in_the_same_order() {
    let mut runner = TestRunner::deterministic();
    let actions = proptest::collection::vec(action(), 1..120);
    for case in 0..CASES {
        let actions = actions.new_tree(&mut runner).unwrap().current();
        let send_window = [1, 600, 100_000][case % 3];
        let outputs = outputs_of(&actions, send_window);
        let again = outputs_of(&actions, send_window);
        let first = outputs.iter().zip(&again).find(|(one, other)| one != other);
        assert_eq!(first, None, "{actions:?}");
        assert_eq!(outputs.len(), again.len(), "{actions:?}");
    }
}
