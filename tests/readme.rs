//! Holds the README to the code: what it lists must be all there is, in the same words.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use oneagent_operator::api::condition::Reason;
use oneagent_operator::rollout::Bucket;

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap()
}

#[test]
fn every_reason_is_in_the_readme_with_what_to_do() {
    let readme = readme();
    let missing: Vec<String> =
        Reason::ALL.iter().map(|(reason, doc)| format!("| `{reason}` | {} |", doc.trim())).filter(|row| !readme.contains(row)).collect();
    assert!(missing.is_empty(), "put these rows into the README:\n{}", missing.join("\n"));
}

#[test]
fn every_bucket_is_in_the_readme() {
    let readme = readme();
    for bucket in Bucket::ALL {
        assert!(readme.contains(&format!("`{bucket}`")), "{bucket}");
    }
}
