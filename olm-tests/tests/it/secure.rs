//! The operator may do what it needs and nothing else, and shows no token anywhere.

use std::collections::BTreeSet;
use std::time::Duration;

use olm_tests::cluster::{Cluster, documents, repository};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::operator::get;
use olm_tests::vendor::{api_token, paas_token};
use oneagent_operator::api::oneagent::package::PACKAGE;
use oneagent_operator::api::package::Rule;

use crate::istio::istio;
use serde_json::json;

/// Everything that the operator does, once: then every rule must have been used, and nothing else asked for.
#[test]
fn every_right_is_used_and_no_other_is_asked_for() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut lab = Lab::on(&cluster, "secure", 2).await;
        let put = |name: &str, key: &str, value: &str| {
            cluster.apply(
                &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": lab.name },
                    "data": { key: value } })
                .to_string(),
            );
        };
        put("ca", "certs", &cluster.vendor_ca);
        istio(&cluster, |_| {});
        olm_tests::openshift::serve(&cluster);
        olm_tests::openshift::updates(&cluster, false);
        cluster.vendor.with(&lab.name, |e| e.endpoints = vec!["https://agents.example/communication".into()]);
        cluster.kubectl(&["label", "namespace", &lab.name, "pod-security.kubernetes.io/enforce=baseline"]);
        lab.oneagent(&json!({ "trustedCAs": "ca" }));
        lab.condition("agent", "Degraded", "True", "PodsRefused").await;
        cluster.kubectl(&["label", "namespace", &lab.name, "pod-security.kubernetes.io/enforce-"]);
        lab.all_at("agent", V1, 2, SOON).await;
        lab.edit("agent", json!({ "openshift": { "clusterProxy": true, "pauseDuringClusterUpdate": true } })).await;
        lab.condition("agent", "Degraded", "True", "ProxyInvalid").await;
        lab.edit("agent", json!({ "openshift": { "clusterProxy": false, "pauseDuringClusterUpdate": true } })).await;
        cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        lab.edit("agent", json!({ "useImmutableImage": true })).await;
        eventually("the pull secret is there", SOON, || async {
            cluster.try_kubectl(&["-n", &lab.name, "get", "secret", "agent-pull-secret"], None).map(drop)
        })
        .await;
        for made in [true, false] {
            lab.edit("agent", json!({ "enableIstio": made })).await;
            eventually("Istio's objects come and go", SOON, || async {
                let found = cluster.kubectl(&["-n", &lab.name, "get", "serviceentries,virtualservices", "-o", "name"]);
                let kinds = ["serviceentry", "virtualservice"].iter().filter(|kind| found.contains(**kind)).count();
                if kinds == if made { 2 } else { 0 } { Ok(()) } else { Err(found) }
            })
            .await;
        }
        lab.is_noted("agent").await;
        // A standby.
        lab.start_operator(&[]).await;
        // A drop of the lease's record in our memory makes it be read: a write by another client.
        cluster.kubectl(&["-n", &lab.name, "label", "lease", "oneagent-operator", "touched=yes"]);
        tokio::time::sleep(Duration::from_secs(3)).await;

        let requests = lab.requests();
        let used = |group: &str, resource: &str, verb: &str| {
            requests.iter().any(|r| r.group == group && r.resource == resource && r.verb == verb)
        };
        let text = std::fs::read_to_string(repository("config/oneagent-operator/rbac.yaml")).unwrap();
        let mut granted = BTreeSet::new();
        let mut unused = Vec::new();
        // Consulted without a request of that verb, and shown by a SubjectAccessReview below.
        let of = |rule: &Rule, verb: &str| (rule.group.to_owned(), rule.resource.to_owned(), verb.to_owned());
        let consulted: BTreeSet<_> =
            PACKAGE.rules.iter().flat_map(|rule| rule.consulted.iter().map(move |verb| of(rule, verb))).collect();
        assert_eq!(
            consulted.len(),
            6,
            "delete of DaemonSets, create of all that is applied, and nothing else is taken on trust"
        );
        for document in documents(&text) {
            for rule in document["rules"].as_array().into_iter().flatten() {
                let one = |key: &str| rule[key][0].as_str().unwrap().to_owned();
                for verb in rule["verbs"].as_array().unwrap() {
                    let right = (one("apiGroups"), one("resources"), verb.as_str().unwrap().to_owned());
                    if !used(&right.0, &right.1, &right.2) && !consulted.contains(&right) {
                        unused.push(right.clone());
                    }
                    granted.insert(right);
                }
            }
        }
        assert!(unused.is_empty(), "rights that nothing uses: {unused:?}");
        let asked: BTreeSet<_> = requests
            .iter()
            .filter(|r| !r.resource.is_empty())
            .map(|r| (r.group.clone(), r.resource.clone(), r.verb.clone()))
            .collect();
        let beyond: Vec<_> = asked.difference(&granted).collect();
        assert!(beyond.is_empty(), "asked for without a right: {beyond:?}");
        for (group, resource, verb) in consulted {
            let account = format!("system:serviceaccount:{}:oneagent-operator", lab.name);
            let answer = cluster.kubectl(&[
                "auth",
                "can-i",
                &verb,
                &format!("{resource}.{group}"),
                "-n",
                &lab.name,
                "--as",
                &account,
            ]);
            assert_eq!(answer.trim(), "yes");
        }
        // Secrets are only ever asked for by name.
        let by_name = |uri: &str| uri.contains("metadata.name%3D") || uri.contains("/secrets/agent-pull-secret");
        assert!(requests.iter().filter(|r| r.resource == "secrets").all(|r| by_name(&r.uri)), "{requests:?}");
        lab.end().await;
    });
}

