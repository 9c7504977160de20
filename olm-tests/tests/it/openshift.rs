//! What is made for OpenShift and for Prometheus, by their own CRDs on a real API server; and what agents take from an
//! OpenShift cluster, whose admission is played as it was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::cluster::{Cluster, objects, repository};
use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2};
use olm_tests::olm::publisher;
use olm_tests::openshift::{Admission, REQUIRED_SCC, SCC, says, serve, updates};
use olm_tests::pages::{Shell, blocks, command};
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use oneagent_operator::olm::signatures::signatures;
use serde_json::{Value, json};

#[test]
fn what_the_console_the_mirrors_and_the_monitoring_are_given_is_valid_to_the_letter() {
    olm_tests::run(async {
        let cluster = Cluster::bare(Vec::new()).await;
        let config = |name: &str| tool("openshift-config").join(format!("0000_10_config-operator_01_{name}.crd.yaml"));
        serve(&cluster);
        let mut crds = ["imagedigestmirrorsets", "imagetagmirrorsets", "clusterimagepolicies"].map(config).to_vec();
        for name in ["consolelinks", "consolequickstarts", "consoleyamlsamples"] {
            crds.push(tool("openshift-console").join(format!("00_{name}.crd.yaml")));
        }
        for name in ["prometheusrules", "servicemonitors"] {
            crds.push(tool("prometheus-crds").join(format!("monitoring.coreos.com_{name}.yaml")));
        }
        for crd in crds {
            cluster.kubectl(&["apply", "--server-side", "-f", &crd.display().to_string()]);
        }
        cluster.established().await;
        for namespace in ["openshift-config-managed"].into_iter().chain(PACKAGES.iter().map(|p| p.namespace)) {
            cluster.kubectl(&["create", "namespace", namespace]);
        }
        let apply = |text: &str| {
            let args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
            cluster.try_kubectl(&args, Some(text))
        };
        for package in PACKAGES {
            for file in ["console.yaml", "monitoring.yaml", "secure-metrics.yaml", "disconnected/mirrors.yaml"] {
                let path = format!("config/{}/{file}", package.name);
                let text = std::fs::read_to_string(repository(&path)).unwrap();
                apply(&text).unwrap_or_else(|why| panic!("{path}: {why}"));
                // The server looks closely: a field that is none would be refused.
                let wrong = text.replacen("spec:\n", "spec:\n  mistyped: 1\n", 1);
                assert!(apply(&wrong).is_err(), "{path}");
            }
            samples_are_those_of_config(package.name);
            // Made once there is a key.
            let key = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYI\n-----END PUBLIC KEY-----\n";
            let policies = signatures(package, &publisher(), key).unwrap();
            let openshift = policies.iter().find(|file| file.path.ends_with("/openshift.yaml")).unwrap();
            apply(&openshift.content).unwrap_or_else(|why| panic!("{why}"));
            assert!(apply(&openshift.content.replace("policyType: PublicKey", "policyType: Key")).is_err());
        }
        let scc = std::fs::read_to_string(repository("config/oneagent-operator/scc-unprivileged.yaml")).unwrap();
        apply(&scc).unwrap();
        assert!(apply(&scc.replace("priority: null\n", "")).is_err(), "what may be null must be said");
        // And as the page has it.
        let shell = Shell::new(&cluster);
        shell.run(&blocks("docs/olm.md", "OpenShift's console and monitoring", "sh").remove(0), &[]);
        shell.run(&command("docs/openshift.md", "Security context constraints", "oc apply"), &[]);
        namespace_that_was_there_before(&cluster);
    });
}

