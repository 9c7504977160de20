//! The record of a DaemonSet: what must outlive us and belongs to it, as one typed value in one annotation, so that the
//! two never disagree, though a process may die between two writes.
//!
//! Base templates by their hash, for a rollout that is held or is rolled back renders one that the spec no longer has;
//! the generations of edits; whose nodes are left alone. Bounded: the API server takes 256 KiB of annotations. What
//! changes with every node is noted apart. Pure. Must not decide which template is used.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::template::{asks_for_the_same, hash, short_hash};
use crate::oneagent::from_cluster::FromCluster;

/// Annotation of the DaemonSet that holds it.
pub const RECORD_ANNOTATION: &str = "oneagent.dynatrace.com/record";
/// Where 0.1.0 and 0.2.0 kept the template in use and the last good one, each alone.
const BEFORE: [&str; 2] = ["oneagent.dynatrace.com/template", "oneagent.dynatrace.com/last-good-template"];
/// So many bytes at most; a template that does not fit is left out.
const LARGEST: usize = 192 * 1024;
/// So many templates at most.
const TEMPLATES: usize = 3;

/// A base template with its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Base {
    pub template: PodTemplateSpec,
    /// Its hash: that which Pods made from it carry. An earlier release may have made it in another way.
    pub hash: String,
    /// What the cluster adds; not in the hash.
    pub from_cluster: FromCluster,
}

/// What must outlive us.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// Base templates, the one that is needed most first.
    pub templates: Vec<Base>,
    /// Generations of the DaemonSet's template that were not ours, while Pods of them run.
    pub edited: BTreeSet<u32>,
    /// The older OneAgents whose nodes are left to them; read by [`yields_to`].
    pub yields_to: BTreeSet<String>,
    /// Of each mark of a proxy in these templates, what proves that a value is the one that it was made of.
    pub proofs: BTreeMap<String, String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    templates: BTreeMap<String, Kept>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    edited: BTreeSet<u32>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    yields_to: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    proofs: BTreeMap<String, String>,
}

/// A template; the sum shows whether another client changed it.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    sum: String,
    template: PodTemplateSpec,
    #[serde(default, skip_serializing_if = "FromCluster::is_nothing")]
    from_cluster: FromCluster,
}

/// The older OneAgents to which a live DaemonSet leaves their nodes, alone: templates are long, and are proved by their
/// sums.
#[must_use]
pub fn yields_to(live: &DaemonSet) -> BTreeSet<String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Part {
        yields_to: BTreeSet<String>,
    }
    let text = live.annotations().get(RECORD_ANNOTATION);
    text.and_then(|text| serde_json::from_str::<Part>(text).ok()).unwrap_or_default().yields_to
}

fn sum(hash: &str, template: &PodTemplateSpec) -> Result<String, serde_json::Error> {
    Ok(short_hash(&serde_json::to_vec(&(hash, template))?))
}

impl Record {
    /// That of a live DaemonSet. What does not read, or was changed by another client, is treated as if it were not
    /// there.
    #[must_use]
    pub fn of(live: &DaemonSet) -> Self {
        match live.annotations().get(RECORD_ANNOTATION) {
            Some(text) => Self::read(text),
            None => Self::before(live),
        }
    }

    fn read(text: &str) -> Self {
        let Ok(written) = serde_json::from_str::<Written>(text) else { return Self::default() };
        let is_whole = |(hash, kept): &(String, Kept)| sum(hash, &kept.template).is_ok_and(|sum| sum == kept.sum);
        let templates = written.templates.into_iter().filter(is_whole).map(|(hash, kept)| Base {
            template: kept.template,
            hash,
            from_cluster: kept.from_cluster,
        });
        Self {
            templates: templates.collect(),
            edited: written.edited,
            yields_to: written.yields_to,
            proofs: written.proofs,
        }
    }

    fn before(live: &DaemonSet) -> Self {
        let template = |key: &&str| {
            let template: PodTemplateSpec = serde_json::from_str(live.annotations().get(*key)?).ok()?;
            template.spec.as_ref()?;
            Some(Base { hash: hash(&template).ok()?, template, from_cluster: FromCluster::default() })
        };
        Self { templates: BEFORE.iter().filter_map(template).collect(), ..Self::default() }
    }

    /// As it is written, and whether a template had to be left out for its size.
    pub fn text(&self) -> Result<(String, bool), serde_json::Error> {
        let mut templates = &self.templates[..self.templates.len().min(TEMPLATES)];
        loop {
            let kept = |base: &Base| {
                Ok((
                    base.hash.clone(),
                    Kept {
                        sum: sum(&base.hash, &base.template)?,
                        template: base.template.clone(),
                        from_cluster: base.from_cluster.clone(),
                    },
                ))
            };
            let text = serde_json::to_string(&Written {
                templates: templates.iter().map(kept).collect::<Result<_, serde_json::Error>>()?,
                edited: self.edited.clone(),
                yields_to: self.yields_to.clone(),
                proofs: self.proofs.clone(),
            })?;
            match templates.split_last() {
                Some((_, rest)) if text.len() > LARGEST => templates = rest,
                _ => return Ok((text, templates.len() < self.templates.len().min(TEMPLATES))),
            }
        }
    }

