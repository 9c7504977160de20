//! Verbs that write: each is its kubectl command, `--dry-run` writes nothing, nothing is replaced unasked, and an edit
//! beside it stays.

use std::process::Command;

use kube::api::{Patch, PatchParams};
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, V3};
use olm_tests::tools::tool;
use serde_json::{Value, json};

use super::{Came, Person};

impl Person<'_> {
    /// Sets the spec of OneAgent `agent` to this, as an administrator.
    async fn reset(&self, spec: &Value) {
        let mut agent = serde_json::to_value(self.lab.agents().get("agent").await.unwrap()).unwrap();
        agent["spec"] = spec.clone();
        agent["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let text = agent.to_string();
        self.lab.cluster.try_kubectl(&["replace", "-f", "-"], Some(&text)).unwrap();
        self.lab.is_observed("agent").await;
    }

    /// Holds that a verb does what the command that it prints does, and `--dry-run` nothing; leaves its outcome.
    async fn is_as_kubectl(&self, words: &[&str], sets: &[(&str, Value)]) {
        let before = self.spec().await;
        let writes = self.wrote().len();
        let printed = self.says(0, &[words, &["--dry-run"]].concat());
        assert_eq!((self.spec().await, self.wrote().len()), (before.clone(), writes), "{words:?} --dry-run");
        let said = self.says(0, &[words, &["--yes"]].concat());
        assert!(said.starts_with(&printed) && said.contains("OneAgent"), "{said}");
        let by_verb = self.spec().await;
        for (pointer, value) in sets {
            assert_eq!(by_verb.pointer(pointer).unwrap_or(&Value::Null), value, "{words:?} {pointer}");
        }
        let patches = printed.matches(" patch oneagent ").count();
        let sent = self.wrote();
        assert_eq!(sent.len() - writes, patches, "{words:?}: {sent:?}");
        assert!(sent.iter().all(|one| (&*one.verb, &*one.resource) == ("patch", "oneagents")), "{sent:?}");
        self.reset(&before).await;
        let kubectl = tool("kubectl");
        let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
        // What waits for a generation names that of its own time.
        let now = self.lab.agents().get("agent").await.unwrap().metadata.generation.unwrap();
        let typed = match printed.split_once("observedGeneration}'=") {
            Some((head, tail)) => {
                format!("{head}observedGeneration}}'={}\n{}", now + 1, tail.split_once('\n').unwrap().1)
            }
            None => printed.clone(),
        };
        let mut shell = Command::new("sh");
        let done = shell.args(["-ec", &typed]).env("KUBECONFIG", &self.kubeconfig).env("PATH", path).output().unwrap();
        assert!(done.status.success(), "{typed}: {}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(self.spec().await, by_verb, "{typed}");
    }
}

#[test]
fn every_verb_is_the_command_that_it_prints_and_a_dry_run_writes_nothing() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-verbs", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let person = Person::who_steers(&lab).await;
        person.is_as_kubectl(&["pause", "agent"], &[("/rollout/paused", json!(true))]).await;
        assert!(person.says(0, &["pause", "agent"]).contains("so already: nothing to do"));
        // From here on nothing is replaced, so nothing is asked.
        person.is_as_kubectl(&["pin", "agent", V3], &[("/update/version", json!(V3))]).await;
        person.is_as_kubectl(&["unpin", "agent"], &[("/update/version", Value::Null)]).await;
        let back = [("/update/version", json!(V1)), ("/update/allowDowngrade", json!(true))];
        person.is_as_kubectl(&["rollback", "agent"], &back).await;
        let none = [("/update/version", Value::Null), ("/update/allowDowngrade", Value::Null)];
        person.is_as_kubectl(&["unpin", "agent"], &none).await;
        person.is_as_kubectl(&["retry", "agent", V2], &[("/rollout/retry", json!(V2))]).await;
        // Once more: it must be taken away first.
        person.is_as_kubectl(&["retry", "agent", V2], &[("/rollout/retry", json!(V2))]).await;
        person.is_as_kubectl(&["resume", "agent"], &[("/rollout/paused", Value::Null)]).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let Came { code, noted, .. } = person.types(&["pin", "agent", "1.2"]);
        assert!(code == Some(2) && noted.contains("1.2 is no version"), "{noted}");
        let Came { code, noted, .. } = person.types(&["pin", "agent", V1]);
        assert!(code == Some(2) && noted.contains("add --allow-downgrade, or use rollback"), "{noted}");
        let Came { code, noted, .. } = person.types(&["retry", "agnt"]);
        assert!(code == Some(2) && noted.contains("the nearest name is agent"), "{noted}");
        let Came { code, noted, .. } = person.types(&["retry", "agent"]);
        assert!(code == Some(2) && noted.contains("has failed: name a version"), "{noted}");
        let Came { code, noted, .. } = person.types(&["retry", "agent", V3]);
        assert!(code == Some(2) && noted.contains("knows no version") && noted.contains(V2), "{noted}");
        lab.end().await;
    });
}

