//! A disconnected site: every image comes from the mirror, by the mirror sets as they are generated.

use std::process::Command;

use olm_tests::cluster::objects;
use olm_tests::images::{Config, said};
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::olm::{NEXT, Olm, Wish, publisher, releases};
use olm_tests::tools::tool;
use oneagent_operator::api::oneagent::package::PACKAGE as ROW;
use oneagent_operator::olm::catalog::{bundle, folder};
use oneagent_operator::olm::manifests::File;
use oneagent_operator::olm::release::{Release, Released};
use serde_json::json;

const OURS: &str = "registry.example/oneagent-operator";
const AGENTS: &str = "docker.io/dynatrace";

/// The release with every image named by digest where it was published, and mirrored.
fn mirrored(olm: &Olm) -> Released {
    let registry = &olm.registry;
    let operator = olm.release(NEXT).release.operator_image;
    let digest = |image: &str| image.rsplit_once('@').unwrap().1.to_owned();
    let at = registry.reference(&format!("oneagent-operator/oneagent-operator:{NEXT}"));
    said(Command::new(tool("crane")).args(["copy", &operator, &at]));
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("installer"), "an agent's installer").unwrap();
    let agent = registry.push("dynatrace/oneagent:1", root.path(), &["installer"], &Config::default());
    let release = Release {
        operator_image: format!("{OURS}/oneagent-operator@{}", digest(&operator)),
        agent_image: format!("{AGENTS}/oneagent@{}", digest(&agent)),
        ..releases().of(&publisher(), NEXT)
    };
    let prefix = format!("{}/", folder(&ROW));
    let inside = |file: File| File { path: file.path.strip_prefix(&prefix).unwrap().to_owned(), ..file };
    let files = bundle(&ROW, &publisher(), &release, None).unwrap().into_iter().map(inside).collect();
    let mut released = Released { release, files, image: String::new() };
    let pushed = olm.push_bundle_as(&format!("oneagent-operator/oneagent-operator-bundle:{NEXT}"), &ROW, &released);
    released.image = format!("{OURS}/oneagent-operator-bundle@{}", digest(&pushed));
    released
}

#[test]
fn operator_bundle_and_agents_come_only_from_the_mirror() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let released = mirrored(&olm);
        let images = olm.cluster.kubelet.launcher().images();
        let mirror = olm.registry.address().to_owned();
        for set in objects("config/oneagent-operator/disconnected/mirrors.yaml") {
            for entry in set["spec"]["imageDigestMirrors"].as_array().into_iter().flatten() {
                let to = entry["mirrors"][0].as_str().unwrap().replace("MIRROR", &mirror);
                images.mirror(entry["source"].as_str().unwrap(), &to);
            }
        }
        olm.publish(std::slice::from_ref(&released)).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        let csv = olm.get("ClusterServiceVersion", "dynatrace", &format!("{}.v{NEXT}", ROW.name)).await.unwrap();
        assert_eq!(csv["metadata"]["annotations"]["features.operators.openshift.io/disconnected"], "true");
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let pulled = images.pulled();
        assert_eq!(pulled.len(), 2, "bundle and operator: {pulled:?}");
        let agent = lab.daemonset("agent").await.unwrap().spec.unwrap().template.spec.unwrap().containers;
        let agent = agent[0].image.clone().unwrap();
        assert_eq!(agent, released.release.agent_image);
        for image in pulled.into_iter().chain([images.resolve(&agent)]) {
            assert!(image.starts_with(&format!("{mirror}/")) && image.contains("@sha256:"), "{image}");
            said(Command::new(tool("crane")).args(["manifest", &image]));
        }
        olm.judge("dynatrace");
    });
}
