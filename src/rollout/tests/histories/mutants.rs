//! Each rule of the engine, broken on purpose: the property or the test that is named notices it.
//!
//! Must not test a rule that holds.

use strum::IntoEnumIterator;

use super::*;
use crate::rollout::rule::Rule;
use crate::rollout::rule::broken::is_noticed;

/// Who notices it first.
fn guard_of(rule: Rule) -> (&'static str, fn()) {
    macro_rules! named {
        ($test:path) => {
            (stringify!($test), $test as fn())
        };
    }
    match rule {
        Rule::GoesBack => {
            named!(rules::as_many_failures_as_the_budget_stop_the_rollout_and_the_template_is_put_back)
        }
        Rule::Apart => named!(apart::the_template_is_the_new_one_only_while_a_canary_gets_its_pod),
        Rule::Settled => named!(rules::the_template_advances_before_the_first_deletion_and_only_then_do_pods_go),
        Rule::Hold => named!(rules::a_hold_keeps_template_and_pods_and_says_so),
        Rule::Calendar | Rule::Budget | Rule::Starting | Rule::Courtesy | Rule::UpToDate => {
            ("whatever happens, the budget holds and no good agent is touched", properties::WHATEVER_HAPPENS)
        }
        Rule::MassOutage => named!(edges::no_running_agent_is_replaced_while_a_third_of_the_nodes_is_unreachable),
        Rule::Broken => named!(rules::however_many_look_broken_no_more_than_the_budget_are_replaced_at_a_time),
        Rule::Canary => named!(policies::a_bad_version_is_seen_by_the_canaries_alone),
        Rule::Promotion => {
            named!(words::where_a_person_promotes_the_others_wait_for_that_however_long_the_soak_was)
        }
        Rule::Joined => named!(foreign::one_that_joined_and_crashes_begins_the_soak_again_and_two_are_a_verdict),
        Rule::Rejection => named!(words::what_a_person_rejects_has_failed_for_as_long_as_that_is_said),
        Rule::Zones | Rule::PerZone => {
            named!(policies::zones_are_updated_alike_or_one_after_the_other_and_each_has_its_bound)
        }
        Rule::Failure => ("a bad version reaches no more nodes than budget and canaries", properties::A_BAD_VERSION),
        Rule::Sticky => named!(standstill::those_that_crash_are_counted_together_though_each_is_ready_in_between),
        Rule::Standstill => named!(standstill::where_nothing_moves_but_what_fails_the_rollout_has_failed),
        Rule::World => named!(edges::external_trouble_rejects_nothing),
        Rule::Outage => named!(outages::while_all_nodes_are_unreachable_nothing_is_rejected_or_rolled_back),
        Rule::Patience => {
            named!(outages::a_running_agent_does_not_go_back_while_the_verdict_may_yet_be_withdrawn)
        }
        Rule::Others => {
            named!(one_refused::one_refused_node_does_not_hold_the_others_for_good_and_they_are_tried_one_by_one_first)
        }
        Rule::Withdrawal => named!(rules::a_verdict_is_withdrawn_at_most_twice_when_the_failed_agents_stay_available),
        Rule::Trial => named!(back::where_the_older_agent_does_not_run_any_more_it_ends_with_the_one_that_was_tried),
    }
}

#[test]
fn a_rule_that_is_broken_is_noticed() {
    let missed: Vec<(Rule, &str)> = Rule::iter()
        .filter_map(|rule| {
            let (name, test) = guard_of(rule);
            (!is_noticed(rule, test)).then_some((rule, name))
        })
        .collect();
    assert!(missed.is_empty(), "nobody noticed: {missed:?}");
}
