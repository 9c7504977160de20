//! The kind that greets, on a real API server: looked at once, again for an edit, and again for another of its name.

mod kind;

use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::lab::SOON;
use oneagent_operator::kernel::runtime::Runtime;
use oneagent_operator::kernel::sync::{Scope, Watches};
use oneagent_operator::kernel::triggers::Triggers;
use serde_json::json;

use kind::{Greeter, Greeting, GreetingSpec, crd};

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
        let runtime = Runtime::new(client.clone(), kind.clone(), triggers, "toys");
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

        // The next one of its name begins again.
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
