//! Where a Pod template may run: node selector, affinity and tolerations, as nodes are compared with them.
//!
//! Pure. What the API server would refuse is named, by its place in a spec. Must not look at a node.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorRequirement, PodSpec, Toleration};

use super::placement::{self, Must, Of, Placement, Requirement};

/// Every node is compared with every term, in every look: so many of them at most.
const TERMS: usize = 256;
/// So many requirements and values at most.
const VALUES: usize = 10_000;

/// The placement of a Pod template as it is: what of it is no affinity that we know is left aside.
#[must_use]
pub fn of_template(spec: &PodSpec) -> Placement {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let terms = affinity.map(|affinity| read(affinity, &mut Vec::new())).unwrap_or_default();
    let is_none = !terms.is_empty() && terms.iter().all(Option::is_none);
    // No node matches a term that is empty or does not read.
    let none = || vec![Requirement { of: Of::Name, must: Must::In(Vec::new()) }];
    let terms = if is_none { vec![none()] } else { terms.into_iter().flatten().collect() };
    Placement {
        selector: spec.node_selector.clone().unwrap_or_default(),
        tolerations: spec.tolerations.iter().flatten().map(toleration).collect(),
        terms: on_node(spec, terms),
        needs_network: spec.host_network != Some(true),
        ..Placement::default()
    }
}

/// These terms, on the one node that a template names, if it names one.
fn on_node(spec: &PodSpec, mut terms: Vec<Vec<Requirement>>) -> Vec<Vec<Requirement>> {
    let Some(name) = spec.node_name.clone().filter(|name| !name.is_empty()) else { return terms };
    if terms.is_empty() {
        terms.push(Vec::new());
    }
    for term in &mut terms {
        term.push(Requirement { of: Of::Name, must: Must::In(vec![name.clone()]) });
    }
    terms
}

/// The terms of a node affinity; what the API server would refuse is refused here, by its place.
pub fn terms(affinity: &NodeAffinity, wrong: &mut Vec<String>) -> Vec<Vec<Requirement>> {
    read(affinity, wrong).into_iter().flatten().collect()
}

/// The same; `None`: a term that is wrong.
fn read(affinity: &NodeAffinity, wrong: &mut Vec<String>) -> Vec<Option<Vec<Requirement>>> {
    let Some(required) = &affinity.required_during_scheduling_ignored_during_execution else { return Vec::new() };
    let field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    if required.node_selector_terms.is_empty() {
        wrong.push(format!(
            "{field} is empty, which no node matches; give a term, or remove \
                requiredDuringSchedulingIgnoredDuringExecution"
        ));
    }
    let asked = required.node_selector_terms.iter().flat_map(|term| [&term.match_expressions, &term.match_fields]);
    let values = asked.flatten().flatten().map(|requirement| 1 + requirement.values.as_ref().map_or(0, Vec::len)).sum();
    if required.node_selector_terms.len() > TERMS || VALUES < values {
        wrong.push(format!(
            "{field} has {} terms with {values} requirements and values; use at most {TERMS} terms, with at most \
            {VALUES} of both",
            required.node_selector_terms.len()
        ));
        return Vec::new();
    }
    let mut terms = Vec::new();
    for (at, term) in required.node_selector_terms.iter().enumerate() {
        let before = wrong.len();
        let (labels, fields) =
            (term.match_expressions.as_deref().unwrap_or_default(), term.match_fields.as_deref().unwrap_or_default());
        if labels.is_empty() && fields.is_empty() {
            wrong.push(format!(
                "{field}[{at}] has no requirement, so that no node matches it; give one, or remove the term"
            ));
        }
        let mut read = |key: &str, number: usize, of: Of, requirement: &NodeSelectorRequirement| match must(requirement)
        {
            Ok(must) => Some(Requirement { of, must }),
            Err(why) => {
                wrong.push(format!("{field}[{at}].{key}[{number}]: {why}"));
                None
            }
        };
        let mut requirements: Vec<Requirement> = labels
            .iter()
            .enumerate()
            .filter_map(|(n, r)| read("matchExpressions", n, Of::Label(r.key.clone()), r))
            .collect();
        requirements.extend(fields.iter().enumerate().filter_map(|(n, r)| read("matchFields", n, Of::Name, r)));
        let is_good = |r: &NodeSelectorRequirement| {
            r.key == "metadata.name"
                && ["In", "NotIn"].contains(&r.operator.as_str())
                && r.values.as_ref().is_some_and(|values| values.len() == 1)
        };
        for (number, _) in fields.iter().enumerate().filter(|(_, requirement)| !is_good(requirement)) {
            wrong.push(format!(
                "{field}[{at}].matchFields[{number}]: only metadata.name can be asked for, with operator In or NotIn \
                and one value"
            ));
        }
        terms.push(Some(requirements).filter(|_| wrong.len() == before));
    }
    terms
}

fn must(requirement: &NodeSelectorRequirement) -> Result<Must, String> {
    let values = requirement.values.clone().unwrap_or_default();
    let number = || match values.as_slice() {
        [one] => one
            .parse::<i64>()
            .map_err(|_| format!("operator {} needs a whole number, not {one:?}", requirement.operator)),
        _ => Err(format!("operator {} needs one value, a whole number", requirement.operator)),
    };
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => Err(format!("operator {} needs values", requirement.operator)),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Err(format!("operator {} takes no values; remove them", requirement.operator))
        }
        "In" => Ok(Must::In(values)),
        "NotIn" => Ok(Must::NotIn(values)),
        "Exists" => Ok(Must::Exist),
        "DoesNotExist" => Ok(Must::NotExist),
        "Gt" => number().map(Must::Exceed),
        "Lt" => number().map(Must::FallBelow),
        other => Err(format!("operator is {other:?}; use In, NotIn, Exists, DoesNotExist, Gt or Lt")),
    }
}

/// A toleration as it is compared with taints.
#[must_use]
pub fn toleration(toleration: &Toleration) -> placement::Toleration {
    let filled = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    placement::Toleration {
        key: filled(&toleration.key),
        exists: toleration.operator.as_deref() == Some("Exists"),
        number: match toleration.operator.as_deref() {
            Some("Gt") => Some(Ordering::Greater),
            Some("Lt") => Some(Ordering::Less),
            _ => None,
        },
        value: toleration.value.clone().unwrap_or_default(),
        effect: filled(&toleration.effect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::node::Node;
    use crate::k8s::placement::Verdict;
    use serde_json::json;

    #[test]
    fn a_template_that_names_a_node_runs_there_alone() {
        let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] }] } } });
        for spec in [json!({ "nodeName": "n1" }), json!({ "nodeName": "n1", "affinity": affinity })] {
            let mut spec = spec;
            spec["containers"] = json!([]);
            let placement = of_template(&serde_json::from_value(spec).unwrap());
            let verdicts = ["n1", "n2"].map(|name| placement.verdict(&Node::named(name)));
            assert_eq!(verdicts, [Verdict::Selected, Verdict::NotMatching]);
        }
    }
}
