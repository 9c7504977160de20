//! `version`: of this program, and of the operators in the cluster.
//!
//! Reads only.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use semver::Version;
use serde::Serialize;

use super::managed::Managed;
use super::paint::note;
use super::{Cx, NO_ANSWER, WELL};
use crate::cli::read::Reader;

/// So many minors apart, and what one says the other may not know.
const APART: u64 = 2;

#[derive(Debug, Serialize)]
struct Found {
    client: &'static str,
    operators: Vec<Operator>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Operator {
    pub(super) namespace: String,
    name: String,
    version: String,
}

pub(super) async fn version(cx: &Cx) -> Result<u8, String> {
    let client = env!("CARGO_PKG_VERSION");
    let operators = operators(cx).await;
    let found = Found { client, operators: operators.clone().unwrap_or_default() };
    if !cx.data(&found)? {
        say!("kubectl-oneagent {client}");
        for Operator { namespace, name, version } in &found.operators {
            say!("{namespace}/{name} {version}");
            if is_apart(client, version) {
                note(&format!(
                    "note: {name} {version} is two minors or more away from this program: use one of its version"
                ));
            }
        }
    }
    match operators {
        Ok(all) if all.is_empty() => {
            note("kubectl oneagent: no operator was found in the cluster");
            Ok(WELL)
        }
        Ok(_) => Ok(WELL),
        Err(why) => {
            note(&format!("kubectl oneagent: {why}"));
            Ok(NO_ANSWER)
        }
    }
}

/// The operators of the cluster.
pub(super) async fn operators(cx: &Cx) -> Result<Vec<Operator>, String> {
    let reached = cx.reach().await?;
    let mut found = Vec::new();
    for kind in [Managed::Oneagent, Managed::Daemonsetrollout, Managed::Configwatcher] {
        let labelled = ListParams::default().labels(&format!("app.kubernetes.io/name={}", kind.operator()));
        let all = Api::<Deployment>::all(reached.client.clone()).list(&labelled).await;
        let reader = Reader::of(&reached, kind.operator());
        let all = all.map_err(|error| reader.unanswered("list deployments", &error))?;
        found.extend(all.items.iter().map(|deployment| Operator {
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            version: of(deployment),
        }));
    }
    Ok(found)
}

/// The version of a Deployment: by its label, by the ClusterServiceVersion that owns it, or by its image's tag.
fn of(deployment: &Deployment) -> String {
    let labels = deployment.labels();
    let labelled = || labels.get("app.kubernetes.io/version").cloned();
    let owned = || labels.get("olm.owner")?.split_once(".v").map(|(_, version)| version.to_owned());
    let tagged = || {
        let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
        let image = pod.containers.first()?.image.as_deref()?.split('@').next()?;
        image.rsplit_once(':').map(|(_, tag)| tag.to_owned()).filter(|tag| !tag.contains('/'))
    };
    labelled().or_else(owned).or_else(tagged).unwrap_or_else(|| "of an unknown version".to_owned())
}

fn is_apart(client: &str, operator: &str) -> bool {
    let parse = |text: &str| Version::parse(text.trim_start_matches('v')).ok();
    parse(client).zip(parse(operator)).is_some_and(|(client, operator)| {
        client.major != operator.major || client.minor.abs_diff(operator.minor) >= APART
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_version_is_read_from_label_owner_or_image() {
        let version = |labels: serde_json::Value, image: &str| {
            let pod = json!({ "containers": [{ "name": "operator", "image": image }] });
            of(&serde_json::from_value(json!({ "metadata": { "labels": labels }, "spec": { "selector": {},
                "template": { "spec": pod } } }))
            .unwrap())
        };
        assert_eq!(version(json!({ "app.kubernetes.io/version": "0.3.0" }), "r/o:1"), "0.3.0");
        assert_eq!(version(json!({ "olm.owner": "oneagent-operator.v0.2.0" }), "r/o@sha256:0"), "0.2.0");
        assert_eq!(version(json!({}), "host:5000/o:v0.4.1@sha256:0"), "v0.4.1");
        assert_eq!(version(json!({}), "host:5000/o@sha256:0"), "of an unknown version");
    }

    #[test]
    fn two_minors_are_a_distance() {
        assert!(is_apart("0.3.0", "0.5.1") && is_apart("0.3.0", "1.3.0"));
        assert!(!is_apart("0.3.0", "v0.4.9") && !is_apart("0.3.0", "of an unknown version"));
    }
}