    /// The template that Pods with a hash were made from.
    #[must_use]
    pub fn template(&self, hash: &str) -> Option<&Base> {
        self.templates.iter().find(|base| base.hash == hash)
    }

    /// The mark of a proxy whose value is proved to be the same.
    #[must_use]
    pub fn marked(&self, proof: &str) -> Option<&String> {
        self.proofs.iter().find(|(_, noted)| *noted == proof).map(|(mark, _)| mark)
    }

    /// One that asks for the same as `template`. `image` is the release's.
    #[must_use]
    pub fn same_as(&self, template: &PodTemplateSpec, image: &str) -> Option<&Base> {
        self.templates.iter().find(|base| asks_for_the_same(&base.template, template, image))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn base(hash: &str, args: usize) -> Base {
        let template =
            json!({ "spec": { "hostPID": true, "containers": [{ "name": "c", "args": ["x".repeat(args)] }] } });
        let from_cluster = FromCluster { scc: Some("privileged".into()), ..FromCluster::default() };
        Base { template: serde_json::from_value(template).unwrap(), hash: hash.to_owned(), from_cluster }
    }

    fn live(key: &str, text: &str) -> DaemonSet {
        serde_json::from_value(json!({ "metadata": { "name": "agent", "annotations": { key: text } } })).unwrap()
    }

    fn record(sizes: &[usize]) -> Record {
        let templates = sizes.iter().enumerate().map(|(number, size)| base(&format!("hash-{number}"), *size)).collect();
        let proofs = [("mark".to_owned(), "proof".to_owned())].into();
        Record { templates, edited: [3, 7].into(), yields_to: ["n/older".to_owned()].into(), proofs }
    }

    #[test]
    fn it_reads_back_as_it_was_written_and_nonsense_is_none() {
        let full = record(&[10, 20]);
        let (text, left_out) = full.text().unwrap();
        assert!(!left_out);
        assert_eq!(Record::of(&live(RECORD_ANNOTATION, &text)), full);
        assert_eq!(yields_to(&live(RECORD_ANNOTATION, &text)), full.yields_to);
        for nonsense in ["", "{}", "null", "[]", "{\"templates\":7}"] {
            assert_eq!(Record::of(&live(RECORD_ANNOTATION, nonsense)), Record::default(), "{nonsense}");
            assert!(yields_to(&live(RECORD_ANNOTATION, nonsense)).is_empty(), "{nonsense}");
        }
    }

    #[test]
    fn a_template_that_another_client_changed_is_none() {
        let (text, _) = record(&[10, 20]).text().unwrap();
        let changed = Record::of(&live(RECORD_ANNOTATION, &text.replacen("hostPID\":true", "hostPID\":false", 1)));
        assert_eq!(changed.templates, [base("hash-1", 20)]);
        assert_eq!(changed.edited, [3, 7].into(), "the rest still holds");
        assert!(Record::of(&live(RECORD_ANNOTATION, &text.replace("hash-0", "hash-9"))).template("hash-9").is_none());
    }

    #[test]
    fn what_is_needed_least_is_left_out_when_it_grows_too_large() {
        let kept = |sizes: &[usize]| {
            let (text, left_out) = record(sizes).text().unwrap();
            assert!(text.len() <= LARGEST + 200, "{} bytes", text.len());
            let hashes: Vec<String> = Record::read(&text).templates.into_iter().map(|base| base.hash).collect();
            (hashes.join(" "), left_out)
        };
        assert_eq!(kept(&[1000, 1000, 1000, 1000]), ("hash-0 hash-1 hash-2".to_owned(), false), "at most three");
        assert_eq!(kept(&[100_000, 100_000]), ("hash-0".to_owned(), true));
        assert_eq!(kept(&[200_000, 1000]), (String::new(), true), "the first one alone is too large");
    }

    #[test]
    fn what_both_releases_wrote_is_read() {
        let template = base("", 10).template;
        let text = serde_json::to_string(&template).unwrap();
        for key in BEFORE {
            let read = Record::of(&live(key, &text)).templates;
            assert_eq!(
                read,
                [Base {
                    hash: hash(&template).unwrap(),
                    template: template.clone(),
                    from_cluster: FromCluster::default()
                }],
                "{key}"
            );
        }
        assert_eq!(Record::of(&live(BEFORE[0], "{}")), Record::default());
    }
}
