//! Containers of Pods that run already: they start again, and others join them.
//!
//! Must not know who has a container join, nor what it does there.

use serde_json::{Value, json};

use super::status::{condition, text};
use super::turn::Turn;
use super::world::{Due, World};

impl World {
    /// A container joins a Pod, as the API server and the kubelet have it; then happens, after so many seconds each,
    /// what `turns` says. Returns whether there is such a Pod, unchanged.
    pub fn join_pod(&mut self, pod: &str, version: &str, container: &Value, turns: Vec<(i64, Turn)>) -> bool {
        let is_it = |found: &&mut Value| found["metadata"]["resourceVersion"] == version;
        let Some(found) = self.pods.get_mut(pod).filter(is_it) else { return false };
        push(&mut found["spec"]["ephemeralContainers"], container.clone());
        let mut status = found["status"].clone();
        push(
            &mut status["ephemeralContainerStatuses"],
            json!({ "name": container["name"], "state": { "waiting": {} } }),
        );
        self.set_status(pod, status);
        for (seconds, turn) in turns {
            self.after(seconds, Due::Turn(pod.to_owned(), turn));
        }
        true
    }

    /// What happens, from now on, to containers on a node that have joined Pods and wait.
    pub fn turn_waiting(&mut self, node: &str, turns: impl Fn(&str) -> Vec<(i64, Turn)>) {
        for pod in self.pods_on(node) {
            let joined = self.pods[&pod]["status"]["ephemeralContainerStatuses"].as_array().cloned();
            let waiting = joined.into_iter().flatten().filter(|one| one["state"].get("waiting").is_some());
            for one in waiting {
                for (seconds, turn) in turns(one["name"].as_str().unwrap_or_default()) {
                    self.after(seconds, Due::Turn(pod.clone(), turn));
                }
            }
        }
    }

    /// Sets annotations of a Pod, or takes them away.
    pub fn annotate(&mut self, pod: &str, annotations: &[(&str, Option<String>)]) {
        let Some(found) = self.pods.get_mut(pod) else { return };
        for (key, value) in annotations {
            found["metadata"]["annotations"][*key] = value.clone().into();
        }
        if let Some(all) = found["metadata"]["annotations"].as_object_mut() {
            all.retain(|_, value| !value.is_null());
        }
        let status = found["status"].clone();
        self.set_status(pod, status);
    }

    /// The containers of a node's Pods end and are started again.
    pub fn restart_on(&mut self, node: &str) {
        for pod in self.pods_on(node) {
            self.turn(&pod, &Turn::Restart);
        }
    }

    /// What a new status keeps of the one before: which container it is, and which have joined.
    pub(super) fn carry(before: &Value, mut now: Value, version: &str) -> Value {
        let was = &before["containerStatuses"][0];
        if let Some(is) = now.get_mut("containerStatuses").and_then(|all| all.get_mut(0)) {
            for key in ["containerID", "lastState"] {
                if is.get(key).is_none() && was.get(key).is_some() {
                    is[key] = was[key].clone();
                }
            }
            // One that runs on was started when it was.
            let runs = |one: &Value| one["state"].get("running").is_some();
            if runs(was) && runs(is) && is["restartCount"].as_i64() <= was["restartCount"].as_i64() {
                is["state"] = was["state"].clone();
            }
            is["restartCount"] = is["restartCount"].as_i64().max(was["restartCount"].as_i64()).into();
            if runs(is) && is.get("containerID").is_none() {
                is["containerID"] = format!("container-{version}").into();
            }
        }
        if now["ephemeralContainerStatuses"].is_null() && before["ephemeralContainerStatuses"].is_array() {
            now["ephemeralContainerStatuses"] = before["ephemeralContainerStatuses"].clone();
        }
        now
    }

    /// It happens, if the Pod is still there; a silent kubelet says so later.
    pub(super) fn turn(&mut self, pod: &str, turn: &Turn) {
        let Some(found) = self.pods.get(pod) else { return };
        let node = found["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        if !self.is_up(&node) {
            self.unsaid.push((pod.to_owned(), turn.clone()));
            return;
        }
        let mut status = found["status"].clone();
        match turn {
            Turn::Joined(name, state) => {
                let all = status["ephemeralContainerStatuses"].as_array_mut();
                for one in all.into_iter().flatten().filter(|one| one["name"] == name.as_str()) {
                    one["state"] = state.clone();
                }
            }
            Turn::Restart => {
                let number = self.next();
                let own = &mut status["containerStatuses"][0];
                let since = own["state"]["running"]["startedAt"].clone();
                let end = json!({ "containerID": own["containerID"], "exitCode": 1, "startedAt": since,
                    "finishedAt": text(self.now) });
                own["lastState"] = json!({ "terminated": end });
                own["state"] = json!({ "running": { "startedAt": text(self.now) } });
                own["containerID"] = format!("container-{number}").into();
                own["restartCount"] = (own["restartCount"].as_i64().unwrap_or_default() + 1).into();
                self.after(5, Due::Turn(pod.to_owned(), Turn::Ready(true)));
            }
            Turn::Ready(_) => {}
        }
        if let Turn::Restart | Turn::Ready(_) = turn {
            let is_ready = matches!(turn, Turn::Ready(true));
            status["containerStatuses"][0]["ready"] = is_ready.into();
            for one in status["conditions"].as_array_mut().into_iter().flatten().filter(|one| one["type"] == "Ready") {
                *one = condition("Ready", is_ready, self.now);
                if !is_ready {
                    one["reason"] = "ContainersNotReady".into();
                }
            }
        }
        self.set_status(pod, status);
    }

    /// The node controller says that a Pod is not Ready, and leaves the rest as its kubelet said it last.
    pub(super) fn set_unready(&mut self, name: &str) {
        let Some(mut status) = self.pods.get(name).map(|pod| pod["status"].clone()) else { return };
        let now = self.now;
        let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
        for found in conditions.into_iter().flatten().filter(|c| c["type"] == "Ready") {
            if found["status"] == "True" {
                *found = condition("Ready", false, now);
            }
        }
        self.set_status(name, status);
    }

    /// A kubelet that is heard again says what happened meanwhile.
    pub(super) fn say_what_was_unsaid(&mut self, pod: &str) {
        let all = std::mem::take(&mut self.unsaid);
        for (of, turn) in all {
            if of == pod {
                self.turn(&of, &turn);
            } else {
                self.unsaid.push((of, turn));
            }
        }
    }
}

fn push(list: &mut Value, one: Value) {
    if let Some(all) = list.as_array_mut() {
        all.push(one);
    } else {
        *list = json!([one]);
    }
}