/// In a project that was there before, OpenShift itself owns the labels: an apply is refused, and succeeds when it
/// insists.
fn namespace_that_was_there_before(cluster: &Cluster) {
    const SYNCER: &str = "--field-manager=pod-security-admission-label-synchronization-controller";
    let labels = ["enforce", "audit", "warn"].map(|mode| (format!("pod-security.kubernetes.io/{mode}"), "restricted"));
    let theirs = json!({ "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "dynatrace", "labels": labels.into_iter().collect::<BTreeMap<_, _>>() } });
    cluster.try_kubectl(&["apply", "--server-side", SYNCER, "-f", "-"], Some(&theirs.to_string())).unwrap();
    let ours = objects("config/oneagent-operator/install.yaml").remove(0).to_string();
    let apply =
        |more: &[&str]| cluster.try_kubectl(&[&["apply", "--server-side", "-f", "-"][..], more].concat(), Some(&ours));
    assert!(apply(&[]).unwrap_err().contains("conflict"));
    apply(&["--force-conflicts"]).unwrap();
    apply(&[]).unwrap();
}

/// The console offers the samples as they stand in `config/`, comments included.
fn samples_are_those_of_config(package: &str) {
    let all = objects(&format!("config/{package}/console.yaml"));
    let samples: Vec<&Value> = all.iter().filter(|object| object["kind"] == "ConsoleYAMLSample").collect();
    assert!(!samples.is_empty());
    for sample in samples {
        let file = format!("config/{package}/samples/{}.yaml", sample["metadata"]["name"].as_str().unwrap());
        assert_eq!(sample["spec"]["yaml"], std::fs::read_to_string(repository(&file)).unwrap());
    }
}

/// Under which SCCs the agents run.
async fn sccs(lab: &Lab<'_>) -> BTreeSet<String> {
    let of = |pod: &Pod| pod.annotations().get(SCC).cloned().unwrap_or_default();
    lab.pods("agent").await.values().map(of).collect()
}

/// What the DaemonSet's Pods ask for.
async fn asked(lab: &Lab<'_>) -> Option<String> {
    let template = lab.daemonset("agent").await?.spec?.template.metadata?;
    template.annotations.unwrap_or_default().get(REQUIRED_SCC).cloned()
}

#[test]
fn agents_ask_for_their_scc_so_that_no_foreign_one_takes_them() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        serve(&cluster);
        let lab = Lab::on(&cluster, "scc", 3).await;
        let admission = Admission::default();
        let webhook = admission.start(&cluster, &lab.name).await;
        lab.oneagent(&json!({}));
        beforehand(&cluster, &lab);
        // No grant: one line with the account and the command, whatever the long refusal begins with.
        let said = lab.condition("agent", "Degraded", "True", "PodsRefused").await;
        let command = "oc -n scc adm policy add-scc-to-user privileged -z dynatrace-oneagent";
        assert!(said.contains(command) && !said.contains("restricted-v2") && said.len() < 300, "{said}");
        // An administrator may have another SCC in mind: nothing insists while it is refused.
        eventually("nothing is asked for", SOON, || async { asked(&lab).await.map_or(Ok(()), Err) }).await;
        admission.grant();
        // Within a minute, however long the DaemonSet controller would have waited.
        lab.all_at("agent", V1, 3, SOON).await;
        eventually("agents that run under it ask for it from now on", SOON, || async {
            let asked = asked(&lab).await;
            if asked.as_deref() == Some("privileged") { Ok(()) } else { Err(format!("{asked:?}")) }
        })
        .await;
        let before = lab.uids("agent").await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before, "that restarts none");
        *admission.foreign.lock().unwrap() = Some("site-agents");
        cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 3, SOON).await;
        assert_eq!(sccs(&lab).await, ["privileged".to_owned()].into());
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        // An administrator moves to an SCC of their own: nothing insists on the one that is taken away.
        admission.granted.store(false, Ordering::SeqCst);
        let pods = lab.pods("agent").await;
        cluster.kubectl(&["-n", &lab.name, "delete", "pod", &pods.values().next().unwrap().name_any()]);
        eventually("the new one comes under his", SOON, || async {
            let sccs = sccs(&lab).await;
            if sccs.contains("site-agents") { Ok(()) } else { Err(format!("{sccs:?}")) }
        })
        .await;
        lab.all_at("agent", V2, 3, SOON).await;
        assert_eq!(asked(&lab).await, None);
        webhook.end().await;
        lab.end().await;
    });
}

