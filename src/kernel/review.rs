//! Review: who a caller is and what it may do, as the API server says. It stores nothing.
//!
//! Must not decide what follows.

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

use super::{Error, call};

/// Whether a ServiceAccount may do something.
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
    is_allowed(client, spec).await
}

/// What the caller may do in a namespace.
#[expect(clippy::disallowed_methods, reason = "a question that the API server takes as an object and does not store")]
pub async fn rules(client: &Client, namespace: &str) -> Result<serde_json::Value, Error> {
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
    let api: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let answer = call(|| "ask what you may do".to_owned(), api.create(&PostParams::default(), &review)).await?;
    Ok(serde_json::to_value(answer.status)?)
}

/// Whether a caller may get a non-resource path of ours.
pub async fn may_get_path(client: &Client, who: UserInfo, path: &str) -> Result<bool, Error> {
    let path = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
    let spec = SubjectAccessReviewSpec {
        user: who.username,
        groups: who.groups,
        uid: who.uid,
        extra: who.extra,
        non_resource_attributes: Some(path),
        ..SubjectAccessReviewSpec::default()
    };
    is_allowed(client, spec).await
}

/// Whose token it is; `None`: no one's.
#[expect(clippy::disallowed_methods, reason = "a question that the API server takes as an object and does not store")]
pub async fn whose(client: &Client, token: &str) -> Result<Option<UserInfo>, Error> {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    let api: Api<TokenReview> = Api::all(client.clone());
    let answer = call(|| "ask whose token it is".to_owned(), api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.filter(|status| status.authenticated == Some(true)).and_then(|status| status.user))
}

#[expect(clippy::disallowed_methods, reason = "a question that the API server takes as an object and does not store")]
async fn is_allowed(client: &Client, spec: SubjectAccessReviewSpec) -> Result<bool, Error> {
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = call(|| "ask who may do what".to_owned(), api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
