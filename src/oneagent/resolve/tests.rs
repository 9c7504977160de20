//! What a spec means, and what of it is refused with which words.
//!
//! Places are tried with the engine; this is only what is in the object.

use super::*;
use serde_json::json;

fn spec(value: serde_json::Value) -> Result<Resolved, Vec<Refusal>> {
    let mut value = value;
    value["apiUrl"] = value.get("apiUrl").cloned().unwrap_or_else(|| json!("https://e.example/api"));
    resolve(&OneAgent::new("agents", serde_json::from_value(value).unwrap()))
}

#[test]
fn empty_means_unset() {
    let r = spec(json!({"tokens": "", "image": "", "nodeSelector": {}, "env": [], "tolerations": [],
        "waitReadySeconds": 0, "agentVersion": "", "customPullSecret": "", "proxy": {"value": "", "valueFrom": ""},
        "trustedCAs": ""}))
    .unwrap();
    assert_eq!((r.tokens.as_str(), r.pod.image, r.wish), ("agents", None, Wish::Newest));
    assert_eq!(r.policy.wait_ready, TimeDelta::seconds(300));
    assert!(r.proxy.is_none() && r.trusted_cas.is_none() && r.from_image.is_none());
}

#[test]
fn what_is_wrong_is_named_by_field_and_all_at_once() {
    let wrong = spec(json!({"apiUrl": "ftp://x", "resources": {"limits": {"memory": "1.5Gx"}},
        "tolerations": [{"operator": "Exist"}], "dnsPolicy": "x", "rollout": {"maxUnavailable": "0%"},
        "env": [{"name": ""}]}))
    .unwrap_err();
    let all: String = wrong.iter().map(|r| r.0.clone() + "\n").collect();
    for field in [
        "spec.apiUrl",
        "spec.resources.limits.memory",
        "spec.tolerations[0].operator",
        "spec.dnsPolicy",
        "spec.rollout.maxUnavailable",
        "spec.env[0].name",
    ] {
        assert!(all.contains(field), "{field} is not in\n{all}");
    }
}

#[test]
fn a_person_can_promote_only_what_a_version_names() {
    let canary = json!({ "canary": { "nodes": 1, "promotion": "Manual" } });
    assert!(spec(json!({ "rollout": canary })).is_ok());
    let own = spec(json!({ "env": [{ "name": SCRIPT_URL, "value": "https://own.example/install.sh" }],
        "rollout": canary }));
    let wrong: String = own.unwrap_err().into_iter().map(|refusal| refusal.0).collect();
    assert!(wrong.starts_with("spec.rollout.canary.promotion is Manual, and"), "{wrong}");
}

#[test]
fn tolerations_that_the_api_server_would_refuse_are_refused_here() {
    for wrong in [
        json!({"key": "a", "operator": "Exists", "value": "b"}),
        json!({"value": "b"}),
        json!({"key": "a", "effect": "Never"}),
        json!({"key": "a", "tolerationSeconds": 5, "effect": "NoSchedule"}),
    ] {
        assert!(spec(json!({"tolerations": [wrong]})).is_err(), "{wrong}");
    }
    assert!(spec(json!({"tolerations": [{"operator": "Exists"}, {"key": "a", "effect": ""}]})).is_ok());
}

#[test]
fn the_installer_address_that_old_releases_wrote_counts_as_unset_and_any_other_is_the_users() {
    let old =
        spec(json!({"env": [{"name": SCRIPT_URL, "value": format!("https://e.example/api{OLD_DEFAULT}")}]})).unwrap();
    assert_eq!(old.wish, Wish::Newest);
    assert!(old.pod.env.is_empty());
    for own in [
        "https://mirror.example/agent.sh".to_owned(),
        // The form that the vendor's own pages hand out: another architecture, or by another host.
        format!("https://e.example/api{}", OLD_DEFAULT.replace("arch=x86", "arch=arm")),
        format!("https://activegate.example/e/id/api{OLD_DEFAULT}"),
    ] {
        let own = spec(json!({"env": [{"name": SCRIPT_URL, "value": own}]})).unwrap();
        assert_eq!(own.wish, Wish::UserUrl);
        assert!(own.placement.architectures.is_empty());
    }
}