/// `check` says beforehand which SCC agents will get, of OpenShift's own ten, and what is in the way.
fn beforehand(cluster: &Cluster, lab: &Lab<'_>) {
    let recorded = std::fs::read_to_string(repository("src/openshift/scc/recorded.json")).unwrap();
    for scc in serde_json::from_str::<Vec<Value>>(&recorded).unwrap() {
        cluster.apply(&scc.to_string());
    }
    let check = || {
        let mut command = Command::new(olm_tests::operator::binary());
        command.args(["check", "agent", "-n", &lab.name]).env("KUBECONFIG", cluster.kubeconfig());
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    let said = check();
    let command = format!("oc -n {} adm policy add-scc-to-user privileged -z dynatrace-oneagent", lab.name);
    assert!(said.contains("FAIL  no SecurityContextConstraints") && said.contains(&command), "{said}");
    // As oc does it: a binding of the role that OpenShift makes for each.
    let to_use = json!({ "apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
        "resourceNames": ["privileged"], "verbs": ["use"] });
    let named = |kind: &str, name: &str| {
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": { "name": name, "namespace": lab.name } })
    };
    let (mut role, mut binding) = (named("Role", "scc-use"), named("RoleBinding", "scc-use"));
    role["rules"] = json!([to_use]);
    binding["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scc-use" });
    binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": "dynatrace-oneagent", "namespace": lab.name }]);
    cluster.apply(&role.to_string());
    cluster.apply(&binding.to_string());
    let said = check();
    assert!(said.contains("ok    agents will run under SecurityContextConstraints privileged"), "{said}");
}

#[test]
fn an_administrators_own_scc_is_not_shut_out_and_is_named() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let lab = Lab::on(&cluster, "site", 2).await;
        let admission = Admission::default();
        *admission.foreign.lock().unwrap() = Some("site-agents");
        let webhook = admission.start(&cluster, &lab.name).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        serve(&cluster);
        let said = lab.says("agent", "Degraded", "SecurityContextConstraints site-agents").await;
        assert!(said.contains("spec.annotations to openshift.io/required-scc: privileged"), "{said}");
        cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        assert_eq!((asked(&lab).await, sccs(&lab).await), (None, ["site-agents".to_owned()].into()));
        // The remedy, as it is printed: the grant, and the annotation.
        assert!(said.contains("run oc -n site adm policy add-scc-to-user privileged -z dynatrace-oneagent"), "{said}");
        admission.grant();
        lab.edit("agent", json!({ "annotations": { REQUIRED_SCC: "privileged" } })).await;
        eventually("they run under the other", SOON, || async {
            let sccs = sccs(&lab).await;
            if sccs == ["privileged".to_owned()].into() { Ok(()) } else { Err(format!("{sccs:?}")) }
        })
        .await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        webhook.end().await;
        lab.end().await;
    });
}

