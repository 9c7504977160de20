//! Certificates of a stack, with programs that use them: each connects to all others, and says what is refused.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use olm_tests::eyes::Eyes;
use olm_tests::lab::entries::service;
use olm_tests::lab::{LONG, Lab, SOON, is_ready};
use olm_tests::{eventually, run};
use serde_json::{Value, json};

const OWN: &str = "one-secret-certificates";
const AUTHORITY: &str = "authority";
const BUNDLE: &str = "authorities";
/// Another stack: servers that all talk to each other.
const TABLE: &str = "labels: { kind: contrail_manager }
storageClass: local-storage
serviceAccount: default
filesPath: /run/stack
waits: [sh, -c, 'for file in $AWAITS; do until [ -e \"$file\" ]; do sleep 1; done; done']
certificates: { authority: authority, bundle: authorities, path: /run/certificates }
rows:
- kind: peer
  key: webui
  workload: StatefulSet
  certificates: true
  init: [init]
  containers: [peer]
  commands: { peer: [/dev/image/bin/peer] }
  files: { peers: \"{% for peer in peers %}{{ peer.address }}\\n{% endfor %}\" }
";

/// A file with it.
fn table(lab: &Lab<'_>) -> String {
    let file = lab.cluster.path(&format!("{}.table", lab.name));
    std::fs::write(&file, TABLE).expect("a table");
    file.display().to_string()
}

/// A stack of such servers, all of which serve.
async fn stands(name: &str, masters: usize) -> Lab<'static> {
    let mut lab = Lab::of_real_stacks(name, masters).await;
    lab.operators.clear();
    lab.start_operator(&[("TABLE", &table(&lab))]).await;
    let container = |name: &str, image: &str| json!({ "name": name, "image": image });
    let containers = [container("init", "rig/shell:1"), container("peer", "rig/peer:1")];
    let one = service("one", &containers.into());
    lab.cluster.apply(&lab.stack_of(json!({ "webui": one })).to_string());
    lab.stack_says("Ready", "AllServing").await;
    lab
}

async fn secret(lab: &Lab<'_>, name: &str) -> Secret {
    let api: Api<Secret> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    api.get(name).await.expect("a Secret")
}

/// The periods for which certificates were issued, and the authorities that are trusted.
async fn known(lab: &Lab<'_>) -> (BTreeSet<String>, BTreeSet<String>) {
    let maps: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let marks = |keys: Vec<String>, of: &str| keys.into_iter().filter(|key| key.starts_with(of)).collect();
    let own = secret(lab, OWN).await.data.unwrap_or_default().into_keys().collect();
    let all = maps.get(BUNDLE).await.expect("a ConfigMap").data.unwrap_or_default().into_keys().collect();
    (marks(own, "issued-"), marks(all, "trusts-"))
}

/// Waits until there are so many periods and authorities, and all servers have the newest; meanwhile, no connection is
/// refused.
async fn settled(lab: &Lab<'_>, counts: (usize, usize)) {
    eventually(&format!("{counts:?} periods and authorities are there, and read"), LONG, || async {
        assert_eq!(refused(lab).await, Vec::<String>::new());
        let (own, all) = known(lab).await;
        let issued = &secret(lab, OWN).await.data.expect("data")["issued"].0;
        let issued: Value = serde_json::from_slice(issued).expect("JSON");
        let to: DateTime<Utc> = issued["to"].as_str().expect("a time").parse().expect("a time");
        let newest =
            format!("issued-{}-{}", to.timestamp_micros(), issued["authority"].as_str().expect("an authority"));
        let awaits = |pod: &Pod| {
            let first = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()?.first()?.env.clone());
            first.into_iter().flatten().any(|one| one.value.is_some_and(|value| value.contains(&newest)))
        };
        let pods = lab.stack_pods().await;
        let are_new = pods.iter().all(|pod| awaits(pod) && is_ready(pod));
        if (own.len(), all.len()) == counts && are_new { Ok(()) } else { Err(format!("{own:?} {all:?} {are_new}")) }
    })
    .await;
    lab.stack_says("Ready", "AllServing").await;
    assert_eq!(refused(lab).await, Vec::<String>::new());
}

/// What servers that run said so far of connections that were refused.
async fn refused(lab: &Lab<'_>) -> Vec<String> {
    let mut said = Vec::new();
    for pod in lab.stack_pods().await {
        let log = lab.cluster.kubelet.real.with(&pod, "peer", |container| container.log()).unwrap_or_default();
        said.extend(log.lines().filter(|line| line.starts_with("refused")).map(str::to_owned));
    }
    said
}

