//! Review: whether somebody may do something, as the API server's authorizers say. It stores nothing.
//!
//! Must not decide what follows.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};

use super::{Error, call};

/// Whether a ServiceAccount may do something.
#[expect(clippy::disallowed_methods, reason = "a question that the API server takes as an object and does not store")]
pub async fn may(
    client: &Client,
    (namespace, account): (&str, &str),
    attributes: ResourceAttributes,
) -> Result<bool, Error> {
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    let spec = SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{account}")),
        groups: Some(groups.into_iter().chain(["system:authenticated".to_owned()]).collect()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = call(|| "ask who may do what".to_owned(), api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
