//! The bundle's OpenShift flavour: with the monitoring API it brings its alerts; without it OLM refuses it, and says
//! why.

use std::time::Duration;

use olm_tests::eventually;
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish};
use olm_tests::pages::{Shell, blocks, command};
use olm_tests::tools::tool;
use olm_tests::wait::LONG;
use oneagent_operator::api::oneagent::package::PACKAGE as ROW;
use oneagent_operator::olm::catalog::OPENSHIFT;
use oneagent_operator::olm::release::Released;
use serde_json::Value;

/// The flavour of a release, pushed.
fn openshift(olm: &Olm, mut release: Released) -> Released {
    for file in &mut release.files {
        if let Some(name) = file.path.strip_prefix(&format!("{OPENSHIFT}/")) {
            file.path = format!("manifests/{name}");
        }
    }
    release.image = olm.push_bundle_as(&format!("{PACKAGE}-bundle-openshift:{NEXT}"), &ROW, &release);
    release
}

#[test]
fn the_openshift_flavour_brings_its_alerts_and_is_refused_where_their_kinds_are_missing() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        olm.publish(&[openshift(&olm, olm.release(NEXT))]).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        eventually("OLM says which kind is missing", LONG, || async {
            let plans = olm.list("InstallPlan", "dynatrace").await;
            let said = plans.iter().map(|plan| plan["status"].to_string()).collect::<String>();
            let csvs = olm.list("ClusterServiceVersion", "dynatrace").await.len();
            let names_it = said.contains("monitoring.coreos.com") && said.contains("not found");
            if names_it && said.contains("\"Failed\"") { Ok(()) } else { Err(format!("{csvs} CSVs; {said}")) }
        })
        .await;
        for name in ["prometheusrules", "servicemonitors"] {
            let crd = tool("prometheus-crds").join(format!("monitoring.coreos.com_{name}.yaml"));
            olm.cluster.kubectl(&["apply", "--server-side", "-f", &crd.display().to_string()]);
        }
        install_again(&olm).await;
        olm.installed("dynatrace", NEXT).await;
        for kind in ["Service", "ServiceMonitor", "PrometheusRule"] {
            let made = olm.get(kind, "dynatrace", PACKAGE).await;
            assert_eq!(made.unwrap_or_default()["metadata"]["ownerReferences"][0]["kind"], "ClusterServiceVersion");
        }
        // As the page has it.
        let shell = Shell::new(&olm.cluster);
        shell.run(&blocks("docs/openshift.md", "Metrics over TLS", "sh").remove(0), &[]);
        let other = command("docs/openshift.md", "Metrics over TLS", "oc -n dynatrace delete");
        shell.run(&other, &[]);
        shell.run(&blocks("docs/openshift.md", "Node selectors", "sh").remove(0), &[("NAME", "agent")]);
        eventually("OLM gives the operator the certificate's folder", LONG, || async {
            let deployment = olm.get("Deployment", "dynatrace", PACKAGE).await.unwrap_or_default();
            let pod = &deployment["spec"]["template"]["spec"];
            let has =
                |list: &Value, name: &str| list.as_array().is_some_and(|all| all.iter().any(|o| o["name"] == name));
            let container = &pod["containers"][0];
            let is_there = has(&pod["volumes"], "secure-metrics")
                && has(&container["volumeMounts"], "secure-metrics")
                && has(&container["env"], "SECURE_METRICS_CERTIFICATES");
            if is_there { Ok(()) } else { Err(pod.to_string()) }
        })
        .await;
        olm.judge("dynatrace");
    });
}

/// What `docs/olm.md` says, for OLM does not try a failed plan again. Now and then OLM still has the old plan in mind
/// when the new Subscription comes, and makes none for it: then once more.
async fn install_again(olm: &Olm) {
    for _ in 0..3 {
        for kind in ["subscriptions.operators.coreos.com", "clusterserviceversions", "installplans"] {
            olm.cluster.kubectl(&["-n", "dynatrace", "delete", kind, "--all"]);
        }
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        for _ in 0..60 {
            if !olm.list("InstallPlan", "dynatrace").await.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
