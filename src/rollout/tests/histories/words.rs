//! A person's word: others follow canaries when a person promotes what they run, and none follows once it is rejected.
//!
//! Must not test who is a canary.

use super::policies::{Drive, canary};
use super::*;
use crate::rollout::{Canary, Who, Word};

fn by_hand(soak: i64) -> Policy {
    let policy = canary(Who::Some(Share::Count(1)), soak);
    Policy { canary: policy.canary.map(|canary| Canary { by_hand: true, ..canary }), ..policy }
}

fn say(drive: &mut Drive, word: Option<Word>) {
    drive.policy.word = word;
}

#[test]
pub(super) fn where_a_person_promotes_the_others_wait_for_that_however_long_the_soak_was() {
    let mut drive = Drive::new(6, by_hand(60));
    drive.run(2, 0, 3_000);
    assert_eq!(drive.nodes().len(), 1);
    assert!(drive.waits().contains("the canaries have soaked (1 node)"), "{}", drive.waits());
    let plan = drive.last.clone().unwrap();
    assert_eq!((plan.report.state, plan.report.finish), (State::Rolling, None));
    assert!(plan.next.is_none_or(|next| next > at(3_000)), "nobody looks again for what a person says");
    say(&mut drive, Some(Word::Promoted));
    drive.run(2, 3_000, 3_300);
    assert_eq!((drive.nodes().len(), drive.state()), (6, State::Complete));
    // That word was about that version.
    say(&mut drive, None);
    drive.run(3, 3_300, 4_000);
    assert_eq!(drive.nodes().len(), 7);
}

#[test]
fn a_promotion_ends_the_soak_once_all_canaries_are_available_and_not_before() {
    let mut drive = Drive::new(6, canary(Who::Some(Share::Count(1)), 3_600));
    say(&mut drive, Some(Word::Promoted));
    drive.bad.insert(2);
    drive.run(2, 0, 2_000);
    assert_eq!((drive.nodes().len(), drive.state()), (1, State::Failed), "a word makes no bad version good");
    let mut drive = Drive::new(6, canary(Who::Some(Share::Count(1)), 3_600));
    drive.run(2, 0, 300);
    assert_eq!(drive.nodes().len(), 1);
    say(&mut drive, Some(Word::Promoted));
    drive.run(2, 300, 600);
    assert_eq!((drive.nodes().len(), drive.state()), (6, State::Complete));
}

#[test]
pub(super) fn what_a_person_rejects_has_failed_for_as_long_as_that_is_said() {
    let mut drive = Drive::new(6, by_hand(60));
    drive.run(2, 0, 600);
    say(&mut drive, Some(Word::Rejected));
    drive.run(2, 600, 3_000);
    assert_eq!((drive.nodes().len(), drive.state()), (1, State::Failed));
    assert!(drive.waits().contains("was rejected by hand (spec.rollout.reject), on 1 of 6 nodes"), "{}", drive.waits());
    // It is said after a restart, too, and no recovery withdraws it.
    let text = serde_json::to_string(&drive.fleet.memory.rollout).unwrap();
    drive.fleet.memory.rollout = serde_json::from_str(&text).unwrap();
    drive.run(2, 3_000, 9_000);
    assert_eq!(drive.state(), State::Failed);
    say(&mut drive, None);
    drive.run(2, 9_000, 9_600);
    assert_ne!(drive.state(), State::Failed);
    say(&mut drive, Some(Word::Promoted));
    drive.run(2, 9_600, 10_000);
    assert_eq!((drive.nodes().len(), drive.state()), (6, State::Complete));
}
