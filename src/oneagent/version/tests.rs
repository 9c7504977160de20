//! Which version is chosen: single situations.
//!
//! Must not test what becomes of it.

use super::*;
use std::sync::Arc;

fn v(minor: u32) -> Version {
    Version { major: 1, minor, revision: 0, day: 20_250_101, time: 0 }
}

fn snapshot(latest: u32, offered: &[u32]) -> Snapshot {
    Snapshot {
        latest: Some(v(latest)),
        offered: Some(Arc::new(offered.iter().map(|m| v(*m)).collect())),
        ..Snapshot::default()
    }
}

fn facts(environment: &Snapshot, running: Option<u32>) -> Facts<'_> {
    Facts {
        environment: Some(environment),
        running: running.map(v),
        last_good: None,
        rejected: &[],
        reported: None,
        built_before: None,
        is_list: false,
        ahead: None,
    }
}

#[test]
fn a_version_is_taken_automatically_once_it_is_old_enough() {
    let of = |minor: u32, day: u32| Version { day, ..v(minor) };
    let versions = [of(6, 20_260_110), of(5, 20_260_105), of(4, 20_260_101)];
    let environment =
        Snapshot { latest: Some(versions[0]), offered: Some(Arc::new(versions.to_vec())), ..Snapshot::default() };
    let chosen = |running: Option<Version>, day: &str, rejected: &[Version]| {
        let built_before = Some(format!("2026-01-{day}T00:00:00Z").parse().unwrap());
        let facts = Facts { running, rejected, built_before, ..facts(&environment, None) };
        let choice = choose(Wish::Newest, false, facts);
        (choice.version.map(|version| version.minor), choice.remark.is_some())
    };
    let running = Some(versions[2]);
    assert_eq!(chosen(running, "09", &[]), (Some(5), true), "the newest is too young, and that is said");
    assert_eq!(chosen(running, "11", &[]), (Some(6), false));
    assert_eq!(chosen(running, "03", &[]), (Some(4), true));
    assert_eq!(chosen(running, "09", &versions[1..2]), (Some(4), true), "one that failed is not taken instead");
    assert_eq!(chosen(Some(versions[0]), "03", &[]), (Some(6), true), "nothing goes backwards");
    assert_eq!(chosen(None, "09", &[]), (Some(5), true));
    let first = (
        chosen(None, "31", &[]).0,
        choose(
            Wish::Newest,
            false,
            Facts { built_before: Some("2025-01-01T00:00:00Z".parse().unwrap()), ..facts(&environment, None) },
        )
        .version,
    );
    assert_eq!(first, (Some(6), Some(versions[2])), "rather the oldest than no agent");
    let pin = Wish::Pin { version: versions[0], allow_downgrade: false };
    let early = Some("2025-01-01T00:00:00Z".parse().unwrap());
    let pinned = choose(pin, false, Facts { running, built_before: early, ..facts(&environment, None) });
    assert_eq!(pinned.version, Some(versions[0]), "a pin is somebody's word");
}

#[test]
fn the_newest_is_taken_and_nothing_is_downgraded_automatically() {
    let environment = snapshot(5, &[6, 5, 4]);
    assert_eq!(choose(Wish::Newest, false, facts(&environment, Some(4))).version, Some(v(5)));
    assert_eq!(choose(Wish::Newest, false, facts(&environment, Some(6))).version, Some(v(6)));
    assert_eq!(
        choose(Wish::AgentVersion("1.4.0".parse().unwrap()), false, facts(&environment, Some(5))).version,
        Some(v(5))
    );
    assert_eq!(
        choose(Wish::AgentVersion("1.4.0".parse().unwrap()), false, facts(&environment, None)).version,
        Some(v(4))
    );
}

#[test]
fn recreated_pods_get_an_offered_version_where_the_running_one_is_not() {
    let recalled = snapshot(5, &[4, 3]);
    for frozen in [false, true] {
        let choice = choose(Wish::Newest, frozen, facts(&recalled, Some(5)));
        assert_eq!((choice.version, choice.strict, choice.keeps_versions), (Some(v(4)), false, frozen));
    }
    let unknown = Snapshot { offered: None, ..recalled };
    assert_eq!(choose(Wish::Newest, true, facts(&unknown, Some(5))).version, Some(v(5)), "nobody said that it is gone");
    let empty = snapshot(5, &[]);
    assert_eq!(choose(Wish::Newest, true, facts(&empty, Some(5))).version, Some(v(5)), "an empty list is no list");
    // An edit reaches agents that updated themselves at what they are.
    let environment = snapshot(6, &[6, 5]);
    let edited = Facts { reported: Some(v(6)), ..facts(&environment, Some(5)) };
    assert_eq!(choose(Wish::Newest, true, edited).version, Some(v(6)));
}

