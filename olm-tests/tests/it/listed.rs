//! `update.source: ConfigMap`: versions that a ConfigMap lists, for sites whose operator cannot reach the environment.

use olm_tests::lab::{Lab, SOON, V1, V2, V3};
use serde_json::json;

#[test]
fn versions_of_a_config_map_are_rolled_out_without_a_word_to_the_environment() {
    olm_tests::run(async {
        let lab = Lab::new("update-listed", 2).await;
        let list = |text: &str| {
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "versions", "namespace": lab.name }, "data": { "versions": text } });
            lab.cluster.apply(&map.to_string());
        };
        for version in [V2, V3] {
            lab.cluster.vendor.publish(&lab.name, version);
        }
        lab.oneagent(&json!({ "update": { "source": "ConfigMap", "configMap": { "name": "versions" } } }));
        let said = lab.condition("agent", "Degraded", "True", "VersionListInvalid").await;
        assert!(said.contains("spec.update.configMap: ConfigMap update-listed/versions does not exist"), "{said}");
        list(&format!("# mirrored\n{V1}\n"));
        lab.all_at("agent", V1, 2, SOON).await;
        assert_eq!(lab.status("agent").await.version_source.as_deref(), Some("ConfigMap"));
        let before = lab.uids("agent").await;
        // What makes no sense, is empty or gone touches nobody, and a restart forgets nothing.
        for (text, why) in [("1.2", "\"1.2\""), ("\n", "is empty")] {
            list(text);
            let said = lab.says("agent", "Degraded", why).await;
            assert!(said.contains("agents keep their version"), "{said}");
        }
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", "versions"]);
        lab.says("agent", "Degraded", "does not exist").await;
        assert_eq!(lab.uids("agent").await, before);
        list(&format!("{V1}\n{V2}\n"));
        lab.all_at("agent", V2, 2, SOON).await;
        // One that is taken out of the list is not gone back from; a pin is bound to the list.
        list(&format!("{V1}\n"));
        lab.edit("agent", json!({ "update": { "version": V3 } })).await;
        lab.condition("agent", "Degraded", "True", "VersionNotOffered").await;
        list(&format!("{V3}\n{V1}\n"));
        lab.all_at("agent", V3, 2, SOON).await;
        let calls = lab.cluster.vendor.with(&lab.name, |environment| environment.calls.clone());
        assert!(calls.is_empty(), "{calls:?}");
        let patch = json!({ "spec": { "update": { "configMap": null } } }).to_string();
        let args = ["-n", &lab.name, "patch", "oneagent", "agent", "--type=merge", "-p", &patch];
        let refused = lab.cluster.try_kubectl(&args, None).unwrap_err();
        assert!(refused.contains("source ConfigMap needs configMap.name"), "{refused}");
        // Back to the environment.
        lab.edit("agent", json!({ "update": null })).await;
        lab.condition("agent", "PaaSToken", "True", "TokenReady").await;
        lab.all_at("agent", V3, 2, SOON).await;
        assert_eq!(lab.status("agent").await.version_source.as_deref(), Some("Api"));
        lab.end().await;
    });
}
