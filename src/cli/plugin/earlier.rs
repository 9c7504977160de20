//! The version that a rollback leads to.
//!
//! Pure. Must not write anything.

use super::object::Object;
use crate::api::name::Version;

/// Whether an older version than the last good one is pinned and did not fail: an earlier rollback is under way.
pub(super) fn is_going_back(object: &Object) -> bool {
    let version = |text: Option<&str>| text.and_then(|text| text.parse::<Version>().ok());
    let update = &object.spec()["update"];
    let pinned = version(update["version"].as_str()).filter(|_| update["allowDowngrade"] == true);
    let good = version(object.status.as_ref().and_then(|status| status.last_good_version.as_deref()));
    let failed = version(object.rollout().failure.as_ref().and_then(|failure| failure.version.as_deref()));
    pinned.is_some() && pinned < good && pinned != failed
}

/// The version to go back to: the last that was good; where that one runs as desired, the one before it.
pub(super) fn earlier(object: &Object) -> Result<String, String> {
    let status = object.status.clone().unwrap_or_default();
    // After a failure the last good one is desired again, and nothing was completed since.
    let has_failed = object.rollout().failure.is_some();
    let desired = status.desired_version.clone().filter(|_| !has_failed);
    let good = status.last_good_version.into_iter();
    let history = object.rollout().history;
    let completed = history.iter().filter(|past| past.result == "Complete").filter_map(|past| past.to.clone());
    let began = history.iter().filter_map(|past| past.from.clone());
    let mut known = good.chain(completed).chain(began);
    known.find(|version| Some(version) != desired.as_ref()).ok_or_else(|| {
        let pin = format!("kubectl oneagent -n {} pin {}", object.namespace(), object.name());
        format!("no earlier version of {} is known: add one to the command {pin}", object.who())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::managed::Managed;
    use super::*;

    #[test]
    fn a_rollback_that_is_under_way_is_not_undone_by_the_next() {
        let object = |pinned: &str, good: &str, failed: Option<&str>| {
            let version = |minor: &str| format!("1.{minor}.0.20250101-000000");
            let whole = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": "a", "namespace": "n" },
                "spec": { "update": { "version": version(pinned), "allowDowngrade": true } },
                "status": { "lastGoodVersion": version(good),
                    "rollout": failed.map(|failed| json!({ "failure": { "version": version(failed) } })) } });
            Object::of(Managed::Oneagent, serde_json::from_value(whole).unwrap())
        };
        assert!(is_going_back(&object("2", "3", None)));
        assert!(!is_going_back(&object("3", "2", None)), "a newer one is pinned");
        assert!(!is_going_back(&object("2", "2", None)), "it is complete");
        assert!(!is_going_back(&object("2", "3", Some("2"))), "it failed");
    }

    #[test]
    fn the_earlier_version_is_the_last_good_one_that_is_not_desired() {
        let object = |status: Value| {
            let whole = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": "a", "namespace": "n" }, "spec": {}, "status": status });
            Object::of(Managed::Oneagent, serde_json::from_value(whole).unwrap())
        };
        let past = |result: &str, from: &str, to: &str| json!({ "result": result, "from": from, "to": to });
        let failed = object(json!({ "desiredVersion": "3", "lastGoodVersion": "2" }));
        assert_eq!(earlier(&failed).unwrap(), "2");
        let failure = json!({ "state": "Waiting", "failure": { "version": "3" } });
        let gone_back = json!({ "desiredVersion": "2", "lastGoodVersion": "2", "rollout": failure });
        assert_eq!(earlier(&object(gone_back)).unwrap(), "2", "it is desired again");
        let history = [past("Complete", "2", "3"), past("Failed", "1", "9"), past("Complete", "0", "1")];
        let ran = json!({ "history": history });
        let complete = object(json!({ "desiredVersion": "3", "lastGoodVersion": "3", "rollout": ran }));
        assert_eq!(earlier(&complete).unwrap(), "1", "what failed is none");
        let first = object(json!({ "desiredVersion": "3", "lastGoodVersion": "3" }));
        assert!(earlier(&first).unwrap_err().contains("no earlier version"));
    }
}