/// Adoption needs `delete` on DaemonSets with that admission plugin, and only for its look-up.
#[test]
fn of_daemonsets_the_operator_may_delete_what_it_owns_and_update_none() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let lab = Lab::without_operator(cluster, "secure-adopt", 1).await;
        let review = |verb: &str| {
            cluster.try_kubectl(
                &[
                    "auth",
                    "can-i",
                    verb,
                    "daemonsets.apps",
                    "-n",
                    &lab.name,
                    "--as",
                    &format!("system:serviceaccount:{}:oneagent-operator", lab.name),
                ],
                None,
            )
        };
        assert_eq!(review("delete").unwrap().trim(), "yes");
        assert!(review("update").is_err(), "no right beyond what is needed");
        lab.end().await;
    });
}

/// Reading comes with the default role; writing, which is root on nodes, only with a role granted by hand.
#[test]
fn who_may_view_a_namespace_sees_its_oneagents_and_who_may_edit_it_cannot_write_them() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let lab = Lab::without_operator(cluster, "secure-users", 0).await;
        cluster.kubectl(&[
            "apply",
            "--server-side",
            "-f",
            &repository("config/oneagent-operator/user-roles.yaml").display().to_string(),
        ]);
        let may = |verb: &str, user: &str| {
            cluster
                .try_kubectl(&["auth", "can-i", verb, "oneagents.dynatrace.com", "-n", &lab.name, "--as", user], None)
                .is_ok()
        };
        let roles = ["view", "edit", "oneagent-operator-view", "oneagent-operator-edit", "oneagent-operator-admin"];
        for role in roles {
            cluster.kubectl(&[
                "-n",
                &lab.name,
                "create",
                "rolebinding",
                role,
                &format!("--clusterrole={role}"),
                &format!("--user={role}-er"),
            ]);
        }
        // A controller copies aggregated rules.
        eventually("view lists OneAgents", SOON, || async {
            if may("list", "view-er") { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        let can = |verb: &str| roles.map(|role| may(verb, &format!("{role}-er")));
        assert_eq!(can("list"), [true, true, true, true, true]);
        assert_eq!(can("patch"), [false, false, false, true, true]);
        assert_eq!(can("deletecollection"), [false, false, false, false, true]);
        lab.end().await;
    });
}

