//! Objections: what the API server refuses of all that a look asks of it, and what of that is said to the user.
//!
//! Must not write the status, nor try anything again.

use std::time::Duration;

use kube::ResourceExt;

use super::problem::Problem;
use super::{Desk, RESYNC, act};
use crate::api::oneagent::OneAgent;
use crate::api::oneagent::condition::Reason;
use crate::kernel;

/// How a look failed: whether the user was told.
pub enum Failed {
    Said(kernel::Error),
    Unsaid(kernel::Error),
}

impl<E: Into<kernel::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Unsaid(error.into())
    }
}

/// What of an error is to be said.
pub fn complaint(desk: &Desk, error: &kernel::Error) -> Option<Problem> {
    let (said, tried) = (desk.complaint(error)?, error.to_string());
    let said = if said.starts_with(&tried) { said } else { format!("{tried}: {said}") };
    let is_right = error.has_code(&[401, 403]) && said.contains(" cannot ") && !said.contains("admission webhook");
    Some(if is_right {
        let message = format!(
            "{said}; grant the operator that right (config/oneagent-operator/rbac.yaml has them all); agents run on"
        );
        (Reason::RightsMissing, message)
    } else {
        let message = format!("{said}; fix the policy, webhook or server that refuses it; it is tried again");
        (Reason::WriteRefused, message)
    })
}

/// What the API server refuses does not get better in silence: it is said. What it refuses for its content waits for
/// another spec; the rest, a policy or a webhook of somebody's, is tried again.
pub fn refusal(
    object: &OneAgent,
    desk: &Desk,
    failure: act::Failure,
) -> (Option<Problem>, Result<Duration, kernel::Error>) {
    match failure {
        act::Failure::Other(error) => {
            if let Some(message) = error.refusal() {
                let message = format!("the API server refuses what the spec asks for: {message}");
                return (Some((Reason::InvalidSpec, message)), Ok(RESYNC));
            }
            let said = desk.complaint(&error).map(|message| {
                let message = format!(
                    "the API server refuses DaemonSet {}: {message}; fix the policy, webhook or right that refuses \
                    it; it is tried again",
                    label(object)
                );
                (Reason::WriteRefused, message)
            });
            (said, Err(error))
        }
        act::Failure::Bundle(name, error) => {
            let namespace = object.namespace().unwrap_or_default();
            let said = error.objection().map(|message| {
                let message = format!(
                    "ConfigMap {namespace}/{name} for the cluster's certificates cannot be made: {message}; fix what \
                    refuses it, or set spec.openshift.clusterCAs to false"
                );
                (Reason::TrustedCAsMissing, message)
            });
            (said, Err(error))
        }
        act::Failure::PullSecret(name, error) => {
            let namespace = object.namespace().unwrap_or_default();
            let said = error.objection().map(|message| {
                let message = format!(
                    "Secret {namespace}/{name} cannot be written: {message}; delete it or fix what refuses it, or \
                    name a Secret of yours in spec.customPullSecret"
                );
                (Reason::PullSecretInvalid, message)
            });
            // Whatever refuses it may not be watched.
            (said, Err(error))
        }
    }
}

/// Namespace and name, as people write them.
pub fn label(object: &OneAgent) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
