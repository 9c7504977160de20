//! Drift: whatever field of ours another client changes, or object it deletes, is put back; its own fields stay.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use olm_tests::lab::{LONG, Lab, SOON, is_ready};
use olm_tests::{eventually, run};
use serde_json::{Value, json};

use super::{claims, others, standing, uids};

/// An object of each kind that a Manager owns; the workloads last.
const OBJECTS: [(&str, &str); 6] = [
    ("ConfigMap", "config1-config-configmap"),
    ("Secret", "config1-config-secret"),
    ("Service", "config1-config"),
    ("PodDisruptionBudget", "zookeeper1-zookeeper"),
    ("StatefulSet", "config1-config-statefulset"),
    ("DaemonSet", "vrouterworkernodes-vrouter-daemonset"),
];

/// Objects of a kind in the lab's namespace.
fn api(lab: &Lab<'_>, kind: &str) -> Api<DynamicObject> {
    let group = match kind {
        "StatefulSet" | "DaemonSet" => "apps",
        "PodDisruptionBudget" => "policy",
        _ => "",
    };
    let of = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(lab.cluster.client.clone(), &lab.name, &of)
}

/// All that clients write of an object: no status, and nothing that Kubernetes counts or gives it.
fn written(object: &DynamicObject) -> Value {
    let mut content = object.data.clone();
    content.as_object_mut().expect("an object").remove("status");
    for address in ["clusterIP", "clusterIPs"] {
        content["spec"].as_object_mut().map(|spec| spec.remove(address));
    }
    let mut annotations = object.annotations().clone();
    annotations.remove("deprecated.daemonset.template.generation");
    json!({ "labels": object.labels(), "annotations": annotations, "owners": object.owner_references(),
        "content": content })
}

fn replace(path: &str, value: &Value) -> Value {
    json!([{ "op": "replace", "path": path, "value": value }])
}

fn add(path: &str, value: &Value) -> Value {
    json!([{ "op": "add", "path": path, "value": value }])
}

fn remove(path: &str) -> Value {
    json!([{ "op": "remove", "path": path }])
}

/// Changes of an object of this kind, each of a field that is ours, or in a part that is ours as a whole.
fn changes(kind: &str, object: &DynamicObject) -> Vec<Value> {
    let mut all = vec![
        replace("/metadata/labels/contrail_cluster", &json!("other")),
        remove("/metadata/labels/contrail_manager"),
        replace("/metadata/annotations/oneagent.dynatrace.com~1applied", &json!("other")),
        remove("/metadata/ownerReferences"),
    ];
    all.extend(match kind {
        "ConfigMap" | "Secret" => {
            let entries = object.data["data"].as_object().expect("entries");
            let is_file = |key: &&String| !key.contains("revision-") && *key != "extra";
            let file = format!("/data/{}", entries.keys().find(is_file).expect("a file"));
            vec![replace(&file, &json!("b3RoZXI=")), remove(&file)]
        }
        "Service" => vec![
            replace("/spec/ports/0/port", &json!(9999)),
            replace("/spec/selector/config", &json!("other")),
            remove("/spec/ports/1"),
            replace("/spec/type", &json!("NodePort")),
        ],
        "PodDisruptionBudget" => vec![
            replace("/spec/maxUnavailable", &json!(0)),
            json!([{ "op": "remove", "path": "/spec/maxUnavailable" },
                { "op": "add", "path": "/spec/minAvailable", "value": 1 }]),
            replace("/spec/selector/matchLabels/zookeeper", &json!("other")),
        ],
        _ => of_template(),
    });
    if kind == "StatefulSet" {
        // The controller of DaemonSets removes Pods at once where these no longer match.
        all.push(add("/spec/template/spec/nodeSelector/other", &json!("one")));
        all.push(remove("/spec/template/spec/affinity"));
        all.push(ghost());
        let addresses = "/metadata/annotations/oneagent-operator.github.io~1addresses";
        all.push(replace(addresses, &json!("ghost=10.9.9.9")));
        all.push(remove(addresses));
        all.push(remove("/spec/template/spec/containers/1"));
    }
    if kind == "DaemonSet" {
        all.push(replace("/spec/template/spec/containers/0/securityContext/privileged", &json!(false)));
        all.push(replace("/spec/template/spec/volumes/0/hostPath/path", &json!("/other")));
    }
    all
}

