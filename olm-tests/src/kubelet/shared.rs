//! Pods whose containers share their processes: one that only waits holds the namespace, as a runtime's does.
//!
//! Must not know what runs in the others.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::spec::Spec;
use crate::sandbox::{Container, Program, Sandbox};

/// How the one that waits is named: as no container of a Pod can be.
pub(super) const HOLDER: &str = "(holder)";
/// So often it is asked whether it has begun.
const LOOK: Duration = Duration::from_millis(5);

fn is_shared(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.share_process_namespace == Some(true))
}

/// What a container that joins such a Pod is started with: containers have no cgroups of their own here, so it gets
/// those that name each process's container. A JVM does not: it would read its own limits there, and crashes.
pub(super) fn names_containers(pod: &Pod, spec: &Spec) -> Option<(String, String)> {
    (is_shared(pod) && spec.target.is_some()).then(|| ("RIG_SHARED".to_owned(), "yes".to_owned()))
}

/// The one that waits, if it is such a Pod.
pub(super) async fn holder(pod: &Pod, sandbox: &Sandbox) -> Option<Container> {
    if !is_shared(pod) {
        return None;
    }
    let program = Program {
        image: sandbox.volume("holder"),
        words: ["sleep", "infinity"].map(str::to_owned).to_vec(),
        environment: Vec::new(),
        user: (0, 0),
        is_read_only: false,
        mounts: Vec::new(),
    };
    let mut holder = sandbox.start("holder", &program, None);
    // Beside one that has not begun, another would have processes of its own.
    while holder.command(&[], 1).is_none() && holder.ended().is_none() {
        tokio::time::sleep(LOOK).await;
    }
    Some(holder)
}
