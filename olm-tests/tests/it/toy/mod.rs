//! A toy kind that replaces Pods, on a real API server: whole rollouts, edits, objects that do not decode, and another
//! of the same name.

mod kind;
mod package;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DeleteParams, PostParams};
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{Lab, SOON};
use oneagent_operator::clock::Clock;
use oneagent_operator::kernel::ApiContact;
use oneagent_operator::kernel::feed::Feed;
use oneagent_operator::kernel::kind::{Kind, Process, Shared};
use oneagent_operator::kernel::runtime::Runtime;
use oneagent_operator::kernel::sync::Scope;
use oneagent_operator::kernel::triggers::Triggers;
use serde_json::json;

use kind::{Refresh, RefreshSpec, Refreshes};

#[test]
fn a_kind_that_replaces_pods_brings_only_its_domain() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        cluster.apply(&package::crd());
        let established = ["wait", "--for=condition=Established", "crd/refreshes.toys.example", "--timeout=240s"];
        cluster.try_kubectl(&established, None).unwrap();
        let lab = Lab::without_operator(cluster, "toys", 3).await;
        lab.message("one");
        let workload = |revision: &str| {
            let mut set = lab.workload_of("DaemonSet", "web", &json!({ "updateStrategy": { "type": "OnDelete" } }));
            set["spec"]["template"]["metadata"]["labels"]["revision"] = revision.into();
            lab.cluster.apply(&set.to_string());
        };
        workload("one");

        let scope = Scope(vec![lab.name.clone()]);
        let (triggers, receivers) = Triggers::new(&scope);
        let (client, clock) = (cluster.client.clone(), Clock::default());
        let contact = Arc::new(ApiContact::new(clock.clone(), Duration::from_secs(1)));
        contact.leads(None);
        let process =
            Process { client: client.clone(), clock, namespace: lab.name.clone(), pod: "toys".to_owned(), contact };
        let (tell, _told) = tokio::sync::mpsc::unbounded_channel();
        let (kind, shared) = (Arc::new(Refreshes::default()), Arc::new(Shared::new::<Refreshes>(process, tell)));
        let watches = {
            let mut feed = Feed::new(&client, &scope, &triggers);
            kind.watch(&mut feed);
            feed.started()
        };
        let runtime = Runtime::new(kind.clone(), shared, triggers);
        runtime.decides_from(watches.synced());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = futures::FutureExt::shared(async move { drop(stopped.await) });
        let work = tokio::spawn(runtime.run(receivers, stopped));

        let api: Api<Refresh> = Api::namespaced(client, &lab.name);
        let says = async |reason: &str, message: &str| {
            eventually(&format!("web says {reason}: {message}"), SOON, || async {
                let web = api.get("web").await.map_err(|e| e.to_string())?;
                let status = web.status.unwrap_or_default();
                if status.observed_generation != web.metadata.generation {
                    return Err("an older generation".to_owned());
                }
                let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
                let said = ready.map(|ready| (&*ready.reason, &*ready.message));
                if said == Some((reason, message)) { Ok(()) } else { Err(format!("{said:?}")) }
            })
            .await;
        };
        // One that does not decode says so, and hinders no other.
        let nonsense = json!({ "apiVersion": "toys.example/v1", "kind": "Refresh",
            "metadata": { "name": "nonsense", "namespace": lab.name }, "spec": { "revision": 7 } });
        cluster.apply(&nonsense.to_string());
        let unread = async || {
            let path = "jsonpath={.status.conditions[?(@.type==\"Degraded\")].reason}";
            let said = cluster.try_kubectl(&["-n", &lab.name, "get", "refresh", "nonsense", "-o", path], None)?;
            if said == "InvalidSpec" { Ok(()) } else { Err(said) }
        };
        eventually("the nonsense is refused", SOON, unread).await;

        let node_selector = BTreeMap::from([("lab".to_owned(), lab.name.clone())]);
        let spec = |revision: &str| RefreshSpec { revision: revision.to_owned(), node_selector: node_selector.clone() };
        let mut refresh = Refresh::new("web", spec("one"));
        api.create(&PostParams::default(), &refresh).await.unwrap();
        says("Refreshed", "3 of 3 Pods").await;
        let eyes = Eyes::on_replicas(&lab, "app=web", 3).await;
        workload("two");
        refresh = api.get("web").await.unwrap();
        refresh.spec.revision = "two".to_owned();
        api.replace("web", &PostParams::default(), &refresh).await.unwrap();
        says("Refreshed", "3 of 3 Pods").await;
        assert_eq!(eyes.seen().await.counts(), (1, 3), "one node at a time, each Pod once");

        // An invalid spec stops nothing that runs; the next object of the name begins again.
        refresh = api.get("web").await.unwrap();
        refresh.spec.revision = String::new();
        api.replace("web", &PostParams::default(), &refresh).await.unwrap();
        says("InvalidSpec", "spec.revision is empty").await;
        api.delete("web", &DeleteParams::default()).await.unwrap();
        let again = Refresh::new("web", spec("two"));
        api.create(&PostParams::default(), &again).await.unwrap();
        says("Refreshed", "3 of 3 Pods").await;
        assert!(kind.gone.lock().unwrap().iter().any(|gone| gone.starts_with("web")), "what was held for it went");
        assert_eq!(eyes.seen().await.counts().1, 3, "nothing else went");

        drop(stop);
        work.await.unwrap();
        drop(watches);
    });
}
