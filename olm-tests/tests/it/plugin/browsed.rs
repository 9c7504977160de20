//! The dashboard's page in a real browser: node by node what the API has, by keyboard, in light and dark, and through
//! an outage of the API server.
//!
//! Must not ask the dashboard itself: `paged` does.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use olm_tests::browser::Browser;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SOON, V1, V2, V3, is_ready};
use olm_tests::nodes::Shape;
use serde_json::{Value, json};

use super::Person;
use super::paged::Dashboard;

const TAB: char = '\u{e004}';
const RIGHT: char = '\u{e014}';
const END: char = '\u{e010}';

/// The label of each node's cell, by zone.
pub(super) const CELLS: &str = r#"
    const label = (cell) => cell.getAttribute("aria-label");
    const of = (zone) => [...zone.querySelectorAll("button.cell:not(.gone)")].map(label);
    return [...document.querySelectorAll(".zone")].map((zone) => [zone.querySelector("h2").textContent, of(zone)]);
"#;
/// Keeps what each cell was, as it changes.
const RECORD: &str = r#"
    window.seen = {};
    new MutationObserver((changes) => changes.forEach(({ target }) => {
        const [name, state] = (target.getAttribute("aria-label") || "").split(": ");
        (window.seen[name] = window.seen[name] || []).push(state);
    })).observe(document.getElementById("zones"), { subtree: true, attributes: true, attributeFilter: ["aria-label"] });
"#;
/// Texts whose contrast to what is behind them is below 4.5, and how many were looked at.
const CONTRAST: &str = r#"
    const parts = (color) => (color.match(/[\d.]+/g) || []).map(Number);
    const light = (color) => {
        const [r, g, b] = parts(color).map((part) => part / 255).map((part) =>
            part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            const alpha = parts(color)[3];
            if (alpha === undefined || alpha > 0.99) return color;
        }
        return "rgb(255, 255, 255)";
    };
    const poor = [];
    let count = 0;
    for (const element of document.querySelectorAll("body *")) {
        const has_text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!has_text || !element.checkVisibility() || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(element.tagName)
            || element.matches(":disabled")) continue;
        count += 1;
        const [a, b] = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
        const ratio = (a + 0.05) / (b + 0.05);
        const text = element.textContent.slice(0, 30);
        if (ratio < 4.5) poor.push(`${element.tagName}.${element.className} ${text}: ${ratio}`);
    }
    return [count, poor];
"#;
/// What has the focus, in a few words.
const FOCUSED: &str = r#"
    const at = document.activeElement;
    return at.getAttribute("aria-label") || at.id || at.tagName;
"#;

/// Cells as the page shows them: zone, node and state.
pub(super) fn cells(shown: &Value) -> BTreeMap<String, (String, String)> {
    let mut all = BTreeMap::new();
    for zone in shown.as_array().into_iter().flatten() {
        let name = zone[0].as_str().unwrap_or_default().split(' ').next().unwrap_or_default().to_owned();
        for label in zone[1].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (node, state) = label.split_once(": ").unwrap_or((label, ""));
            all.insert(node.to_owned(), (name.clone(), state.to_owned()));
        }
    }
    all
}

fn are_all_new(shown: &Value, count: usize) -> bool {
    let cells = cells(shown);
    cells.len() == count && cells.values().all(|(_, state)| state == "new")
}

