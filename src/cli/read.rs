//! Reading a cluster for a command that looks once: lists with the caller's rights, and what may have been meant.
//!
//! Must not write.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Api, ListParams};
use kube::core::object::{HasSpec, HasStatus};
use kube::{Client, CustomResourceExt, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schema;
use crate::api::PACKAGES;
use crate::api::oneagent::package::STEER;
use crate::api::package::Package;
use crate::api::rollout::NodeCounts;
use crate::kernel::{Reached, chain, refused};
use crate::rollout::Pod;

/// A cluster, read with the caller's rights.
#[derive(Clone, Copy)]
pub(super) struct Reader<'c> {
    pub(super) client: &'c Client,
    /// Address of its API server.
    pub(super) address: &'c str,
    /// The operator whose ClusterRole for people has the rights.
    pub(super) operator: &'static str,
}

impl<'c> Reader<'c> {
    /// Of a cluster that was reached, with the rights that this operator's role has.
    pub(super) fn of(reached: &'c Reached, operator: &'static str) -> Self {
        Self { client: &reached.client, address: &reached.address, operator }
    }

    /// Everything of a kind, of a namespace or of all; the error names it and the verb.
    pub(super) async fn within<K>(&self, namespace: Option<&str>, what: &str, labels: &str) -> Result<Vec<K>, String>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        self.list(self.api(namespace), what, labels).await
    }

    /// Everything of a kind that need not be installed, nor be allowed; the inner error says that it is not.
    pub(super) async fn any<K>(&self, namespace: Option<&str>, what: &str) -> Result<Result<Vec<K>, String>, String>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let error = match paged(&self.api::<K>(namespace), "").await {
            Ok(list) => return Ok(Ok(list)),
            Err(error) => error,
        };
        let why = self.unanswered(&format!("list {what}"), &error);
        let is_absent = matches!(&error, kube::Error::Api(status) if matches!(status.code, 403 | 404));
        if is_absent { Ok(Err(why)) } else { Err(why) }
    }

    /// Why the API server refuses Pods of a DaemonSet, if some are missing; `counts`: what its object's status says.
    pub(super) async fn refused<R>(
        &self,
        (set, pods): (Option<&DaemonSet>, &[Arc<Pod<R>>]),
        counts: Option<&NodeCounts>,
        now: DateTime<Utc>,
    ) -> Result<Option<String>, String> {
        let Some(set) = set else { return Ok(None) };
        // Since when a Pod is missing only the operator knows.
        let since = counts.is_some_and(|nodes| nodes.admission > 0).then_some(DateTime::UNIX_EPOCH);
        refused::why(self.client, set, (pods, since), now).await.map_err(|why| why.chain())
    }

    fn api<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let client = self.client.clone();
        namespace.map_or_else(|| Api::all(client.clone()), |one| Api::namespaced(client.clone(), one))
    }

    /// Everything of a kind in the cluster.
    pub(super) async fn all<K>(&self, what: &str) -> Result<Vec<K>, String>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        self.list(Api::all(self.client.clone()), what, "").await
    }

    async fn list<K>(&self, api: Api<K>, what: &str, labels: &str) -> Result<Vec<K>, String>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        paged(&api, labels).await.map_err(|error| self.unanswered(&format!("list {what}"), &error))
    }

    /// Why a request that reads failed, and what helps.
    pub(super) fn unanswered(&self, request: &str, error: &kube::Error) -> String {
        self.failed(request, error, &self.role(|package| !package.reads.is_empty(), ["observe", "view"]))
    }

    /// Why a patch of an object failed, and what helps.
    pub(super) fn unwritten(&self, request: &str, error: &kube::Error) -> String {
        let steers = |package: &Package| package.extras.iter().any(|extra| extra.file == STEER);
        self.failed(request, error, &self.role(steers, ["steer", "edit"]))
    }

    /// The first of two roles, where the operator's package has it.
    fn role(&self, has_it: impl Fn(&Package) -> bool, [first, second]: [&str; 2]) -> String {
        let has_it = PACKAGES.iter().any(|package| package.name == self.operator && has_it(package));
        format!("ClusterRole {}-{}", self.operator, if has_it { first } else { second })
    }

    /// Why a request failed, and what helps; `grant`: what an administrator grants.
    pub(super) fn failed(&self, request: &str, error: &kube::Error, grant: &str) -> String {
        let why = chain(error);
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                format!("cannot {request}: {why}; an administrator grants that by {grant}")
            }
            kube::Error::Api(status) if status.code == 401 => {
                format!("cannot {request}: the API server does not accept your credentials ({why}); log in again")
            }
            kube::Error::Api(_) => format!("cannot {request}: {why}"),
            kube::Error::SerdeError(_) => format!("cannot {request}: {}", unknown_form(&why)),
            _ => {
                format!("cannot {request}: the API server at {} does not answer: {why}", self.address)
            }
        }
    }
}

