//! Operators that are restarted, killed or follow one another; a quiet minute; and rights that are all used.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, SOON};
use serde_json::json;

use super::{lab, next_second};

#[test]
fn what_changed_without_an_operator_is_acted_on_and_what_is_old_is_not() {
    olm_tests::run(async {
        let mut lab = lab("cw-away").await;
        let before = lab.uids_of("webapp").await;
        lab.operators.clear();
        lab.start_operator(&[]).await;
        // It has looked: an edit that means nothing is observed.
        lab.edit_watcher(json!({ "debounceSeconds": 4 })).await;
        lab.watcher_shows("watcher", "the edit is observed", |status| status.observed_generation == Some(2)).await;
        assert_eq!(lab.uids_of("webapp").await, before, "a restart is no change");
        lab.operators.clear();
        lab.message("two");
        next_second().await;
        lab.start_operator(&[]).await;
        lab.all_updated("two").await;
        lab.end().await;
    });
}

#[test]
fn killed_again_and_again_in_the_middle_it_does_nothing_twice() {
    olm_tests::run(async {
        let mut lab = lab("cw-killed").await;
        lab.behave(|b| b.ready_after = Duration::from_secs(1));
        let eyes = Eyes::on_replicas(&lab, "app=webapp", 4).await;
        let before = lab.uids_of("webapp").await;
        lab.message("two");
        for left in [3, 2, 1] {
            olm_tests::eventually("one more is gone", SOON, || async {
                let there = lab.uids_of("webapp").await.intersection(&before).count();
                if there <= left { Ok(()) } else { Err(there.to_string()) }
            })
            .await;
            lab.operators[0].process.signal("KILL");
            lab.operators.clear();
            lab.start_operator(&[]).await;
        }
        lab.all_updated("two").await;
        assert_eq!(eyes.seen().await.counts(), (1, 4));
        lab.end().await;
    });
}

#[test]
fn a_removed_key_is_a_change_too_though_it_leaves_no_time() {
    olm_tests::run(async {
        let lab = lab("cw-removed").await;
        lab.config("config", &json!({ "message": "one", "more": "x" }));
        lab.watcher_shows("watcher", "the addition is with all", |status| {
            status.rollout.as_ref().is_some_and(|rollout| rollout.finished_at.is_some()) && status.pending.is_none()
        })
        .await;
        next_second().await;
        let before: BTreeSet<String> = lab.uids_of("webapp").await;
        let api: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let remove = Patch::Merge(json!({ "data": { "more": null } }));
        let params = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
        api.patch("config", &params, &remove).await.unwrap();
        olm_tests::eventually("all are replaced", LONG, || async {
            let left = lab.uids_of("webapp").await.intersection(&before).count();
            if left == 0 { Ok(()) } else { Err(format!("{left}: {:?}", lab.watcher_status("watcher").await)) }
        })
        .await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        lab.end().await;
    });
}

#[test]
fn every_right_is_used_and_no_other_is_asked_for() {
    olm_tests::run(async {
        let mut lab = lab("cw-rights").await;
        // A standby follows the lease.
        lab.start_operator(&[]).await;
        lab.message("two");
        lab.all_updated("two").await;
        olm_tests::eventually("the second one stands by", SOON, || async {
            if lab.operators[1].printed().contains("standing by") { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.touch_lease().await;
        assert_eq!(lab.unused_rights(), []);
        lab.end().await;
    });
}
