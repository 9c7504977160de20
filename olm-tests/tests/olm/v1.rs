//! OLM v1: its catalog half as it is, and what its installing half (which cannot be had here) would do and check.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use olm_tests::cluster::{documents, repository};
use olm_tests::eventually;
use olm_tests::images::{home, said};
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::olm::{NEXT, Olm, PACKAGE};
use olm_tests::operator::{free_address, token};
use olm_tests::process::Process;
use olm_tests::tools::tool;
use oneagent_operator::olm::release::Released;
use serde_json::{Value, json};

/// Starts catalogd under its own ServiceAccount; returns it and the address that it serves at.
async fn catalogd(olm: &Olm) -> (Process, String) {
    let cluster = &olm.cluster;
    let all = documents(&std::fs::read_to_string(tool("olmv1.yaml")).unwrap());
    let wanted = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match object["kind"].as_str().unwrap_or_default() {
            "Namespace" => true,
            "CustomResourceDefinition" => name.starts_with("clustercatalogs."),
            "ServiceAccount" | "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => {
                name.contains("catalogd")
            }
            // Its webhook labels catalogs, which no test here asks for.
            _ => false,
        }
    };
    let (first, rest): (Vec<Value>, Vec<Value>) = all
        .into_iter()
        .filter(wanted)
        .partition(|o| ["Namespace", "CustomResourceDefinition"].contains(&o["kind"].as_str().unwrap()));
    for objects in [first, rest] {
        cluster.apply(&objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n"));
    }
    cluster.kubectl(&[
        "wait",
        "--for=condition=Established",
        "--timeout=240s",
        "crd/clustercatalogs.olm.operatorframework.io",
    ]);
    // It reads who it is where a Pod would: in files of a mount that only it sees.
    let pod = cluster.path("catalogd");
    let (account, certificates) = (pod.join("secrets/kubernetes.io/serviceaccount"), pod.join("cas"));
    for folder in [&account, &certificates] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(
        account.join("token"),
        token(&cluster.client, "olmv1-system", "catalogd-controller-manager", None).await,
    )
    .unwrap();
    std::fs::write(account.join("namespace"), "olmv1-system").unwrap();
    for target in [account.join("ca.crt"), certificates.join("ca.crt")] {
        std::fs::copy(cluster.path("ca.crt"), target).unwrap();
    }
    let registries = pod.join("registries.conf");
    std::fs::write(&registries, format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", olm.registry.address()))
        .unwrap();
    let serves = free_address();
    let port = |address: String| address.rsplit_once(':').unwrap().1.to_owned();
    let api = cluster.kubectl(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let file = |path: PathBuf| path.display().to_string();
    let script = format!(
        "mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io && cp -r \
        {0}/secrets/kubernetes.io/serviceaccount /run/secrets/kubernetes.io/ && exec {1} \
         --cache-dir {0}/cache --catalogs-server-addr {serves} --external-address {serves} \
         --health-probe-bind-address {2} --metrics-bind-address {3} \
         --webhook-server-port {4} --tls-cert {5} --tls-key {6} --pull-cas-dir {0}/cas --system-namespace olmv1-system",
        pod.display(),
        tool("catalogd").display(),
        free_address(),
        free_address(),
        port(free_address()),
        file(cluster.path("server.crt")),
        file(cluster.path("server.key")),
    );
    let env = [
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
        ("KUBERNETES_SERVICE_PORT", port(api)),
        ("CONTAINERS_REGISTRIES_CONF", file(registries)),
        ("HOME", file(pod.clone())),
    ];
    let env: Vec<(String, String)> = env.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    let args = ["--user", "--map-root-user", "--mount", "sh", "-c", &script].map(str::to_owned);
    (Process::start("catalogd", std::path::Path::new("unshare"), &args, &env, &cluster.path("catalogd.log")), serves)
}

#[test]
fn catalogd_serves_the_catalog_as_opm_renders_it() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        olm.publish(&[olm.release("0.1.0"), olm.release(NEXT)]).await;
        let (_process, serves) = catalogd(&olm).await;
        let image = olm.registry.reference("catalog:latest");
        let source = json!({ "type": "Image", "image": { "ref": image } });
        olm.cluster.apply(
            &json!({ "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": { "name": "oneagent" }, "spec": { "source": source } })
            .to_string(),
        );
        let catalog = || olm.cluster.kubectl(&["get", "clustercatalog", "oneagent", "-o", "json"]);
        eventually("the ClusterCatalog is served", SOON, || async {
            let status = serde_json::from_str::<Value>(&catalog()).unwrap()["status"].clone();
            let serving = status["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|c| c["type"] == "Serving" && c["status"] == "True");
            if serving {
                Ok(())
            } else {
                Err(format!(
                    "{status}\n{}",
                    std::fs::read_to_string(olm.cluster.path("catalogd.log")).unwrap_or_default()
                ))
            }
        })
        .await;
        // kubectl is at hand and uses HTTPS; who serves is known by the address. Without a token it would ask for a
        // name.
        let address = format!("--server=https://{serves}");
        let raw = [
            "--kubeconfig=/dev/null",
            &address,
            "--insecure-skip-tls-verify",
            "--token=none",
            "get",
            "--raw",
            "/catalogs/oneagent/api/v1/all",
        ];
        let lines = said(Command::new(tool("kubectl")).args(raw));
        let theirs: BTreeSet<String> =
            lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap().to_string()).collect();
        let home = home();
        let rendered = said(
            Command::new(tool("opm")).args(["render", "--use-http", "-o", "json", &image]).env("HOME", home.path()),
        );
        let ours: BTreeSet<String> = serde_json::Deserializer::from_str(&rendered)
            .into_iter::<Value>()
            .map(|blob| blob.unwrap().to_string())
            .collect();
        assert_eq!(theirs.len(), 5, "a package, two channels, two bundles");
        assert_eq!(theirs, ours);
    });
}