/// That an object is of a form that this program does not know: an operator of another release made it, or its CRD.
pub(super) fn unknown_form(why: &str) -> String {
    format!(
        "an object has a form that this program does not know ({why}): use the program of the operator's release, \
        which kubectl oneagent version prints"
    )
}

/// So many objects are asked for at once.
const PAGE: u32 = 250;

/// A list, page by page: the objects of a large cluster are never there twice.
async fn paged<K>(api: &Api<K>, labels: &str) -> Result<Vec<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams::default().labels(labels).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await;
        // What follows the first page may be too old by then: from the start, and as a whole.
        if all.is_empty() || !matches!(&page, Err(kube::Error::Api(status)) if status.code == 410) {
            let page = page?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        } else {
            return api.list(&ListParams::default().labels(labels)).await.map(|list| list.items);
        }
    }
}

/// The desired objects, and where they come from.
pub(super) struct Edited {
    pub(super) shown: String,
    pub(super) objects: Vec<Value>,
}

/// The objects of a file (`-`: of standard input).
#[expect(clippy::disallowed_methods, reason = "the command line")]
pub(super) fn objects(file: &Path) -> Result<Vec<Value>, String> {
    let shown = file.display();
    let text =
        if file == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    let text = text.map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut found = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let not_yaml = |error: serde_yaml::Error| format!("{shown} is no YAML: {error}");
        let mut value = serde_yaml::Value::deserialize(document).map_err(not_yaml)?;
        value.apply_merge().map_err(not_yaml)?;
        let mut value: Value = serde_yaml::from_value(value).map_err(not_yaml)?;
        // What `kubectl get -o yaml` prints.
        let items = if value["kind"] == "List" { value["items"].as_array_mut().map(std::mem::take) } else { None };
        found.extend(items.unwrap_or_else(|| vec![value]));
    }
    Ok(found)
}

/// Has a list hold an object of a file, with what the cluster has of it beside the spec; returns it as it is there.
pub(super) fn edited<K>(all: &mut Vec<K>, mut object: K, namespace: String) -> K
where
    K: Resource + HasSpec + HasStatus + Clone,
{
    let is_it =
        |other: &&mut K| other.meta().name == object.meta().name && other.meta().namespace.as_ref() == Some(&namespace);
    if let Some(live) = all.iter_mut().find(is_it) {
        std::mem::swap(live.spec_mut(), object.spec_mut());
        return live.clone();
    }
    object.meta_mut().namespace = Some(namespace);
    *object.status_mut() = None;
    all.push(object.clone());
    object
}

/// The objects of a kind among those of a file, refused as the API server refuses one; and the others.
pub(super) fn of_kind<K>(edited: Edited) -> Result<(Vec<K>, Vec<Value>), String>
where
    K: CustomResourceExt + DeserializeOwned,
{
    let (crd, Edited { shown, objects }) = (K::crd(), edited);
    let kind = &crd.spec.names.kind;
    let mut found = Vec::new();
    let mut others = Vec::new();
    for value in objects {
        if value["kind"] != *kind {
            others.push(value);
            continue;
        }
        let name = value["metadata"]["name"].as_str().unwrap_or("without a name").to_owned();
        let refusals = schema::refusals(&crd, &value);
        let refused = |why: String| format!("{shown}: the API server would refuse {kind} {name}: {why}");
        if !refusals.is_empty() {
            return Err(refused(refusals.join("; ")));
        }
        found.push(serde_json::from_value(value).map_err(|error| refused(error.to_string()))?);
    }
    Ok((found, others))
}