/// One node more that a StatefulSet's servers may run on; it does not exist.
fn ghost() -> Value {
    let terms = "nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let fields = json!([{ "key": "metadata.name", "operator": "In", "values": ["ghost"] }]);
    add(&format!("/spec/template/spec/affinity/{terms}/-"), &json!({ "matchFields": fields }))
}

/// Changes of a workload. The strategy comes first: while it is another one, no template has changed.
fn of_template() -> Vec<Value> {
    let (spec, container) = ("/spec/template/spec", "/spec/template/spec/containers/0");
    let metadata = "/spec/template/metadata";
    vec![
        replace("/spec/updateStrategy", &json!({ "type": "RollingUpdate" })),
        replace(&format!("{container}/image"), &json!("other:1")),
        replace(&format!("{container}/command"), &json!(["other"])),
        replace(&format!("{spec}/initContainers/0/env/1/value"), &json!("/other")),
        add(&format!("{container}/env/-"), &json!({ "name": "OTHER", "value": "1" })),
        remove(&format!("{container}/volumeMounts/0")),
        replace(&format!("{spec}/tolerations"), &json!([])),
        replace(&format!("{spec}/hostNetwork"), &json!(false)),
        replace(&format!("{spec}/serviceAccountName"), &json!("default")),
        add(&format!("{spec}/containers/-"), &json!({ "name": "other", "image": "other:1" })),
        remove(&format!("{spec}/initContainers/1")),
        add(&format!("{metadata}/labels/other"), &json!("one")),
        // As `kubectl rollout restart` does.
        add(&format!("{metadata}/annotations/kubectl.kubernetes.io~1restartedAt"), &json!("2000-01-01T00:00:00Z")),
    ]
}

/// Waits until an object is as it was.
async fn is_again(api: &Api<DynamicObject>, before: &DynamicObject, after: &str) {
    let (name, wanted) = (before.name_any(), written(before));
    eventually(&format!("{name} is as before {after}"), SOON, || async {
        let now = api.get_opt(&name).await.expect("an answer").ok_or("it is not there")?;
        if now.metadata.deletion_timestamp.is_none() && written(&now) == wanted {
            Ok(())
        } else {
            Err(written(&now).to_string())
        }
    })
    .await;
}

/// Changes an object as another client does, and waits until it is as it was.
async fn is_put_back(api: &Api<DynamicObject>, whole: &DynamicObject, change: Value) {
    let (name, said) = (whole.name_any(), change.to_string());
    let patch = Patch::<Value>::Json(serde_json::from_value(change).expect("a patch"));
    let changed = api.patch(&name, &PatchParams::default(), &patch).await;
    let changed = changed.unwrap_or_else(|why| panic!("{name}, {said}: {why}"));
    assert_ne!(written(&changed), written(whole), "{said} changes nothing");
    is_again(api, whole, &said).await;
}

