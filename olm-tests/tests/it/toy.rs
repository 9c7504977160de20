//! A second kind on the engine: it greets, and that is all. What a kind has to bring is what stands here.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::lab::SOON;
use oneagent_operator::api::package::{self as api, Package, Texts, Where, rule};
use oneagent_operator::kernel::apply::replace_status;
use oneagent_operator::kernel::desk::Desk;
use oneagent_operator::kernel::runtime::{Kind, Runtime, Triggers};
use oneagent_operator::kernel::sync::{Scope, Watches};
use oneagent_operator::kernel::{Error, Key};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Debug, Clone, Default, Serialize, Deserialize)]
#[kube(group = "toys.example", version = "v1", kind = "Greeting", namespaced, status = "Greeted", schema = "disabled")]
struct GreetingSpec {
    whom: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Greeted {
    #[serde(default)]
    said: String,
}

/// Its package: another row, another name on all that is written.
static GREETINGS: Package = Package {
    name: "greeting-operator",
    namespace: "toys",
    kinds: &[api::Kind {
        name: "Greeting",
        plural: "greetings",
        group: "toys.example",
        crd: Greeting::crd,
        resources: &[],
    }],
    run: &["run", "--kind", "greeting"],
    rules: &[rule(Where::Watched, "toys.example", "greetings", &["list", "watch"], "know whom to greet")],
    accounts: &[],
    image_variable: None,
    samples: &[],
    texts: Texts {
        title: "Greeting Operator",
        sentence: "Says hello.",
        description: "Says hello.",
        uninstall: "Nobody is greeted any more.",
        keywords: &[],
        categories: "Other",
        capabilities: "Basic Install",
        widgets: &[],
        plain: &["whom"],
        groups: &[],
    },
};

struct Greeter {
    client: Client,
    gone: Mutex<Vec<String>>,
}

impl Greeter {
    async fn say(&self, metadata: &ObjectMeta, said: &str) -> Result<Duration, Error> {
        let api: Api<Greeting> =
            Api::namespaced(self.client.clone(), metadata.namespace.as_deref().unwrap_or_default());
        let (name, uid) = (metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default());
        replace_status(Self::PACKAGE.name, &api, name, uid, &json!({ "said": said })).await?;
        Ok(Duration::from_secs(3600))
    }
}

impl Kind for Greeter {
    const PACKAGE: &'static Package = &GREETINGS;
    type Object = Greeting;
    /// How often it was looked at.
    type Desk = Mutex<u32>;

    async fn reconcile(&self, object: &Greeting, desk: &Desk<Mutex<u32>>) -> Result<Duration, Error> {
        let times = {
            let mut times = desk.own.lock().unwrap();
            *times += 1;
            *times
        };
        self.say(object.meta(), &format!("hello, {} ({times})", object.spec.whom)).await
    }

    async fn undecodable(&self, metadata: &ObjectMeta, error: &str, _: &Desk<Mutex<u32>>) -> Result<Duration, Error> {
        assert!(!error.is_empty());
        self.say(metadata, "whom?").await
    }

    fn gone(&self, key: &Key, _: &str, is_replaced: bool) {
        self.gone.lock().unwrap().push(format!("{} {is_replaced}", key.1));
    }
}

/// Its CRD, which lets through what the type does not.
fn crd() -> String {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "greetings.toys.example" },
        "spec": {
            "group": "toys.example", "scope": "Namespaced",
            "names": { "kind": "Greeting", "plural": "greetings", "singular": "greeting" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object",
                "properties": { "spec": open, "status": open } } } }],
        },
    })
    .to_string()
}

#[test]
fn a_kind_that_greets_brings_only_its_greeting() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        cluster.apply(&crd());
        cluster.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "toys" } }).to_string());
        cluster
            .try_kubectl(&["wait", "--for=condition=Established", "crd/greetings.toys.example", "--timeout=60s"], None)
            .unwrap();
        let client = cluster.client.clone();
        let (triggers, receivers) = Triggers::new(&Scope(vec!["toys".to_owned()]));
        let kind = Arc::new(Greeter { client: client.clone(), gone: Mutex::default() });
        let runtime = Runtime::new(client.clone(), kind.clone(), triggers);
        runtime.decides_from(Watches::default().synced());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = futures::FutureExt::shared(async move { drop(stopped.await) });
        let work = tokio::spawn(runtime.run(receivers, stopped));

        let api: Api<Greeting> = Api::namespaced(client, "toys");
        let says = async |name: &str, words: &str| {
            eventually(&format!("{name} says {words}"), SOON, || async {
                let said = api.get(name).await.map_err(|e| e.to_string())?.status.unwrap_or_default().said;
                if said == words { Ok(()) } else { Err(said) }
            })
            .await;
        };
        // One that does not decode is in nobody's way.
        let nonsense = json!({ "apiVersion": "toys.example/v1", "kind": "Greeting",
            "metadata": { "name": "nobody", "namespace": "toys" }, "spec": { "whom": 7 } });
        cluster.apply(&nonsense.to_string());
        let mut greeting = Greeting::new("world", GreetingSpec { whom: "world".to_owned() });
        api.create(&PostParams::default(), &greeting).await.unwrap();
        says("world", "hello, world (1)").await;
        let unread = async || {
            let said = cluster
                .try_kubectl(&["-n", "toys", "get", "greeting", "nobody", "-o", "jsonpath={.status.said}"], None)?;
            if said == "whom?" { Ok(()) } else { Err(said) }
        };
        eventually("nobody is asked for", SOON, unread).await;

        // Its own status is no reason to look again; an edit is, and the desk is still there.
        greeting = api.get("world").await.unwrap();
        greeting.spec.whom = "you".to_owned();
        api.replace("world", &PostParams::default(), &greeting).await.unwrap();
        says("world", "hello, you (2)").await;

        // Whoever comes under its name begins anew.
        api.delete("world", &DeleteParams::default()).await.unwrap();
        let again = Greeting::new(&greeting.name_any(), GreetingSpec { whom: "again".to_owned() });
        api.create(&PostParams::default(), &again).await.unwrap();
        says("world", "hello, again (1)").await;
        assert!(
            kind.gone.lock().unwrap().iter().any(|gone| gone.starts_with("world")),
            "what was held for the first one went"
        );

        drop(stop);
        work.await.unwrap();
    });
}