#[test]
fn a_list_of_what_may_be_taken_moves_nothing_backwards() {
    let list = snapshot(2, &[2]);
    for (wish, rejected) in
        [(Wish::Newest, &[][..]), (Wish::Newest, &[v(2)]), (Wish::AgentVersion("1.2.0".parse().unwrap()), &[])]
    {
        let facts = Facts { is_list: true, last_good: Some(v(3)), rejected, ..facts(&list, Some(3)) };
        for frozen in [false, true] {
            assert_eq!(choose(wish, frozen, facts).version, Some(v(3)), "{wish:?} {frozen}");
        }
    }
    // What is on its way and taken out of the list is rolled out no further, and no version falls below the good one.
    let on_its_way = Facts { is_list: true, last_good: Some(v(3)), ..facts(&list, Some(4)) };
    assert_eq!(choose(Wish::Newest, false, on_its_way).version, Some(v(3)));
    let listed = snapshot(5, &[5, 2]);
    let ahead = Facts { is_list: true, last_good: Some(v(4)), ahead: Some(v(5)), ..facts(&listed, Some(4)) };
    assert_eq!(choose(Wish::Newest, true, ahead).version, Some(v(5)), "an edit reaches agents at what they are");
    let pin = Wish::Pin { version: v(1), allow_downgrade: true };
    let refused = choose(pin, false, Facts { is_list: true, ..facts(&list, Some(3)) });
    assert_eq!(refused.problem.unwrap().0, Reason::VersionNotOffered);
}

#[test]
fn a_version_that_failed_is_not_offered_again_until_a_newer_one_appears() {
    let environment = snapshot(5, &[]);
    let rejected = [v(5)];
    let facts = Facts {
        environment: Some(&environment),
        running: Some(v(4)),
        last_good: Some(v(4)),
        rejected: &rejected,
        reported: None,
        built_before: None,
        is_list: false,
        ahead: None,
    };
    assert_eq!(choose(Wish::Newest, false, facts).version, Some(v(4)));
    let newer = snapshot(6, &[]);
    assert_eq!(choose(Wish::Newest, false, Facts { environment: Some(&newer), ..facts }).version, Some(v(6)));
}

#[test]
fn a_pin_is_strict_and_checked_before_anything_is_touched() {
    let environment = snapshot(5, &[5, 4, 3]);
    let pin = |minor, allow_downgrade| Wish::Pin { version: v(minor), allow_downgrade };
    let chosen = choose(pin(5, false), false, facts(&environment, Some(4)));
    assert!(chosen.strict && chosen.version == Some(v(5)) && chosen.problem.is_none());
    let refused = choose(pin(3, false), false, facts(&environment, Some(4)));
    assert_eq!((refused.version, refused.problem.unwrap().0), (Some(v(4)), Reason::DowngradeNotAllowed));
    assert_eq!(choose(pin(3, true), false, facts(&environment, Some(4))).version, Some(v(3)));
    let ahead = Facts { ahead: Some(v(6)), ..facts(&environment, Some(4)) };
    let refused = choose(pin(5, false), false, ahead);
    assert_eq!(refused.problem.unwrap().0, Reason::DowngradeNotAllowed, "an agent updated itself to a newer one");
    assert_eq!(choose(pin(5, true), false, ahead).version, Some(v(5)));
    let unknown = choose(pin(9, false), false, facts(&environment, Some(4)));
    assert_eq!((unknown.version, unknown.problem.unwrap().0), (Some(v(4)), Reason::VersionNotOffered));
    let unreached = choose(pin(5, false), false, Facts { environment: None, ..facts(&environment, None) });
    assert!(!unreached.is_known() && unreached.problem.is_none());
}

#[test]
fn an_image_is_downgraded_only_where_that_is_allowed() {
    let image = |minor, allow_downgrade| Wish::Image { version: Some(v(minor)), allow_downgrade };
    assert_eq!(older_image(image(3, false), Some(v(4)), Some(v(4))).unwrap().0, Reason::DowngradeNotAllowed);
    let (three, four) = (Some(v(3)), Some(v(4)));
    for fine in [
        older_image(image(3, true), four, four),
        older_image(image(4, false), four, four),
        older_image(image(3, false), None, None),
    ] {
        assert!(fine.is_none());
    }
    assert!(
        older_image(image(3, false), four, three).is_none(),
        "4 was never rolled out: taking it back is no downgrade"
    );
}

#[test]
fn frozen_stays_where_it_is_but_a_first_install_needs_some_version() {
    let environment = snapshot(5, &[]);
    assert_eq!(choose(Wish::Newest, true, facts(&environment, Some(4))).version, Some(v(4)));
    assert_eq!(choose(Wish::Newest, true, facts(&environment, None)).version, Some(v(5)));
}

#[test]
fn a_running_version_that_is_no_longer_offered_is_noticed() {
    assert!(withdrawn(Some(&snapshot(5, &[5])), [v(4), v(4)].into_iter()).is_some());
    assert!(withdrawn(Some(&snapshot(5, &[5, 4])), [v(4), v(4)].into_iter()).is_none());
    assert!(withdrawn(None, [v(4), v(4)].into_iter()).is_none());
}
