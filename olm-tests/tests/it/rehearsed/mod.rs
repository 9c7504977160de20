//! `simulate` and a real control plane: one scenario gives the same agents in the same batches, and the same verdict.
//!
//! A phase is what happens at one time of a scenario, until the next. On the control plane the next phase begins once
//! the operator is where the simulated one was then: real agents become Ready when they do. So the order of
//! replacements is compared, cut where a simulated batch ends. Must not know why an agent is replaced.

mod real;

use olm_tests::cluster::repository;
use oneagent_operator::oneagent::rehearsal::{Act, Head, Record};
use oneagent_operator::simulate::{Scenario, simulate};

use real::Real;

/// What happens at one time, and what comes of it.
struct Phase {
    at: i64,
    acts: Vec<Act>,
    batches: Vec<Vec<String>>,
    /// What the status says in the end.
    head: Head,
}

/// The phases of a scenario, as it was simulated.
fn phases(scenario: &Scenario, record: &Record) -> Vec<Phase> {
    let mut all: Vec<Phase> = Vec::new();
    for entry in &scenario.script.timeline {
        let at = entry.at.0.num_seconds();
        match all.last_mut() {
            Some(last) if last.at == at => last.acts.push(entry.act.clone()),
            _ => all.push(Phase { at, acts: vec![entry.act.clone()], batches: Vec::new(), head: Head::default() }),
        }
    }
    let ends: Vec<i64> = all.iter().skip(1).map(|phase| phase.at).chain([i64::MAX]).collect();
    for (phase, end) in all.iter_mut().zip(ends) {
        let heads = record.heads.iter().rev().find(|(at, _)| *at < end);
        phase.head = heads.map(|(_, head)| head.clone()).expect("the simulated operator said something");
        let mut before = None;
        for step in record.steps.iter().filter(|step| (phase.at..end).contains(&step.at)) {
            if before.replace(step.at) != Some(step.at) {
                phase.batches.push(Vec::new());
            }
            phase.batches.last_mut().expect("a batch").push(step.node.clone());
        }
    }
    all
}

/// The nodes in batches of the simulated sizes. Requests that were under way together may lie on either side of where
/// a batch ends.
fn cut(together: Vec<Vec<String>>, batches: &[Vec<String>]) -> Vec<Vec<String>> {
    let batch_of = |node: &String| batches.iter().position(|batch| batch.contains(node));
    let mut rest = Vec::new();
    for mut nodes in together {
        nodes.sort_by_key(batch_of);
        rest.extend(nodes);
    }
    let mut all = Vec::new();
    for batch in batches {
        let others = rest.split_off(batch.len().min(rest.len()));
        all.push(sorted(&rest));
        rest = others;
    }
    if !rest.is_empty() {
        all.push(rest);
    }
    all
}

fn sorted(nodes: &[String]) -> Vec<String> {
    let mut nodes = nodes.to_vec();
    nodes.sort();
    nodes
}

/// Lets a scenario happen twice.
async fn compared(name: &str) {
    let file = repository(&format!("olm-tests/tests/it/rehearsed/{name}.yaml"));
    let text = std::fs::read_to_string(file).unwrap();
    let scenario = Scenario::read(serde_yaml::from_str(&text).unwrap()).unwrap();
    let (outcome, operator) = simulate(&scenario, scenario.seed).unwrap();
    assert!(outcome.holds(), "{outcome}");
    let (agent, record) = operator.outcomes().next().unwrap();
    let phases = phases(&scenario, record);

    let mut real = Real::new(&name.replace('_', "-"), &scenario).await;
    for phase in &phases {
        let story = format!("{}\nafter {} s: {:?}\n{outcome}", scenario.script.about, phase.at, phase.acts);
        for act in &phase.acts {
            real.act(act).await;
        }
        let replaced = real.comes_to(&phase.head, phase.batches.iter().flatten().count(), &story).await;
        let simulated: Vec<Vec<String>> = phase.batches.iter().map(|batch| sorted(batch)).collect();
        assert_eq!(cut(replaced, &phase.batches), simulated, "really and simulated; {story}");
    }
    let simulated = agent.status.clone().unwrap_or_default();
    let nodes = |status: &oneagent_operator::api::oneagent::OneAgentStatus| {
        let failure = status.rollout.as_ref().and_then(|rollout| rollout.failure.clone());
        failure.map(|failure| sorted(&failure.nodes))
    };
    let status = real.status().await;
    assert_eq!(status.rejected_versions, simulated.rejected_versions, "{outcome}");
    assert_eq!(nodes(&status).map(|all| real.short(&all)), nodes(&simulated), "{outcome}");
    real.end().await;
}

/// A test for each scenario.
macro_rules! scenarios {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                olm_tests::run(compared(stringify!($name)));
            }
        )*

        /// None is left out.
        #[test]
        fn every_scenario_is_a_test() {
            let of = |file: std::fs::DirEntry| file.file_name().into_string().unwrap();
            let files = std::fs::read_dir(repository("olm-tests/tests/it/rehearsed")).unwrap();
            let mut there: Vec<String> = files.map(|file| of(file.unwrap())).collect();
            there.retain(|file| file.ends_with(".yaml"));
            assert_eq!(sorted(&there), sorted(&[$(concat!(stringify!($name), ".yaml").to_owned()),*]));
        }
    };
}

scenarios! {
    a_canary_crashes
    a_canary_is_promoted
    a_canary_is_rejected
    a_good_version_goes_zone_by_zone
    a_good_version_spreads_across_zones
    a_newer_version_comes_in_the_middle
    a_node_joins_a_failed_rollout
    a_pause_holds_an_edit
    a_version_crashes_within_the_budget
    a_version_kills_its_node
    a_version_never_becomes_ready
    a_version_without_an_image
    agents_go_back
    an_agent_is_deleted_in_the_middle
    an_edit_restarts_agents
    cordoned_nodes_and_taints
    failures_that_are_allowed
    nodes_leave_in_the_middle
    silent_nodes_are_left_alone
    the_environment_is_unreachable
    the_operator_starts_again_in_the_middle
    the_stop_of_everything
    the_window_is_closed
}
