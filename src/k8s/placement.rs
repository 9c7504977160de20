//! Placement: which nodes a DaemonSet's Pods may run on, as the scheduler and the DaemonSet controller see it.
//!
//! Here because "selected" is the base of every count and of the budget. Must not look at Pods or versions.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::node::{Node, Taint};

/// Where agents should run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Labels that a node must have.
    pub selector: BTreeMap<String, String>,
    /// Taints that the Pods tolerate, beyond those of every DaemonSet.
    pub tolerations: Vec<Toleration>,
    /// Architectures that the agent serves; empty means any.
    pub architectures: Vec<String>,
    /// Labels of virtual nodes, on which no host agent can run.
    pub virtual_nodes: Vec<(String, String)>,
    /// One of these terms must hold, each with all of its requirements; empty means no term.
    pub terms: Vec<Vec<Requirement>>,
    /// Whether its Pods need the network of the Pods, so that no new one starts where the node has none yet.
    pub needs_network: bool,
    /// Others whose nodes are left to them, by name: what a node must be like that is none of them, as alternatives.
    pub yields_to: Vec<(String, Vec<Vec<Requirement>>)>,
    /// What a node must be like that is none of all of these, as alternatives; `None`: there are no such others.
    pub outside: Option<Vec<Vec<Requirement>>>,
}

/// A requirement of node affinity, as Kubernetes defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Label, or the node's own name.
    pub of: Of,
    /// What must hold of it.
    pub must: Must,
}

/// What a requirement looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// The label of this key.
    Label(String),
    /// `metadata.name`.
    Name,
}

/// What a requirement asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Must {
    /// One of these.
    In(Vec<String>),
    /// None of these, or not there.
    NotIn(Vec<String>),
    /// There.
    Exist,
    /// Not there.
    NotExist,
    /// A greater number.
    Exceed(i64),
    /// A smaller number.
    FallBelow(i64),
}