#[test]
fn a_token_is_nowhere_to_be_seen() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "secure-token", 2).await;
        lab.start_operator(&[("LOG_LEVEL", "trace")]).await;
        let (api, paas) = (api_token(&lab.name), paas_token(&lab.name));
        let password = "SECRETPASSWORD";
        lab.cluster.apply(
            &json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "proxy", "namespace": lab.name },
            "stringData": { "proxy": format!("http://user:{password}@127.0.0.1:1") } })
            .to_string(),
        );
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        // Every way to fail that might quote what it failed on.
        lab.edit("agent", json!({ "proxy": { "valueFrom": "proxy" } })).await;
        lab.condition("agent", "Degraded", "True", "EnvironmentUnreachable").await;
        lab.edit("agent", json!({ "proxy": null })).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.secret(&api, &format!("{paas}\n"));
        lab.condition("agent", "PaaSToken", "False", "TokenUnauthorized").await;
        lab.secret(&format!("{api}\u{1}"), "dt0c01.WRONG.SECRETPAASwrong");
        eventually("both are refused", SOON, || async {
            let now = lab.status("agent").await;
            let refused = now.conditions.iter().filter(|c| c.type_.ends_with("Token") && c.status == "False").count();
            if refused == 2 { Ok(()) } else { Err(format!("{:#?}", now.conditions)) }
        })
        .await;
        lab.secret(&api, &paas);
        lab.condition("agent", "PaaSToken", "True", "TokenReady").await;
        let (_, metrics) = get(&lab.operators[0].address, "/metrics").await.unwrap();
        assert!(metrics.contains("oneagent_nodes{"), "{metrics}");
        let objects = lab.cluster.kubectl(&[
            "-n",
            &lab.name,
            "get",
            "oneagents,daemonsets,pods,events,leases",
            "-o",
            "yaml",
            "--show-managed-fields",
        ]);
        let log = lab.operators[0].printed();
        assert!(log.contains("TRACE"), "the log is at trace level");
        for (place, text) in [("metrics", &metrics), ("objects", &objects), ("log", &log)] {
            for secret in ["SECRETAPI", "SECRETPAAS", password] {
                let at = text.find(secret).map(|at| text[at.saturating_sub(200)..at].to_owned());
                assert!(at.is_none(), "{secret} is in {place}, after: {at:?}");
            }
        }
        lab.end().await;
    });
}

#[test]
fn what_is_typed_wrongly_gets_one_clear_sentence() {
    let run = |args: &[&str], env: &[(&str, &str)]| {
        let (program, args) = match args {
            ["generate", rest @ ..] => (env!("CARGO_BIN_EXE_generate").into(), rest),
            _ => (olm_tests::operator::binary(), args),
        };
        let output = std::process::Command::new(program)
            .args(args)
            .env_remove("KUBECONFIG")
            .env("HOME", "/nonexistent")
            .envs(env.iter().copied())
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (args, env, words) in [
        (&["run"][..], &[][..], "KUBECONFIG"),
        (&["run"], &[("KUBECONFIG", "/nonexistent/config")], "KUBECONFIG"),
        (&["run", "--poll-interval", "15"], &[], "15m, 90s or 500ms"),
        (&["run", "--lease-duration", "5s"], &[], "--lease-renew-deadline"),
        (&["run"], &[("LOG_LEVEL", "loud=[")], "use error, warn, info, debug or trace"),
        (&["generate", "crds", "--root", "/dev/null/none"], &[], "cannot read the release list /dev/null/none"),
        (&["generate", "crds", "--check", "--root", "/dev/null/none"], &[], "name the repository with --root"),
        (&["explode"], &[], "unrecognized subcommand"),
    ] {
        let (good, said) = run(args, env);
        assert!(!good && said.contains(words), "{args:?} said: {said}");
        assert!(!said.contains("RUST_BACKTRACE") && !said.contains("panicked"), "{said}");
    }
}