#[test]
fn certificates_and_their_authority_are_renewed_and_no_connection_is_refused_for_it() {
    run(async {
        let lab = stands("certificates-renewed", 3).await;
        let (own, all) = known(&lab).await;
        assert_eq!((own.len(), all.len(), refused(&lab).await), (1, 1, Vec::new()));
        let eyes = Eyes::on_replicas(&lab, "contrail_manager=peer", 3).await;
        // A year is too long for some users.
        lab.edit_stack(json!({ "certificates": { "lifetime": "720h" } })).await;
        settled(&lab, (2, 1)).await;
        assert_eq!(eyes.seen().await.others_ready, [2, 2, 2], "one at a time, each once");
        // And so are ten: all trust the next authority before it signs, each server starts twice.
        lab.edit_stack(json!({ "certificates": { "lifetime": "720h", "authorityLifetime": "8760h" } })).await;
        settled(&lab, (3, 2)).await;
        assert_eq!(eyes.seen().await.others_ready, [2; 9]);
        lab.end().await;
    });
}

#[test]
fn a_deleted_or_changed_object_is_recreated_or_reported_and_what_runs_continues() {
    run(async {
        let mut lab = stands("certificates-touched", 1).await;
        let secrets: Api<Secret> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let maps: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let before = secret(&lab, AUTHORITY).await;
        let server = lab.stack_pods().await.remove(0).uid();
        // The bundle comes back as it was.
        let bundle = maps.get(BUNDLE).await.expect("a ConfigMap").data;
        maps.delete(BUNDLE, &DeleteParams::default()).await.expect("deleted");
        let is_back = async || {
            let now = maps.get_opt(BUNDLE).await.expect("an answer").and_then(|map| map.data);
            if now == bundle { Ok(()) } else { Err(format!("{now:?}")) }
        };
        eventually("the bundle is back", SOON, is_back).await;
        let damage = Patch::Merge(json!({ "data": { "ca-bundle.crt": "text", "more": "text" } }));
        maps.patch(BUNDLE, &PatchParams::default(), &damage).await.expect("a ConfigMap");
        eventually("the bundle is fixed", SOON, is_back).await;
        // The authority is not made again: no client would trust it.
        secrets.delete(AUTHORITY, &DeleteParams::default()).await.expect("deleted");
        let status = lab.stack_says("Degraded", "AuthorityUnusable").await;
        assert_eq!(status.summary.expect("counts").progress, "1/1");
        assert_eq!(lab.stack_pods().await.remove(0).uid(), server, "what runs continues");
        lab.operators.clear();
        lab.start_operator(&[("TABLE", &table(&lab))]).await;
        lab.stack_says("Degraded", "AuthorityUnusable").await;
        assert!(secrets.get_opt(AUTHORITY).await.expect("an answer").is_none());
        let mut restored: Value = serde_json::to_value(&before).expect("JSON");
        for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields"] {
            restored["metadata"].as_object_mut().expect("an object").remove(field);
        }
        lab.cluster.apply(&restored.to_string());
        lab.stack_says("Degraded", "AsExpected").await;
        // Certificates that are gone, or of which one was changed, are issued again.
        for change in [None, Some(json!({ "data": { "issued": null } }))] {
            let pod = lab.stack_pods().await.remove(0).uid();
            let gone = secret(&lab, OWN).await.resource_version();
            match change {
                None => drop(secrets.delete(OWN, &DeleteParams::default()).await.expect("deleted")),
                Some(change) => {
                    secrets.patch(OWN, &PatchParams::default(), &Patch::Merge(change)).await.expect("a Secret");
                }
            }
            eventually("others are there, and read", LONG, || async {
                let now = secrets.get_opt(OWN).await.expect("an answer").and_then(|secret| secret.resource_version());
                let pods = lab.stack_pods().await;
                let is_read = pods.first().is_some_and(|one| one.uid() != pod && is_ready(one));
                if now.is_some() && now != gone && is_read { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
        }
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(refused(&lab).await, Vec::<String>::new());
        lab.end().await;
    });
}

#[test]
fn certificates_that_run_out_need_no_event() {
    run(async {
        let lab = stands("certificates-clock", 1).await;
        lab.edit_stack(json!({ "certificates": { "lifetime": "45s" } })).await;
        eventually("they were renewed by the clock, twice", LONG, || async {
            let (own, _) = known(&lab).await;
            if own.len() >= 4 { Ok(()) } else { Err(format!("{own:?}")) }
        })
        .await;
        lab.end().await;
    });
}
