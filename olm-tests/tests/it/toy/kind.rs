//! A second kind on the engine: it greets, and that is all. What a kind has to bring is what stands here.

use std::sync::Mutex;
use std::time::Duration;

use kube::api::{Api, ObjectMeta};
use kube::{Client, CustomResource, CustomResourceExt, Resource};
use oneagent_operator::api::package::{self as api, Package, Texts, Where, rule, shown};
use oneagent_operator::kernel::apply::replace_status;
use oneagent_operator::kernel::desk::Desk;
use oneagent_operator::kernel::runtime::Kind;
use oneagent_operator::kernel::{Error, Key};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Debug, Clone, Default, Serialize, Deserialize)]
#[kube(group = "toys.example", version = "v1", kind = "Greeting", namespaced, status = "Greeted", schema = "disabled")]
pub(super) struct GreetingSpec {
    pub whom: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Greeted {
    #[serde(default)]
    pub said: String,
}

/// Its package: another row, another name on all that is written.
static GREETINGS: Package = Package {
    docs: "docs/greetings.md",
    name: "greeting-operator",
    namespace: "toys",
    since: "0.1.0",
    companions: &[],
    is_proxy_aware: false,
    kinds: &[api::Kind {
        name: "Greeting",
        plural: "greetings",
        group: "toys.example",
        crd: Greeting::crd,
        resources: &[],
    }],
    run: &["run", "--kind", "greeting"],
    rules: &[rule(Where::Watched, "toys.example", "greetings", &["list", "watch"], "know whom to greet")],
    reads: &[],
    accounts: &[],
    image_variable: None,
    samples: &[],
    extras: &[],
    alerts: &[],
    panels: &[],
    texts: Texts {
        title: "Greeting Operator",
        sentence: "Says hello.",
        description: "Says hello.",
        uninstall: "Nobody is greeted any more.",
        keywords: &[],
        categories: "Other",
        capabilities: "Basic Install",
        form: &[shown("whom", "Whom", &[])],
        page: &[],
        tour: &[],
    },
};

pub(super) struct Greeter {
    pub client: Client,
    pub gone: Mutex<Vec<String>>,
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

    async fn unreadable(&self, object: &Greeting, why: &str, _: &Desk<Mutex<u32>>) -> Result<Duration, Error> {
        self.say(object.meta(), why).await
    }

    fn gone(&self, key: &Key, _: &str, is_replaced: bool) {
        self.gone.lock().unwrap().push(format!("{} {is_replaced}", key.1));
    }
}

/// Its CRD, which lets through what the type does not.
pub(super) fn crd() -> String {
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