#[test]
fn values_that_the_original_took_are_taken_and_what_they_do_is_said() {
    let taken = spec(json!({"agentVersion": "new",
        "env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}],
        "webhookInjection": true}))
    .unwrap();
    assert_eq!(taken.wish, Wish::Newest);
    let env: Vec<(&str, Option<&str>)> = taken.pod.env.iter().map(|e| (e.name.as_str(), e.value.as_deref())).collect();
    assert_eq!(env, [("B", None), ("A", Some("2"))], "as in a container");
    for words in ["spec.agentVersion is \"new\"", "names A twice", "spec.webhookInjection switches"] {
        assert!(taken.warnings.iter().any(|warning| warning.contains(words)), "{words}: {:?}", taken.warnings);
    }
}

#[test]
fn a_pin_and_an_agent_version_must_agree() {
    assert!(spec(json!({"agentVersion": "1.2.3", "update": {"version": "1.2.4.20250101-000000"}})).is_err());
    assert!(matches!(
        spec(json!({"agentVersion": "1.2.3", "update": {"version": "1.2.3.20250101-000000"}})).unwrap().wish,
        Wish::Pin { .. }
    ));
}

#[test]
fn an_affinity_that_the_api_server_would_refuse_is_refused_by_its_place() {
    let required = |terms: serde_json::Value| {
        let required = json!({ "nodeSelectorTerms": terms });
        json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } })
    };
    for (terms, words) in [
        (json!([]), "is empty"),
        (json!([{}]), "[0] has no requirement"),
        (json!([{"matchExpressions": [{"key": "a", "operator": "Is"}]}]), "matchExpressions[0]: operator is"),
        (json!([{"matchExpressions": [{"key": "a", "operator": "In"}]}]), "needs values"),
        (json!([{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}]), "takes no values"),
        (json!([{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["b"]}]}]), "whole number"),
        (json!([{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["b"]}]}]), "only metadata.name"),
        (json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}]), "one value"),
        (json!(vec![json!({}); 257]), "has 257 terms"),
        (json!([{"matchExpressions": [{"key": "a", "operator": "In", "values": vec!["b"; 10_000]}]}]), "10001 req"),
    ] {
        let wrong = spec(required(terms)).unwrap_err();
        assert!(wrong.len() == 1 && wrong[0].0.contains(words), "{words}: {wrong:?}");
    }
    let good = spec(required(json!([{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["c"]}]}])));
    assert_eq!(good.unwrap().placement.terms[0].len(), 2);
}

#[test]
fn a_pinned_architecture_selects_its_installer_and_needs_no_affinity() {
    let arm = spec(json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}})).unwrap();
    assert_eq!(arm.pod.installer_arch, "arm");
    assert!(arm.placement.architectures.is_empty());
    assert!(spec(json!({"nodeSelector": {"kubernetes.io/arch": "mips"}})).is_err());
}

#[test]
fn another_system_than_linux_is_refused_by_its_name() {
    for key in ["kubernetes.io/os", "beta.kubernetes.io/os"] {
        let wrong = spec(json!({"nodeSelector": {key: "windows"}})).unwrap_err();
        assert!(wrong[0].0.contains("windows") && wrong[0].0.contains("spec.nodeSelector"), "{wrong:?}");
        assert!(spec(json!({"nodeSelector": {key: "linux"}})).is_ok());
    }
}

#[test]
fn the_default_request_of_cpu_is_no_more_than_the_limit() {
    let request = |resources: serde_json::Value| {
        spec(json!({ "resources": resources })).unwrap().pod.resources.requests.unwrap()["cpu"].0.clone()
    };
    for (limit, wanted) in [("50m", "50m"), ("0.05", "0.05"), ("100m", "100m"), ("1", "100m")] {
        assert_eq!(request(json!({"limits": {"cpu": limit, "memory": "256Mi"}})), wanted);
    }
    assert_eq!(request(json!({"limits": {"cpu": "50m"}, "requests": {"cpu": "20m"}})), "20m");
    assert_eq!(request(json!({})), "100m");
}

#[test]
fn virtual_nodes_are_left_out_whosever_they_are() {
    use crate::k8s::node::Node;
    use crate::k8s::placement::Verdict;
    let placement = spec(json!({"tolerations": [{"operator": "Exists"}]})).unwrap().placement;
    let verdict = |label: (&str, &str)| {
        let labels = [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64"), label];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        placement.verdict(&Node { labels, ..Node::named("n") })
    };
    for label in [
        ("type", "virtual-kubelet"),
        ("liqo.io/type", "virtual-node"),
        ("virtualization", "virtualnode2"),
        ("node.kubernetes.io/instance-type", "eklet"),
    ] {
        assert_eq!(verdict(label), Verdict::NotMatching, "{label:?}");
    }
    assert_eq!(verdict(("node.kubernetes.io/instance-type", "m5.large")), Verdict::Selected);
}