impl Requirement {
    /// Whether a node meets it.
    fn holds(&self, node: &Node) -> bool {
        let value = match &self.of {
            Of::Label(key) => node.labels.get(key).map(String::as_str),
            Of::Name => Some(&*node.name),
        };
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.must {
            Must::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            Must::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
            Must::Exist => value.is_some(),
            Must::NotExist => value.is_none(),
            Must::Exceed(bound) => number().is_some_and(|number| number > *bound),
            Must::FallBelow(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// A toleration, as Kubernetes defines it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toleration {
    /// Key; `None` with `exists` tolerates every key.
    pub key: Option<String>,
    /// Operator Exists (true) or Equal.
    pub exists: bool,
    /// What the taint's number must be, compared with the value: greater for operator Gt, less for Lt.
    pub number: Option<Ordering>,
    /// Value for Equal, Gt and Lt.
    pub value: String,
    /// Effect; `None` means all.
    pub effect: Option<String>,
}

/// What a placement says of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// An agent belongs here.
    Selected,
    /// Not asked for.
    NotMatching,
    /// Asked for, but this taint is not tolerated.
    Untolerated(Taint),
    /// Asked for, but of this architecture.
    Architecture(String),
    /// Asked for, but this one keeps it.
    Overlap(String),
}

/// Taints that say a node is about to go: its agent is left to its end.
const LEAVING: &[&str] = &["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"];

/// Whether a taint says that its node is about to go. A soft one is no more than a thought, which may stay for ever.
#[must_use]
pub fn is_leaving(taint: &Taint) -> bool {
    taint.effect != "PreferNoSchedule" && LEAVING.contains(&taint.key.as_str())
}

/// The taint of a node whose network for Pods is not there yet. A DaemonSet's Pods tolerate it on the host's network.
const NO_NETWORK: &str = "node.kubernetes.io/network-unavailable";

/// Taints that Kubernetes sets from a node's condition. They say how the node is, not who may run on it.
fn is_condition(taint: &Taint) -> bool {
    const CONDITIONS: &[&str] = &[
        "not-ready",
        "unreachable",
        "memory-pressure",
        "disk-pressure",
        "pid-pressure",
        "network-unavailable",
        "unschedulable",
    ];
    taint.key.strip_prefix("node.kubernetes.io/").is_some_and(|name| CONDITIONS.contains(&name))
}

impl Toleration {
    fn covers(&self, taint: &Taint) -> bool {
        let effect = self.effect.as_ref().is_none_or(|effect| *effect == taint.effect);
        let key = match &self.key {
            None => self.exists,
            Some(key) => *key == taint.key && (self.exists || self.admits(&taint.value)),
        };
        effect && key
    }

    fn admits(&self, value: &str) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        match self.number {
            None => self.value == value,
            Some(wanted) => {
                number(value).zip(number(&self.value)).is_some_and(|(taint, own)| taint.cmp(&own) == wanted)
            }
        }
    }
}

/// Whether one of these alternatives holds of a node, with all of its requirements.
#[must_use]
pub fn any_holds(terms: &[Vec<Requirement>], node: &Node) -> bool {
    terms.iter().any(|term| term.iter().all(|requirement| requirement.holds(node)))
}

/// Whether a node has all of these labels.
#[must_use]
pub fn has_labels(node: &Node, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}

impl Placement {
    /// What this placement says of `node`.
    #[must_use]
    pub fn verdict(&self, node: &Node) -> Verdict {
        let has = |key: &str, value: &str| node.labels.get(key).is_some_and(|v| v == value);
        if !has_labels(node, &self.selector) || self.virtual_nodes.iter().any(|(key, value)| has(key, value)) {
            return Verdict::NotMatching;
        }
        if !self.terms.is_empty() && !any_holds(&self.terms, node) {
            return Verdict::NotMatching;
        }
        if !self.architectures.is_empty() {
            let Some(architecture) = node.labels.get("kubernetes.io/arch") else { return Verdict::NotMatching };
            if !self.architectures.contains(architecture) {
                return Verdict::Architecture(architecture.clone());
            }
        }
        let is_condition = |taint: &Taint| is_condition(taint) && !(self.needs_network && taint.key == NO_NETWORK);
        let binding = |taint: &&Taint| taint.effect != "PreferNoSchedule" && !is_condition(taint) && !is_leaving(taint);
        let refused = |taint: &&Taint| !self.tolerations.iter().any(|toleration| toleration.covers(taint));
        if let Some(taint) = node.taints.iter().filter(binding).find(refused) {
            return Verdict::Untolerated(taint.clone());
        }
        match self.yields_to.iter().find(|(_, terms)| !any_holds(terms, node)) {
            Some((name, _)) => Verdict::Overlap(name.clone()),
            None => Verdict::Selected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &[(&str, &str)], taints: &[(&str, &str, &str)]) -> Node {
        Node {
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            taints: taints
                .iter()
                .map(|(k, v, e)| Taint { key: (*k).into(), value: (*v).into(), effect: (*e).into() })
                .collect(),
            ..Node::named("n")
        }
    }

    #[test]
    fn a_taint_needs_its_toleration_and_is_named() {
        let tainted = node(&[], &[("infra", "yes", "NoSchedule")]);
        let mut placement = Placement::default();
        let Verdict::Untolerated(taint) = placement.verdict(&tainted) else { panic!("tolerated") };
        assert_eq!(taint.to_string(), "infra=yes:NoSchedule");
        for toleration in [
            Toleration { exists: true, ..Toleration::default() },
            Toleration { key: Some("infra".into()), exists: true, ..Toleration::default() },
            Toleration {
                key: Some("infra".into()),
                value: "yes".into(),
                effect: Some("NoSchedule".into()),
                ..Toleration::default()
            },
        ] {
            placement.tolerations = vec![toleration];
            assert_eq!(placement.verdict(&tainted), Verdict::Selected);
        }
        placement.tolerations =
            vec![Toleration { key: Some("infra".into()), value: "no".into(), ..Toleration::default() }];
        assert_ne!(placement.verdict(&tainted), Verdict::Selected);
        let rated = node(&[], &[("sla", "950", "NoSchedule")]);
        for (number, value, is_tolerated) in [
            (Ordering::Greater, "750", true),
            (Ordering::Greater, "950", false),
            (Ordering::Less, "1000", true),
            (Ordering::Less, "750", false),
            (Ordering::Less, "many", false),
        ] {
            placement.tolerations = vec![Toleration {
                key: Some("sla".into()),
                number: Some(number),
                value: value.into(),
                ..Toleration::default()
            }];
            assert_eq!(placement.verdict(&rated) == Verdict::Selected, is_tolerated, "{number:?} {value}");
        }
    }

    #[test]
    fn taints_that_only_tell_a_nodes_condition_do_not_unselect_it() {
        let down = node(
            &[],
            &[
                ("node.kubernetes.io/unreachable", "", "NoSchedule"),
                ("ToBeDeletedByClusterAutoscaler", "1", "NoSchedule"),
                ("x", "", "PreferNoSchedule"),
            ],
        );
        assert_eq!(Placement::default().verdict(&down), Verdict::Selected);
    }

    #[test]
    fn a_node_without_a_network_takes_pods_on_the_hosts_network_alone() {
        let early = node(&[], &[(NO_NETWORK, "", "NoSchedule")]);
        assert_eq!(Placement::default().verdict(&early), Verdict::Selected);
        let of_pods = Placement { needs_network: true, ..Placement::default() };
        assert!(matches!(of_pods.verdict(&early), Verdict::Untolerated(_)));
    }

    #[test]
    fn another_architecture_is_told_apart_from_another_label() {
        let placement = Placement {
            architectures: vec!["amd64".into()],
            selector: [("a".to_owned(), "b".to_owned())].into(),
            ..Placement::default()
        };
        assert_eq!(
            placement.verdict(&node(&[("a", "b"), ("kubernetes.io/arch", "arm64")], &[])),
            Verdict::Architecture("arm64".into())
        );
        assert_eq!(placement.verdict(&node(&[("a", "c"), ("kubernetes.io/arch", "arm64")], &[])), Verdict::NotMatching);
    }

    #[test]
    fn one_term_of_an_affinity_must_hold_with_all_of_its_requirements() {
        let of = |key: &str, must: Must| Requirement { of: Of::Label(key.into()), must };
        let some = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
        let selects = |terms: Vec<Vec<Requirement>>, labels: &[(&str, &str)]| {
            Placement { terms, ..Placement::default() }.verdict(&node(labels, &[])) == Verdict::Selected
        };
        let zone = [("zone", "a"), ("cpus", "8")];
        for (must, wanted) in [
            (of("zone", Must::In(some(&["a", "b"]))), true),
            (of("zone", Must::In(some(&["b"]))), false),
            (of("none", Must::In(some(&["a"]))), false),
            (of("zone", Must::NotIn(some(&["a"]))), false),
            (of("none", Must::NotIn(some(&["a"]))), true),
            (of("zone", Must::Exist), true),
            (of("none", Must::Exist), false),
            (of("none", Must::NotExist), true),
            (of("cpus", Must::Exceed(7)), true),
            (of("cpus", Must::Exceed(8)), false),
            (of("cpus", Must::FallBelow(9)), true),
            (of("zone", Must::FallBelow(9)), false),
            (Requirement { of: Of::Name, must: Must::In(some(&["n"])) }, true),
            (Requirement { of: Of::Name, must: Must::NotIn(some(&["n"])) }, false),
        ] {
            assert_eq!(selects(vec![vec![must.clone()]], &zone), wanted, "{must:?}");
        }
        let (yes, no) = (of("zone", Must::Exist), of("zone", Must::NotExist));
        assert!(selects(vec![vec![no.clone()], vec![yes.clone()]], &zone), "terms are alternatives");
        assert!(!selects(vec![vec![no, yes]], &zone), "requirements are not");
    }

    #[test]
    fn virtual_nodes_are_left_out() {
        let placement =
            Placement { virtual_nodes: vec![("type".into(), "virtual-kubelet".into())], ..Placement::default() };
        assert_eq!(placement.verdict(&node(&[("type", "virtual-kubelet")], &[])), Verdict::NotMatching);
    }
}
