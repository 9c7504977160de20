//! The bundle's OpenShift flavour: with the monitoring API it brings its alerts; without it OLM refuses it, and says
//! why.

use std::time::Duration;

use olm_tests::eventually;
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish};
use olm_tests::tools::tool;
use oneagent_operator::api::oneagent::package::PACKAGE as ROW;
use oneagent_operator::olm::catalog::OPENSHIFT;
use oneagent_operator::olm::release::Released;

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
        eventually("OLM says which kind is missing", Duration::from_secs(120), || async {
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
        // What the README says: OLM does not try a failed plan again.
        olm.delete("Subscription", "dynatrace", PACKAGE).await;
        for csv in olm.list("ClusterServiceVersion", "dynatrace").await {
            olm.delete("ClusterServiceVersion", "dynatrace", csv["metadata"]["name"].as_str().unwrap()).await;
        }
        for plan in olm.list("InstallPlan", "dynatrace").await {
            olm.delete("InstallPlan", "dynatrace", plan["metadata"]["name"].as_str().unwrap()).await;
        }
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        for kind in ["Service", "ServiceMonitor", "PrometheusRule"] {
            let made = olm.get(kind, "dynatrace", PACKAGE).await;
            assert_eq!(made.unwrap_or_default()["metadata"]["ownerReferences"][0]["kind"], "ClusterServiceVersion");
        }
        olm.judge("dynatrace");
    });
}
