//! `status -w` in a real terminal: a rollout in progress, another size, a node that is chosen, and every way out.

use std::process::Command;

use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, V1, V2, V3};
use olm_tests::nodes::Shape;
use olm_tests::operator::beside;
use olm_tests::pty::Terminal;
use serde_json::json;

use super::Person;

/// The view, in a terminal.
fn view(person: &Person<'_>, locale: &str, size: (u16, u16)) -> Terminal {
    let mut command = Command::new(beside("kubectl-oneagent"));
    command.args(["status", "-w", "-n", &person.lab.name]).env("KUBECONFIG", &person.kubeconfig);
    command.env("LANG", locale).env_remove("LC_ALL").env_remove("COLUMNS").env("TZ", "UTC");
    Terminal::start(command, size)
}

async fn shows(terminal: &Terminal, words: &[&str]) {
    eventually(&format!("{words:?} are shown"), LONG, || async {
        let shown = terminal.shows();
        if words.iter().all(|word| shown.contains(word)) { Ok(()) } else { Err(shown) }
    })
    .await;
}

async fn ends(terminal: &mut Terminal, code: i32) {
    for _ in 0..500 {
        if terminal.code().is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(terminal.code(), Some(code), "{}", terminal.shows());
    assert!(terminal.echoes() && !terminal.is_alternate(), "the terminal is as it was: {}", terminal.shows());
}

#[test]
fn a_rollout_is_followed_node_by_node_and_the_terminal_is_left_as_it_was() {
    olm_tests::run(async {
        let mut lab = Lab::new("plugin-view", 0).await;
        for zone in ["a", "b", "c"] {
            lab.add_nodes(20, &Shape::default().zone(zone)).await;
        }
        lab.oneagent(&json!({ "waitReadySeconds": 10, "rollout": { "maxUnavailable": 4 } }));
        lab.all_at("agent", V1, 60, LONG).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let person = Person::who_observes(&lab).await;
        let mut terminal = view(&person, "C.UTF-8", (24, 80));
        shows(&terminal, &["complete 60/60", " c ■■■■■■■■■■■■■■■■■■■■ 20/20", "q: end"]).await;
        assert!(terminal.is_alternate() && !terminal.echoes());
        lab.cluster.vendor.publish(&lab.name, V2);
        shows(&terminal, &["1.300.10 → 1.301.20", "rolling", "of 4 out", "□", "◐"]).await;
        // Too small for cells: a bar for each zone; and back.
        terminal.resize((10, 40));
        shows(&terminal, &["█"]).await;
        terminal.resize((24, 80));
        shows(&terminal, &["complete 60/60", " a ■■■■■■■■■■■■■■■■■■■■ 20/20"]).await;
        terminal.press("\u{1b}[C\u{1b}[C");
        let second = format!("{}: runs agent {V2} as desired", lab.nodes[1]);
        shows(&terminal, &[&second]).await;
        // What fails, with the command that says more.
        lab.behave(|b| {
            b.versions.insert(V3.to_owned(), Fault::CrashLoop);
        });
        lab.cluster.vendor.publish(&lab.name, V3);
        shows(&terminal, &["✖", "--previous", "RolloutFailed"]).await;
        terminal.press("q");
        ends(&mut terminal, 1).await;
        for way in ["\u{3}", "INT", "TERM", "HUP"] {
            let mut terminal = view(&person, "C", (24, 80));
            shows(&terminal, &["agent", "F"]).await;
            assert!(terminal.shows().is_ascii(), "{}", terminal.shows());
            if way.len() == 1 {
                terminal.press(way);
            } else {
                terminal.signal(way);
            }
            ends(&mut terminal, 1).await;
        }
        let mut small = view(&person, "C.UTF-8", (3, 10));
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        small.press("q");
        ends(&mut small, 1).await;
        assert_eq!(person.wrote(), []);
        lab.end().await;
    });
}