/// Annotated, a namespace sets the cluster's default aside: the printed remedy, word by word.
#[test]
fn the_clusters_default_node_selector_holds_a_rollout_before_it_costs_an_agent() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        serve(&cluster);
        let lab = Lab::on(&cluster, "default-selector", 3).await;
        let admission = Admission::default();
        admission.grant();
        let webhook = admission.start(&cluster, &lab.name).await;
        olm_tests::nodes::patch(
            &cluster.client,
            &lab.nodes[0],
            &json!({ "metadata": { "labels": { "inside": "yes" } } }),
        )
        .await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        says(&cluster, "Scheduler", "cluster", &json!({ "defaultNodeSelector": "inside=yes" }), &json!({}));
        *admission.selector.lock().unwrap() = json!({ "inside": "yes" });
        // What was read last is believed for DISCOVERY_INTERVAL: here a second, by default a minute.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = lab.uids("agent").await;
        cluster.vendor.publish(&lab.name, V2);
        let said = lab.condition_within(SOON, "agent", "Degraded", "True", "NamespaceSelector").await;
        assert!(said.contains("Scheduler cluster") && said.contains("excludes 2 nodes"), "{said}");
        assert_eq!(lab.uids("agent").await, before, "no agent was lost to learn it");
        let command = said.split_once("run ").unwrap().1.split_once(", or").unwrap().0;
        cluster.kubectl(&command.split(' ').skip(1).collect::<Vec<_>>());
        *admission.selector.lock().unwrap() = json!(null);
        lab.all_at("agent", V2, 3, LONG).await;
        webhook.end().await;
        lab.end().await;
    });
}

/// The values of the agents' environment.
async fn environment(lab: &Lab<'_>, name: &str) -> BTreeSet<String> {
    let of = |pod: &Pod| {
        let env = pod.spec.as_ref()?.containers[0].env.as_ref()?;
        env.iter().find(|variable| variable.name == name)?.value.clone()
    };
    lab.pods("agent").await.values().map(|pod| of(pod).unwrap_or_else(|| "none".to_owned())).collect()
}

#[test]
fn the_clusters_proxy_and_certificates_reach_operator_and_agents_and_restart_none() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let lab = Lab::on(&cluster, "proxied", 2).await;
        let url = cluster.vendor.tls_url(&lab.name);
        let spec = |openshift: &Value| json!({ "apiUrl": url, "openshift": openshift });
        // Elsewhere than on OpenShift: one condition, and the remedy in it.
        lab.oneagent(&spec(&json!({ "clusterProxy": true })));
        let said = lab.condition("agent", "Degraded", "True", "ProxyInvalid").await;
        assert!(said.contains("no Proxy cluster") && said.contains("spec.proxy"), "{said}");
        serve(&cluster);
        let proxy = |port: u16| {
            let status = json!({ "httpsProxy": format!("http://127.0.0.1:{port}"), "noProxy": "localhost,.svc" });
            says(&cluster, "Proxy", "cluster", &json!({ "trustedCA": { "name": "" } }), &status);
        };
        proxy(1);
        // Written in two steps: what was read in between is believed for DISCOVERY_INTERVAL, here a second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        lab.edit("agent", spec(&json!({ "clusterProxy": true, "clusterCAs": true }))).await;
        let said = lab.condition("agent", "Degraded", "True", "TrustedCAsMissing").await;
        assert!(said.contains("ConfigMap proxied/agent-trusted-ca has no key ca-bundle.crt"), "{said}");
        let labels = cluster.kubectl(&["-n", &lab.name, "get", "configmap", "agent-trusted-ca", "-o", "json"]);
        assert!(labels.contains("\"config.openshift.io/inject-trusted-cabundle\": \"true\""), "{labels}");
        // As OpenShift does it. The operator trusts the environment by these certificates alone.
        let inject = |pem: &str| {
            let data = json!({ "data": { "ca-bundle.crt": pem } }).to_string();
            cluster.kubectl(&["-n", &lab.name, "patch", "configmap", "agent-trusted-ca", "--type=merge", "-p", &data]);
        };
        inject(&cluster.vendor_ca);
        lab.all_at("agent", V1, 2, SOON).await;
        assert_eq!(environment(&lab, "https_proxy").await, ["http://127.0.0.1:1".to_owned()].into());
        assert_eq!(environment(&lab, "no_proxy").await, ["localhost,.svc".to_owned()].into());
        let pods = lab.pods("agent").await;
        let pod = pods.values().next().unwrap().spec.as_ref().unwrap();
        let volume = pod.volumes.iter().flatten().find_map(|volume| volume.config_map.as_ref()).unwrap();
        assert_eq!((volume.name.as_str(), volume.optional), ("agent-trusted-ca", Some(true)));
        assert!(pod.containers[0].args.iter().flatten().any(|arg| arg == "--set-proxy=$(https_proxy)"));
        // The cluster changes: no agent restarts, and one that is created again has what is true now.
        let before = lab.uids("agent").await;
        proxy(2);
        inject(&format!("{}\n{}", cluster.vendor_ca, cluster.vendor_ca));
        eventually("the template follows", SOON, || async {
            let template = lab.daemonset("agent").await.unwrap().spec.unwrap().template.spec.unwrap();
            let text = serde_json::to_string(&template.containers[0].env).unwrap();
            if text.contains("http://127.0.0.1:2") { Ok(()) } else { Err(text) }
        })
        .await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before);
        let one = pods.keys().next().unwrap();
        let name = pods[one].name_any();
        cluster.kubectl(&["-n", &lab.name, "delete", "pod", &name]);
        eventually("the new one has the new proxy", SOON, || async {
            let found = environment(&lab, "https_proxy").await;
            if found.len() == 2 { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
        lab.all_at("agent", V1, 2, SOON).await;
        // While the rollout is held, the previous template keeps the cluster's proxy, although the spec names another.
        let own = json!({ "value": "http://127.0.0.1:3", "noProxy": "localhost" });
        lab.edit("agent", json!({ "rollout": { "paused": true }, "proxy": own })).await;
        lab.is_observed("agent").await;
        let template = lab.daemonset("agent").await.unwrap().spec.unwrap().template.spec.unwrap();
        let env = serde_json::to_string(&template.containers[0].env).unwrap();
        assert!(env.contains("http://127.0.0.1:2") && !env.contains("http://127.0.0.1:3"), "{env}");
        lab.edit("agent", json!({ "rollout": null, "proxy": null })).await;
        lab.is_observed("agent").await;
        // OpenShift's APIs go: agents and template stay as they are, and one condition says it.
        let before = lab.uids("agent").await;
        cluster.kubectl(&["delete", "crd", "proxies.config.openshift.io"]);
        lab.condition("agent", "Degraded", "True", "ProxyInvalid").await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before);
        assert_eq!(lab.daemonset("agent").await.unwrap().status.unwrap().desired_number_scheduled, 2);
        lab.end().await;
    });
}

