//! Catalogs as OLM itself starts them, from their images: found to be newer without a hand on the CatalogSource.

use std::time::Duration;

use olm_tests::cluster::objects;
use olm_tests::images::Config;
use olm_tests::olm::{CATALOGS, NEXT, Olm, PACKAGE, Wish};
use olm_tests::tools::tool;
use oneagent_operator::api::oneagent::package::PACKAGE as ROW;
use oneagent_operator::olm::catalog::catalog;
use oneagent_operator::olm::release::Released;
use serde_json::{Value, json};

/// A catalog of these releases, pushed as an image that serves itself, or as its content alone. As its Containerfile
/// has it, except for the cache, which `images` tries.
fn push(olm: &Olm, name: &str, releases: &[Released], serves: bool) -> String {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("configs").join(PACKAGE);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("catalog.yaml"), &catalog(&ROW, releases, &[]).unwrap()[0].content).unwrap();
    std::fs::create_dir_all(root.path().join("bin")).unwrap();
    std::fs::create_dir_all(root.path().join("tmp")).unwrap();
    std::fs::copy(tool("opm"), root.path().join("bin/opm")).unwrap();
    let labels = vec![("operators.operatorframework.io.index.configs.v1".into(), "/configs".into())];
    let paths: &[&str] = if serves { &["bin", "tmp", "configs"] } else { &["configs"] };
    let config = Config { labels, entrypoint: serves.then(|| "/bin/opm,serve,/configs".into()), user: None };
    let _ = olm.registry.push(name, root.path(), paths, &config);
    olm.registry.reference(name)
}

/// The CatalogSource of a recipe, as it is there except for where it is and which image it names.
fn source(recipe: &str, image: &str, interval: Option<&str>) -> Value {
    let mut source = objects(&format!("config/oneagent-operator/{recipe}")).remove(0);
    source["metadata"] = json!({ "name": "oneagent", "namespace": CATALOGS });
    source["spec"]["image"] = image.into();
    if let Some(interval) = interval {
        source["spec"]["updateStrategy"]["registryPoll"]["interval"] = interval.into();
    }
    source
}

#[test]
fn a_new_release_is_found_by_polling_and_a_catalog_of_content_alone_is_read_too() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let [first, second] = [NEXT, "0.9.0"].map(|version| olm.release(version));
        let image = push(&olm, "catalog:latest", std::slice::from_ref(&first), true);
        olm.cluster.apply(&source("olm/catalogsource.yaml", &image, Some("10s")).to_string());
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        // Pushed under the same name: nothing in the cluster is touched.
        push(&olm, "catalog:latest", &[first.clone(), second], true);
        olm.installed("dynatrace", "0.9.0").await;
        olm.judge("dynatrace");
        // The content alone, as docs/olm.md has it; and, in its place, as oc-mirror names a catalog.
        let third = olm.release("0.9.1");
        let content = push(&olm, "content:latest", &[first.clone(), third], false);
        let mut extracted = source("olm/catalogsource.yaml", &content, Some("10s"));
        extracted["spec"]["grpcPodConfig"]["extractContent"] =
            json!({ "catalogDir": "/configs", "cacheDir": "/tmp/cache" });
        olm.cluster.apply(&extracted.to_string());
        olm.installed("dynatrace", "0.9.1").await;
        let fourth = olm.release("0.9.2");
        let mirrored = push(&olm, "mirror/oneagent-operator-catalog:latest", &[first, fourth], true);
        olm.delete("CatalogSource", CATALOGS, "oneagent").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        olm.cluster.apply(&source("disconnected/catalogsource.yaml", &mirrored, None).to_string());
        olm.installed("dynatrace", "0.9.2").await;
    });
}