/// The objects that OLM v1 makes of a bundle in AllNamespaces mode, after its published rules.
fn objects(released: &Released) -> Vec<Value> {
    let csv = released.manifests("ClusterServiceVersion").remove(0);
    let install = &csv["spec"]["install"]["spec"];
    let mut objects = released.manifests("CustomResourceDefinition");
    let mut accounts = BTreeSet::new();
    let permissions =
        ["permissions", "clusterPermissions"].into_iter().flat_map(|key| install[key].as_array().unwrap());
    for (at, permission) in permissions.enumerate() {
        let account = permission["serviceAccountName"].as_str().unwrap();
        if accounts.insert(account.to_owned()) {
            objects.push(json!({ "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": { "name": account, "namespace": "dynatrace" } }));
        }
        let name = format!("{PACKAGE}-v1-{at}");
        let rbac = "rbac.authorization.k8s.io";
        objects.push(json!({ "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": name },
                "rules": permission["rules"] }));
        objects.push(json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": name },
            "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": "dynatrace" }],
        }));
    }
    for deployment in install["deployments"].as_array().unwrap() {
        let mut spec = deployment["spec"].clone();
        let mut annotations = csv["metadata"]["annotations"].clone();
        annotations["olm.targetNamespaces"] = "".into();
        spec["template"]["metadata"]["annotations"] = annotations;
        objects.push(json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": deployment["name"], "namespace": "dynatrace", "labels": deployment["label"] },
            "spec": spec }));
    }
    objects
}

/// With the rights of `config/oneagent-operator/olmv1-installer.yaml` and no other, everything of the bundle is made;
/// the operator then runs agents in a namespace of its choice, without any object of OLM v0.
#[test]
fn the_installer_of_olm_v1_has_the_rights_it_needs_and_the_operator_needs_nothing_of_v0() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let released = olm.release(NEXT);
        // What OLM v1 refuses: other install modes than AllNamespaces alone, webhooks, dependencies, APIServices.
        let csv = released.manifests("ClusterServiceVersion").remove(0);
        let modes = csv["spec"]["installModes"].as_array().unwrap();
        assert!(modes.iter().any(|mode| mode["type"] == "AllNamespaces" && mode["supported"] == true));
        assert!(csv["spec"]["webhookdefinitions"].is_null() && csv["spec"]["apiservicedefinitions"].is_null());
        assert!(csv["spec"]["customresourcedefinitions"]["required"].is_null());
        assert!(!released.files.iter().any(|file| file.path.contains("dependencies")));

        olm.namespace("dynatrace");
        olm.cluster.kubectl(&[
            "apply",
            "--server-side",
            "-f",
            &repository("config/oneagent-operator/olmv1-installer.yaml").display().to_string(),
        ]);
        let installer = format!("--as=system:serviceaccount:dynatrace:{PACKAGE}-installer");
        let apply = |object: &Value| {
            olm.cluster.try_kubectl(&["apply", "--server-side", &installer, "-f", "-"], Some(&object.to_string()))
        };
        let objects = objects(&released);
        // One right less, and the operator's own role would be an escalation.
        let role = format!("{PACKAGE}-installer");
        let full = olm.cluster.kubectl(&["get", "clusterrole", &role, "-o", "json"]);
        let mut less: Value = serde_json::from_str(&full).unwrap();
        less["rules"].as_array_mut().unwrap().retain(|rule| rule["resources"] != json!(["nodes"]));
        olm.cluster.try_kubectl(&["replace", "-f", "-"], Some(&less.to_string())).unwrap();
        let refused: Vec<String> = objects
            .iter()
            .filter(|object| object["kind"] == "ClusterRole")
            .filter_map(|object| apply(object).err())
            .collect();
        assert!(refused.len() == 1 && refused[0].contains("attempting to grant RBAC permissions"), "{refused:?}");
        olm.cluster.kubectl(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "-f",
            &repository("config/oneagent-operator/olmv1-installer.yaml").display().to_string(),
        ]);
        for object in &objects {
            apply(object).unwrap_or_else(|why| panic!("{} {}: {why}", object["kind"], object["metadata"]["name"]));
        }
        for (verb, kind) in [("get", "secrets"), ("create", "pods"), ("delete", "namespaces")] {
            assert!(
                olm.cluster.try_kubectl(&["auth", "can-i", verb, kind, "-n", "kube-system", &installer], None).is_err(),
                "the installer may {verb} {kind}"
            );
        }

        eventually("the operator runs", SOON, || async {
            let deployment = olm.get("Deployment", "dynatrace", PACKAGE).await.unwrap_or_default();
            if deployment["status"]["readyReplicas"] == 1 { Ok(()) } else { Err(deployment["status"].to_string()) }
        })
        .await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        olm.judge("dynatrace");
    });
}