#[test]
fn no_agent_is_replaced_where_or_while_the_cluster_is_being_changed() {
    const STATE: &str = "machineconfiguration.openshift.io/state";
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        serve(&cluster);
        updates(&cluster, true);
        let lab = Lab::on(&cluster, "updating", 3).await;
        lab.oneagent(&json!({ "openshift": { "pauseDuringClusterUpdate": true } }));
        lab.all_at("agent", V1, 3, SOON).await;
        let before = lab.uids("agent").await;
        cluster.vendor.publish(&lab.name, V2);
        let said = lab.says("agent", "Progressing", "pauseDuringClusterUpdate").await;
        assert!(said.contains("the cluster is being updated"), "{said}");
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before);
        // One node is worked on when the update of the control plane is over.
        let state = |state: &str| json!({ "metadata": { "annotations": { STATE: state } } });
        olm_tests::nodes::patch(&cluster.client, &lab.nodes[1], &state("Working")).await;
        updates(&cluster, false);
        lab.reached("agent", V2, 2).await;
        let said = lab.says("agent", "Ready", "machine-config operator").await;
        assert!(said.contains(&lab.nodes[1]), "{said}");
        lab.is_looked_at().await;
        let after = lab.uids("agent").await;
        assert_eq!(after[&lab.nodes[1]], before[&lab.nodes[1]], "the node that is being changed is left alone");
        olm_tests::nodes::patch(&cluster.client, &lab.nodes[1], &state("Done")).await;
        lab.all_at("agent", V2, 3, SOON).await;
        lab.end().await;
    });
}
