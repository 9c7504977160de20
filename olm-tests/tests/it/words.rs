//! A person's word about a version, on a real API server: others follow its canaries, or it has failed.
//!
//! Must not try who is a canary.

use olm_tests::lab::{LONG, Lab, SOON, V1, V2, V3};
use olm_tests::pages::Shell;
use serde_json::json;

#[test]
fn where_a_person_promotes_others_follow_and_what_is_rejected_is_rolled_back() {
    olm_tests::run(async {
        let lab = Lab::new("promoted", 4).await;
        let canary = json!({ "nodes": 1, "soak": "1s", "promotion": "Manual" });
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 2, "canary": canary, "onFailure": "Rollback" } }));
        lab.all_at("agent", V1, 4, SOON).await;
        lab.behave(|behaviour| behaviour.refuse_downgrade = false);
        lab.cluster.vendor.publish(&lab.name, V2);
        // As printed.
        let shell = Shell::new(lab.cluster);
        let commands = async |version: &str| {
            lab.reached("agent", version, 1).await;
            let said = lab.condition("agent", "Progressing", "True", "AwaitingPromotion").await;
            let of = |command: &str| format!("kubectl {}", command.trim_end_matches("; or: "));
            let commands: Vec<String> = said.split("kubectl ").skip(1).map(of).collect();
            assert!(commands.len() == 2 && commands.iter().all(|command| command.contains(version)), "{said}");
            commands
        };
        shell.run(&commands(V2).await[0], &[]);
        lab.all_at("agent", V2, 4, LONG).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        // The word was about that version; the next one is rejected, and is rolled back.
        lab.cluster.vendor.publish(&lab.name, V3);
        shell.run(&commands(V3).await[1], &[]);
        lab.all_at("agent", V2, 4, LONG).await;
        let status = lab.status("agent").await;
        assert_eq!(status.rejected_versions, [V3]);
        // Said no more, it is a version like any other.
        lab.edit("agent", json!({ "rollout": { "reject": null, "promote": V3 } })).await;
        lab.all_at("agent", V3, 4, LONG).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        assert_eq!(lab.status("agent").await.rejected_versions, [] as [String; 0]);
        lab.end().await;
    });
}