#[test]
fn every_owned_field_is_put_back_and_foreign_ones_stay() {
    run(async {
        let lab = standing("stack-fields", 1, 1).await;
        let before = uids(&lab).await;
        let params = PatchParams::default();
        for (kind, name) in OBJECTS {
            let api = api(&lab, kind);
            let notes = json!({ "labels": { "team": "other" }, "annotations": { "note": "kept" } });
            let mut theirs = json!({ "metadata": notes });
            if kind == "ConfigMap" || kind == "Secret" {
                theirs["data"] = json!({ "extra": "b3RoZXI=" });
            }
            let whole = api.patch(name, &params, &Patch::Merge(theirs)).await.expect("foreign fields");
            for change in changes(kind, &whole) {
                is_put_back(&api, &whole, change).await;
            }
        }
        // A store's are as many as what identifies it names.
        let sets = api(&lab, "StatefulSet");
        let store = sets.get("zookeeper1-zookeeper-statefulset").await.expect("an object");
        is_put_back(&sets, &store, ghost()).await;
        // Entries without content: a Pod waits for them when it starts.
        for (kind, name) in &OBJECTS[..2] {
            let api = api(&lab, kind);
            let whole = api.get(name).await.expect("an object");
            let mut entries = whole.data["data"].as_object().expect("entries").keys();
            let mark = entries.find(|key| key.contains("revision-")).expect("a mark");
            is_put_back(&api, &whole, remove(&format!("/data/{mark}"))).await;
        }
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(others(&before, &uids(&lab).await), [] as [String; 0], "no Pod is made from what is put back");
        lab.end().await;
    });
}

/// What an administrator does in haste: the operator is stopped, an image is changed, and Pods are deleted.
#[test]
fn pods_of_anothers_image_are_replaced_when_the_operator_is_back() {
    run(async {
        let mut lab = standing("stack-hasty", 3, 2).await;
        let before = uids(&lab).await;
        let pods: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let of_nodes = lab.stack_pods().await.into_iter().map(|pod| pod.name_any());
        let vrouter = of_nodes.into_iter().find(|name| name.starts_with("vrouterworkernodes")).expect("a vRouter");
        let server = "config1-config-statefulset-1".to_owned();
        lab.operators.clear();
        for (workload, container) in [
            ("statefulset/config1-config-statefulset", "api"),
            ("daemonset/vrouterworkernodes-vrouter-daemonset", "vrouteragent"),
        ] {
            let image = format!("{container}=hasty:1");
            lab.cluster.kubectl(&["-n", &lab.name, "set", "image", workload, &image]);
        }
        let all = async || {
            let count = lab.stack_pods().await.iter().filter(|pod| is_ready(pod)).count();
            if count == before.len() { Ok(()) } else { Err(format!("{count} of {}", before.len())) }
        };
        for pod in [&server, &vrouter] {
            pods.delete(pod, &DeleteParams::default()).await.expect("a Pod");
            eventually("the Pod is gone", SOON, || async {
                let now = uids(&lab).await;
                if now.get(pod) == before.get(pod) { Err("it is there".to_owned()) } else { Ok(()) }
            })
            .await;
        }
        eventually("all are Ready", SOON, all).await;
        let hasty = async |lab: &Lab<'_>| {
            let runs = |pod: &Pod| {
                pod.spec.iter().flat_map(|spec| &spec.containers).any(|one| one.image.as_deref() == Some("hasty:1"))
            };
            lab.stack_pods().await.iter().filter(|pod| runs(pod)).count()
        };
        assert_eq!(hasty(&lab).await, 2);
        lab.start_operator(&[]).await;
        eventually("none has another image", LONG, || async {
            let count = hasty(&lab).await;
            if count == 0 { Ok(()) } else { Err(format!("{count} {:#?}", lab.stack_status().await)) }
        })
        .await;
        lab.stack_says("Ready", "AllServing").await;
        let mut changed = others(&before, &uids(&lab).await);
        changed.retain(|name| !name.starts_with("vrouterworkernodes"));
        assert_eq!(changed, [server], "no other server notices");
        lab.end().await;
    });
}

#[test]
fn an_object_of_each_kind_that_is_deleted_is_made_again() {
    run(async {
        let lab = standing("stack-deleted", 1, 1).await;
        let pods = uids(&lab).await;
        for (kind, name) in OBJECTS {
            if kind == "StatefulSet" {
                assert_eq!(others(&pods, &uids(&lab).await), [] as [String; 0], "no Pod restarts for these");
            }
            let api = api(&lab, kind);
            let before = api.get(name).await.expect("an object");
            api.delete(name, &DeleteParams::background()).await.expect("deleted");
            is_again(&api, &before, "it was deleted").await;
            assert_ne!(api.get(name).await.expect("an object").uid(), before.uid(), "{kind} {name}");
        }
        lab.stack_says("Ready", "AllServing").await;
        lab.end().await;
    });
}

