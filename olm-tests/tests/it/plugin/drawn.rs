//! The page that `simulate --html` writes, in a real browser: moved along its time, it shows what the report says.
//!
//! Needs no cluster. Must not look at a live page: `browsed` does.

use std::process::Command;

use olm_tests::browser::Browser;
use olm_tests::operator::beside;
use serde_json::{Value, json};

use super::browsed::{CELLS, cells};

/// Runs `simulate` of a small fleet, with more arguments.
fn simulate(more: &[&str]) -> String {
    let args = ["simulate", "--nodes", "8", "--zones", "2", "-o", "json"];
    let output = Command::new(beside("kubectl-oneagent")).args([&args[..], more].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Moves the page to a second.
fn moved_to(second: i64) -> String {
    format!(
        "const time = document.getElementById('time'); time.value = {second}; time.dispatchEvent(new Event('input')); \
        {CELLS}"
    )
}

#[test]
fn the_page_of_a_simulation_shows_at_each_time_what_the_report_says() {
    olm_tests::run(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html").display().to_string();
        simulate(&["--html", &file]);
        let report: Value = serde_json::from_str(&simulate(&[])).unwrap();
        let rollout = &report["oneAgents"][0];
        let browser = Browser::open().await;
        browser.goto(&format!("file://{file}")).await;
        let count = |shown: &Value, state: &str| cells(shown).values().filter(|(_, is)| is == state).count();
        let at_the_end = browser.run(CELLS).await;
        assert_eq!(count(&at_the_end, "new"), 8, "{at_the_end}");

        // In any order: a page moves back, too.
        let batches = rollout["batches"].as_array().unwrap();
        assert_eq!(batches.len(), 8, "{rollout:#}");
        for batch in batches.iter().rev().chain(batches) {
            let (at, node) = (batch["at"].as_i64().unwrap(), batch["nodes"][0].as_str().unwrap());
            let before = cells(&browser.run(&moved_to(at - 1)).await);
            assert_eq!(before[node].1, "old", "{node} before {at}");
            let after = browser.run(&moved_to(at + 1)).await;
            assert_eq!(cells(&after)[node].1, "starting", "{node} after {at}");
            assert_eq!(count(&after, "starting"), 1, "{after}");
        }
        let whole = "return document.getElementById('whole').textContent";
        let finished = rollout["finished"].as_i64().unwrap();
        browser.run(&moved_to(finished - 1)).await;
        assert!(browser.run(whole).await.as_str().unwrap().contains("Rolling 7/8"), "{}", browser.run(whole).await);

        // It plays to the end, and from there from the beginning.
        browser.run("document.getElementById('play').click()").await;
        browser.until("it has played", whole, |said| said.as_str().unwrap().contains("Complete 8/8")).await;
        browser.until("it stops", "return document.getElementById('play').textContent", |said| said == "Play").await;
        let again = "const [play, clock] = ['play', 'clock'].map((id) => document.getElementById(id)); play.click(); \
            const at = clock.textContent; play.click(); return [at.split(' ')[0], play.textContent]";
        assert_eq!(browser.run(again).await, json!(["0s", "Play"]), "it begins again, and pauses");

        let loaded = browser.run("return performance.getEntriesByType('resource').map((one) => one.name)").await;
        assert_eq!(loaded, json!([]), "it asks nothing of anyone");
        assert_eq!(browser.console().await, Vec::<String>::new());
    });
}
