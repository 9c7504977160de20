//! A Pod of a component, as its watch shows it.
//!
//! Pure. Must not judge what follows.

use chrono::{DateTime, Utc};

use crate::fleet::pods::{GENERATION_LABEL, pod};
use crate::fleet::replicas::REVISION_LABEL;
use crate::k8s::facts::{PodFacts, TEMPLATE, TRUSTS};
use crate::rollout::Trouble;

/// A Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    pub uid: String,
    /// Where it is; before it is bound, the first node that it names.
    pub node: String,
    pub is_bound: bool,
    /// Since when it is Ready, by its kubelet's clock.
    pub ready_since: Option<DateTime<Utc>>,
    /// Since when it is not Ready, as its status says.
    pub unready_since: Option<DateTime<Utc>>,
    pub is_ending: bool,
    /// Hash of the template that it was made from.
    pub template: String,
    /// By which entry it saw the newest authority that it trusts, if it trusts any.
    pub trusts: Option<String>,
    /// The revision of its controller that it was made from, which another placement changes, too; of a DaemonSet, the
    /// generation of its template.
    pub revision: String,
    /// What its containers run, by name.
    pub images: Vec<(Box<str>, Box<str>)>,
    /// What keeps it from starting, in its kubelet's words.
    pub trouble: Option<String>,
    /// Why no scheduler has bound it to a node: that may be over in a moment.
    pub unbound: Option<String>,
    /// Its row's kind, and its component.
    pub of: (String, String),
}

impl Server {
    /// A Pod with this label of rows; `None`: it is no one's.
    #[must_use]
    pub fn of(facts: &PodFacts, label: &str) -> Option<Self> {
        let labels = facts.metadata.labels.as_ref()?;
        let kind = labels.get(label)?.clone();
        let component = labels.get(&kind)?.clone();
        let seen = pod::<()>(facts, None)?;
        let annotations = facts.metadata.annotations.as_ref();
        let (mut trouble, mut unbound) = (None, None);
        match seen.trouble {
            Some(Trouble::Capacity(why)) => unbound = Some(why),
            Some(Trouble::Crash(why) | Trouble::Image(why) | Trouble::Config(why) | Trouble::Ended(why)) => {
                trouble = Some(why);
            }
            Some(Trouble::Start(_) | Trouble::Unbound | Trouble::Unstarted(_)) | None => {}
        }
        let ended = matches!(facts.status.phase.as_deref(), Some("Failed" | "Succeeded"));
        Some(Self {
            name: seen.name.to_string(),
            uid: seen.id.to_string(),
            node: seen.node.to_string(),
            is_bound: facts.spec.node_name.as_ref().is_some_and(|node| !node.is_empty()),
            ready_since: seen.ready_since,
            unready_since: seen.unready_since,
            is_ending: seen.deleting || ended,
            template: annotations.and_then(|all| all.get(TEMPLATE)).cloned().unwrap_or_default(),
            trusts: annotations.and_then(|all| all.get(TRUSTS)).cloned(),
            revision: labels.get(GENERATION_LABEL).or(labels.get(REVISION_LABEL)).cloned().unwrap_or_default(),
            images: images(facts),
            trouble,
            unbound,
            of: (kind, component),
        })
    }
}

fn images(facts: &PodFacts) -> Vec<(Box<str>, Box<str>)> {
    let all = facts.spec.init_containers.iter().chain(&facts.spec.containers);
    all.map(|one| (one.name.as_str().into(), one.image.as_deref().unwrap_or_default().into())).collect()
}