#[test]
fn files_that_a_user_made_immutable_are_created_again_when_they_change() {
    run(async {
        let lab = standing("stack-frozen", 1, 0).await;
        let before = uids(&lab).await;
        let mut frozen = Vec::new();
        for (kind, name) in [("ConfigMap", "webui1-webui-configmap"), ("Secret", "webui1-webui-secret")] {
            let api = api(&lab, kind);
            let immutable = Patch::Merge(json!({ "immutable": true }));
            let object = api.patch(name, &PatchParams::default(), &immutable).await.expect("an object");
            frozen.push((api, object));
        }
        lab.config("webui1-webui-templates", &json!({ "redis": "port 6381\nrequirepass {{ secrets.webui.redis }}\n" }));
        for (api, was) in &frozen {
            eventually(&format!("there is another {}", was.name_any()), SOON, || async {
                let now = api.get_opt(&was.name_any()).await.expect("an answer").ok_or("it is not there")?;
                if now.uid() != was.uid() && now.data["immutable"].is_null() {
                    Ok(())
                } else {
                    Err(format!("{:#?}", lab.stack_status().await))
                }
            })
            .await;
        }
        eventually("the web UI has started again", LONG, || async {
            let now = others(&before, &uids(&lab).await);
            if now == ["webui1-webui-statefulset-0"] { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        lab.stack_says("Ready", "AllServing").await;
        lab.end().await;
    });
}

/// What no owner takes along: passwords, numbers, and the authority of certificates.
async fn identities(lab: &Lab<'_>) -> BTreeMap<String, Option<BTreeMap<String, ByteString>>> {
    let secrets: Api<Secret> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let all = secrets.list(&ListParams::default().labels("contrail_manager")).await.expect("Secrets").items;
    let kept = all.into_iter().filter(|secret| secret.owner_references().is_empty());
    kept.map(|secret| (secret.name_any(), secret.data)).collect()
}

#[test]
fn what_identifies_a_store_outlives_its_entry_and_the_manager() {
    run(async {
        let mut lab = standing("stack-kept", 1, 0).await;
        let before = uids(&lab).await;
        let kept = (identities(&lab).await, claims(&lab).await);
        // Three stores, three others with passwords, and the authority.
        assert_eq!((kept.0.len(), kept.1.len()), (7, 3), "{:?}", kept.0.keys());
        lab.edit_stack(json!({ "services": { "zookeepers": [], "rabbitmq": null } })).await;
        eventually("the Pods of two stores are gone", SOON, || async {
            let now = uids(&lab).await;
            if now.len() == before.len() - 2 { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        lab.component_says("config1", "there is no zookeeper zookeeper1").await;
        assert_eq!((identities(&lab).await, claims(&lab).await), kept);
        let services = &lab.stack()["spec"]["services"];
        let again = json!({ "zookeepers": services["zookeepers"], "rabbitmq": services["rabbitmq"] });
        lab.edit_stack(json!({ "services": again })).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!((identities(&lab).await, claims(&lab).await), kept);
        let stores = ["rabbitmq1-rabbitmq-statefulset-0", "zookeeper1-zookeeper-statefulset-0"];
        assert_eq!(others(&before, &uids(&lab).await), stores, "those that need them do not restart");
        // Neither a status nor an operator remembers it.
        lab.operators.clear();
        let wiped = Patch::Merge(json!({ "status": null }));
        lab.stacks().patch_status("cluster1", &PatchParams::default(), &wiped).await.expect("a wiped status");
        lab.start_operator(&[]).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!((identities(&lab).await, claims(&lab).await), kept);
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "manager", "cluster1"]);
        lab.has_pods(0).await;
        assert_eq!((identities(&lab).await, claims(&lab).await), kept);
        lab.cluster.apply(&lab.stack().to_string());
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!((identities(&lab).await, claims(&lab).await), kept);
        lab.end().await;
    });
}
