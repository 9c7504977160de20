//! Pods that were created while another client had changed their workload: they carry the hash of our template, and run
//! other images.
//!
//! Pure. Must not judge what follows.

use std::collections::{BTreeMap, BTreeSet};

use super::pods::Server;
use super::resolve::Component;
use crate::stack::table::Row;

/// The images that a component's containers have, by name.
#[must_use]
pub fn images(row: &Row, component: &Component) -> BTreeMap<String, String> {
    let names = row.init.iter().chain(&row.containers);
    names.filter_map(|name| Some((name.clone(), component.containers.get(name)?.image.clone()))).collect()
}

/// UIDs of those Pods. `newest`: the revision of Pods that are created now; while that is unknown there are none.
///
/// Admission may rewrite images, a mirror's name for one. So what a Pod of the newest revision runs is right, also for
/// others, and no Pod is taken for another client's by its registry or digest. A successor is always of the newest one.
#[must_use]
pub fn strangers(servers: &[&Server], wanted: &BTreeMap<String, String>, newest: Option<&str>) -> BTreeSet<String> {
    let Some(newest) = newest else { return BTreeSet::new() };
    let runs_others = |one: &Server| {
        one.images.iter().any(|(name, image)| wanted.get(&**name).is_some_and(|wanted| is_another(wanted, image)))
    };
    let (present, earlier): (Vec<&Server>, Vec<&Server>) = servers.iter().partition(|one| one.revision == newest);
    let is_explained = |one: &Server| present.iter().any(|other| other.images == one.images);
    let are = earlier.into_iter().filter(|one| runs_others(one) && !is_explained(one));
    are.map(|one| one.uid.clone()).collect()
}

/// Whether two images differ by more than the registry that serves them, or by a digest that only one of them names.
fn is_another(wanted: &str, found: &str) -> bool {
    let (wanted, found) = (Image::of(wanted), Image::of(found));
    match (wanted.digest, found.digest) {
        _ if wanted.name != found.name => true,
        (Some(wanted), Some(found)) => wanted != found,
        (None, None) => wanted.tag != found.tag,
        _ => wanted.tag.is_some() && found.tag.is_some() && wanted.tag != found.tag,
    }
}

/// What of an image's name no mirror changes.
struct Image<'i> {
    name: &'i str,
    tag: Option<&'i str>,
    digest: Option<&'i str>,
}

impl<'i> Image<'i> {
    fn of(image: &'i str) -> Self {
        let last = image.rsplit('/').next().unwrap_or_default();
        let (tagged, digest) = last.split_once('@').map_or((last, None), |(tagged, digest)| (tagged, Some(digest)));
        let (name, tag) = tagged.split_once(':').map_or((tagged, None), |(name, tag)| (name, Some(tag)));
        Self { name, tag, digest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_a_mirror_or_with_its_digest_is_the_same() {
        for (wanted, found, differs) in [
            ("web:3.5.5", "web:3.5.6", true),
            ("web:3.5.5", "other:3.5.5", true),
            ("web:3.5.5", "mirror:5000/library/web:3.5.5", false),
            ("web:3.5.5", "web@sha256:1", false),
            ("web:3.5.5", "web:3.5.5@sha256:1", false),
            ("web:3.5.5", "web:3.5.6@sha256:1", true),
            ("web@sha256:1", "web@sha256:2", true),
            ("web@sha256:1", "a/web@sha256:1", false),
            ("localhost:5000/web", "localhost:5000/web:1", true),
        ] {
            assert_eq!(is_another(wanted, found), differs, "{wanted} {found}");
        }
    }
}