#[test]
fn what_replaces_agents_is_asked_first_and_a_deployer_that_will_revert_it_is_named() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-asked", 3).await;
        lab.oneagent(&json!({ "rollout": { "paused": true } }));
        lab.all_at("agent", V1, 3, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.shows("three are outdated", SOON, |status| {
            status.nodes.as_ref().is_some_and(|nodes| nodes.outdated == 3 && nodes.version_unknown == 0)
        })
        .await;
        let person = Person::who_steers(&lab).await;
        let before = person.spec().await;
        let Came { code, said, noted } = person.types(&["resume", "agent"]);
        assert_eq!(code, Some(2), "{said}{noted}");
        assert!(said.contains("3 agents are replaced, in"), "{said}");
        assert!(noted.contains("3 agents are replaced; add --yes"), "{noted}");
        assert_eq!((person.spec().await, person.wrote().len()), (before, 0));
        lab.cluster.kubectl(&["-n", &lab.name, "label", "oneagent", "agent", "argocd.argoproj.io/instance=site"]);
        let Came { code, noted, .. } = person.types(&["resume", "agent", "--yes"]);
        assert_eq!(code, Some(0), "{noted}");
        assert!(
            noted.contains("Argo CD application site manages OneAgent plugin-asked/agent and may revert"),
            "{noted}"
        );
        lab.all_at("agent", V2, 3, LONG).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        // A version that fails, and the word to try it again, by its default.
        lab.behave(|b| {
            b.versions.insert(V3.to_owned(), Fault::CrashLoop);
        });
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        let printed = person.says(0, &["retry", "agent", "--dry-run"]);
        assert!(printed.contains(&format!(r#"{{"spec":{{"rollout":{{"retry":"{V3}"}}}}}}"#)), "{printed}");
        let printed = person.says(0, &["rollback", "agent", "--dry-run"]);
        let status = lab.status("agent").await;
        assert!(printed.contains(&format!(r#""version":"{V2}""#)), "the last that was good: {printed} {status:#?}");
        lab.behave(|b| b.versions.clear());
        person.says(0, &["retry", "agent", "--yes"]);
        lab.all_at("agent", V3, 3, LONG).await;
        lab.end().await;
    });
}

#[test]
fn a_verb_beside_edits_of_others_loses_neither() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-beside", 1).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        let person = Person::who_steers(&lab).await;
        let others = async {
            for number in 0..200 {
                let note = json!({ "metadata": { "annotations": { "number": number.to_string() } } });
                lab.agents().patch("agent", &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
            }
        };
        let verbs = async {
            let mut conflicts = 0;
            for round in 0..6 {
                let word = if round % 2 == 0 { "pause" } else { "resume" };
                let Came { code, said, noted } = person.typing(&[word, "agent", "--yes"]).wait().await;
                // Where others write all the time it may give up, and says so.
                if code == Some(0) {
                    let paused = &person.spec().await["rollout"]["paused"];
                    assert_eq!(*paused == json!(true), word == "pause", "{said}");
                } else {
                    assert!(noted.contains("is written by others all the time: try again"), "{noted}");
                    conflicts += 1;
                }
            }
            conflicts
        };
        let ((), conflicts) = tokio::join!(others, verbs);
        assert!(conflicts < 6, "some came through");
        let agent = lab.agents().get("agent").await.unwrap();
        assert_eq!(agent.metadata.annotations.unwrap()["number"], "199");
        lab.end().await;
    });
}

#[test]
fn everything_is_stopped_and_resumed_by_the_operators_configmap() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-stop", 1).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        let maps = json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"] });
        let kubeconfig = crate::explain::on_call_with(&lab, "oneagent-operator", maps).await;
        let person = Person { lab: &lab, kubeconfig };
        let printed = person.says(0, &["pause", "--all", "--dry-run"]);
        let created = "kubectl -n plugin-stop create configmap oneagent-operator --from-literal=stop=true\n";
        assert_eq!(printed, created);
        person.says(0, &["pause", "--all"]);
        lab.condition("agent", "Progressing", "False", "Stopped").await;
        assert!(person.says(0, &["pause", "--all"]).contains("says so already"));
        let printed = person.says(0, &["resume", "--all", "--dry-run"]);
        let patched = r#"patch configmap oneagent-operator --type=merge -p '{"data":{"stop":null}}'"#;
        assert!(printed.contains(patched), "{printed}");
        let Came { code, noted, .. } = person.types(&["resume", "--all"]);
        let is_told = noted.contains("Pods that wait are replaced as soon as the operator continues");
        assert!(code == Some(2) && is_told, "{noted}");
        person.says(0, &["resume", "--all", "--yes"]);
        eventually("it goes on", SOON, || async {
            let state = lab.status("agent").await.rollout.unwrap_or_default().state;
            if state == "Complete" { Ok(()) } else { Err(state) }
        })
        .await;
        person.says(0, &["pause", "--all"]);
        lab.condition("agent", "Progressing", "False", "Stopped").await;
        lab.end().await;
    });
}