#[test]
fn the_page_in_a_browser_shows_what_the_api_has_and_says_when_it_cannot() {
    olm_tests::run(async {
        let mut lab = Lab::new("plugin-browsed", 0).await;
        for zone in ["a", "b"] {
            lab.add_nodes(3, &Shape::default().zone(zone)).await;
        }
        lab.oneagent(&json!({ "waitReadySeconds": 30, "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 6, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let mut person = Person::who_observes(&lab).await;
        let relay = person.behind_a_relay().await;
        let mut dashboard = Dashboard::start(&person);
        let browser = Browser::open().await;
        browser.goto(&dashboard.address()).await;
        let shown = browser.until("all nodes are new", CELLS, |shown| are_all_new(shown, 6)).await;
        for (zone, nodes) in [("a", &lab.nodes[..3]), ("b", &lab.nodes[3..])] {
            assert!(nodes.iter().all(|node| cells(&shown)[node].0 == zone), "{shown}");
        }
        let address = browser.run("return [location.href, document.cookie]").await;
        assert!(!address.to_string().contains("token") && address[1] == "", "the token is out of reach: {address}");

        // A rollout, live: slow enough to be seen, for the page shows some moments of it.
        browser.run(RECORD).await;
        lab.behave(|b| b.ready_after = Duration::from_secs(2));
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.all_at("agent", V2, 6, SOON).await;
        browser.until("all nodes are new again", CELLS, |shown| are_all_new(shown, 6)).await;
        let seen = browser.run("return window.seen").await;
        for node in &lab.nodes {
            let states = seen[node].as_array().unwrap_or_else(|| panic!("{node}: {seen}"));
            let has_moved = states.iter().any(|state| *state == "old" || *state == "starting");
            assert!(has_moved && states.last() == Some(&json!("new")), "{node}: {states:?}");
        }
        browser
            .until("it is complete", "return document.getElementById('whole').textContent", |whole| {
                whole.as_str().is_some_and(|whole| whole.contains("Complete 6/6") && whole.contains(V2))
            })
            .await;

        // A version that crashes: the page and the API name the same node.
        lab.behave(|b| _ = b.versions.insert(V3.to_owned(), Fault::CrashLoop));
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        let pods = lab.pods("agent").await;
        let broken: Vec<&String> = pods.iter().filter(|(_, pod)| !is_ready(pod)).map(|(node, _)| node).collect();
        let as_the_api_has_it = |shown: &Value| {
            let cells = cells(shown);
            cells.len() == 6 && cells.iter().all(|(node, (_, state))| (state == "failing") == broken.contains(&node))
        };
        browser.until("the page has what the API has", CELLS, as_the_api_has_it).await;
        assert_eq!(broken.len(), 1, "{broken:?}");

        // By keyboard: a zone is one stop, and arrows go within it.
        let mut stops = Vec::new();
        for _ in 0..2 {
            browser.press(TAB).await;
            stops.push(browser.run(FOCUSED).await.as_str().unwrap_or_default().to_owned());
        }
        let firsts = [&lab.nodes[0], &lab.nodes[3]];
        assert!(stops.iter().zip(firsts).all(|(stop, first)| stop.starts_with(first.as_str())), "{stops:?}");
        browser.press(RIGHT).await;
        assert!(browser.run(FOCUSED).await.as_str().is_some_and(|at| at.starts_with(lab.nodes[4].as_str())));
        browser.press(END).await;
        let said = "return document.getElementById('node').textContent";
        browser
            .until("the last node is explained", said, |said| {
                said.as_str().is_some_and(|said| said.starts_with(lab.nodes[5].as_str()) && said.contains("agent"))
            })
            .await;
        let click = format!("document.querySelector('button[title=\"{}\"]').click(); {said}", broken[0]);
        browser.run(&click).await;
        let logs = format!("logs {} --previous", pods[broken[0]].name_any());
        let said =
            browser.until("it is explained", said, |said| said.as_str().is_some_and(|said| said.contains(&logs)));
        assert!(said.await.as_str().is_some_and(|said| said.contains("CrashLoopBackOff")));

        for scheme in ["light", "dark"] {
            let found = browser.run(CONTRAST).await;
            assert!(found[0].as_u64() > Some(15) && found[1] == json!([]), "{scheme}: {found}");
            browser.prefer_dark().await;
        }
        let ground = "return getComputedStyle(document.body).backgroundColor";
        assert_eq!(browser.run(ground).await, "rgb(22, 26, 29)", "it was dark");

        // The API server is unreachable, and answers again.
        let connection = "const at = document.getElementById('connection'); return at.hidden ? '' : at.textContent";
        relay.cut(true);
        browser.until("the page says so", connection, |said| said.as_str().is_some_and(|said| !said.is_empty())).await;
        let api: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        api.delete(&pods[broken[0]].name_any(), &DeleteParams::default()).await.unwrap();
        lab.all_pods_ready("agent", 6).await;
        relay.cut(false);
        browser.until("the page is as before", connection, |said| said == "").await;
        browser.until("it has what came meanwhile", CELLS, |shown| are_all_new(shown, 6)).await;

        let loaded = browser.run("return performance.getEntriesByType('resource').map((one) => one.name)").await;
        let own = format!("http://127.0.0.1:{}/", dashboard.port);
        let are_own = |all: &Value| all.as_array().unwrap().iter().all(|one| one.as_str().unwrap().starts_with(&own));
        assert!(are_own(&loaded), "{loaded}");
        assert_eq!(browser.console().await, Vec::<String>::new());
        dashboard.child.kill().unwrap();
        browser
            .until("the page says that it has ended", connection, |said| {
                said.as_str().is_some_and(|said| said.contains("connection is lost") || said.contains("has ended"))
            })
            .await;
        drop(browser);
        assert!(person.wrote().is_empty(), "{:?}", person.wrote());
        lab.end().await;
    });
}
