//! Each rule of the engine, left out: the property or the test that is named notices it.
//!
//! Must not test a rule that holds.

use std::panic::catch_unwind;

use super::super::{RULES as RULES_OF_NUMBERS, replicas};
use super::*;
use crate::rollout::Rows;

/// Who notices first that a rule is left out.
fn guard_of(rule: &str) -> fn() {
    match rule {
        "bucket::is_touched"
        | "bucket::is_ours"
        | "reading::is_closed"
        | "cell::is_outdated"
        | "cell::is_not_busy"
        | "cause::is_without_agent"
        | "cause::has_had_its_time" => properties::WHATEVER_HAPPENS,
        "cell::is_reachable" => rules::an_old_agent_on_an_unreachable_node_keeps_no_rollout_alive,
        "failure::as_many_that_joined" => foreign::two_that_joined_and_crash_are_a_verdict_whatever_the_budget,
        "bucket::has_joined" => foreign::one_that_joined_and_crashes_begins_the_soak_again_and_two_are_a_verdict,
        "bucket::blinks" => outages::an_agent_that_ran_and_is_not_ready_is_lacking_after_a_moment_and_joins_nothing,
        "verdict::fails_in_time"
        | "verdict::crash_speaks"
        | "failure::as_many_as_allowed"
        | "failure::all_that_are_reached" => properties::A_BAD_VERSION,
        "verdict::overdue_speaks" | "verdict::no_room_speaks" => {
            rules::an_agent_that_is_not_ready_or_finds_no_room_in_time_has_failed
        }
        "verdict::crashes_again_and_again" => {
            standstill::those_that_crash_are_counted_together_though_each_is_ready_in_between
        }
        "verdict::lost_node_speaks" => outages::a_node_lost_alone_after_an_outage_counts_as_before,
        "verdict::external_trouble_is_silent" => edges::external_trouble_rejects_nothing,
        "outage::excuse" => outages::while_all_nodes_are_unreachable_nothing_is_rejected_or_rolled_back,
        "reading::mass_outage" | "pace::none_in_a_mass_outage" => {
            edges::no_running_agent_is_replaced_while_a_third_of_the_nodes_is_unreachable
        }
        "reading::is_paused" | "context::held_stays" | "is_held" => rules::a_hold_keeps_template_and_pods_and_says_so,
        "failure::have_recovered" => rules::a_verdict_is_withdrawn_at_most_twice_when_the_failed_agents_stay_available,
        "canary::needs_canaries" | "pace::canaries_alone" => policies::a_bad_version_is_seen_by_the_canaries_alone,
        "failure::is_rejected_by_hand" => words::what_a_person_rejects_has_failed_for_as_long_as_that_is_said,
        "failure::all_where_no_other_may_go" => {
            replicas::a_successor_that_crashes_where_no_other_may_go_is_a_failure_whatever_the_budget
        }
        "stall::nothing_else_retries" | "context::stalled_is_put_back" => {
            rules::external_trouble_is_retried_one_by_one_where_nothing_retries
        }
        "stall::others_may_go" => {
            one_refused::one_refused_node_does_not_hold_the_others_for_good_and_they_are_tried_one_by_one_first
        }
        "canary::has_soaked" => policies::a_canary_is_first_and_the_others_follow_when_it_stayed_available,
        "canary::is_promoted" => words::where_a_person_promotes_the_others_wait_for_that_however_long_the_soak_was,
        "failure::moves_nothing_but_failures" => standstill::where_nothing_moves_but_what_fails_the_rollout_has_failed,
        "context::failed_is_put_back" | "has_failed" => {
            rules::as_many_failures_as_the_budget_stop_the_rollout_and_the_template_is_put_back
        }
        "context::canaries_alone_have_it" => apart::the_template_is_the_new_one_only_while_a_canary_gets_its_pod,
        "context::is_right" | "waits_for_template" | "waits_for_controller" => {
            rules::the_template_advances_before_the_first_deletion_and_only_then_do_pods_go
        }
        "goes_back" => back::agents_of_a_failed_version_are_rolled_back_one_first_and_the_others_stay,
        "back::one_is_first" => back::where_the_older_agent_does_not_run_any_more_it_ends_with_the_one_that_was_tried,
        "failure::may_recover" => outages::a_running_agent_does_not_go_back_while_the_verdict_may_yet_be_withdrawn,
        "zones::per_zone" | "zones::zone_by_zone" => {
            policies::zones_are_updated_alike_or_one_after_the_other_and_each_has_its_bound
        }
        "pace::broken_within_the_budget" => {
            rules::however_many_look_broken_no_more_than_the_budget_are_replaced_at_a_time
        }
        "pace::within_the_budget" => replicas::of_many_workloads_one_begins_and_each_success_admits_one_more,
        // No one does.
        _ => || (),
    }
}

/// A table without a rule.
fn rest<F: Copy>(rows: Rows<F>, left_out: &str) -> Rows<F> {
    Box::leak(rows.iter().copied().filter(|(name, _)| *name != left_out).collect())
}

/// What is to be done with every table, so that a new one is not forgotten.
macro_rules! tables {
    ($($table:ident)*) => {
        fn names() -> Vec<&'static str> {
            let Rules { $($table),* } = Rules::<Release>::ALL;
            let mut names = Vec::new();
            $(names.extend($table.iter().map(|(name, _)| *name));)*
            names
        }

        fn without<R: rollout::Revision>(rule: &str) -> &'static Rules<R> {
            let Rules { $($table),* } = Rules::ALL;
            Box::leak(Box::new(Rules { $($table: rest($table, rule)),* }))
        }
    };
}

tables!(heard open broken counts judged says excused mass_outage holds lifted unproven rejected fails tries proof
    standstill template verdict patience way_back zones pace);

#[test]
fn a_rule_that_is_left_out_is_noticed() {
    let names = names();
    let is_unnoticed = |rule: &&str| {
        RULES.set(Some(without(rule)));
        RULES_OF_NUMBERS.set(Some(without(rule)));
        let told = catch_unwind(guard_of(rule));
        RULES.set(None);
        RULES_OF_NUMBERS.set(None);
        told.is_ok()
    };
    let missed: Vec<&str> = names.iter().copied().filter(is_unnoticed).collect();
    assert!(missed.is_empty(), "nobody noticed: {missed:?}");
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len(), "each rule has a name of its own");
}

#[test]
fn the_rules_are_documented_in_their_order() {
    let page = include_str!("../../../../docs/development.md");
    let (_, table) = page.split_once("| question | rules, in their order |").expect("the table");
    let table = table.split_once("\n\n").map_or(table, |(table, _)| table);
    let documented: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
    assert_eq!(documented, names());
}
