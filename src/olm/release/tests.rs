//! The list and its entries: order, mistakes, channels, what replaces what.

use std::collections::BTreeMap;

use super::*;
use crate::api::config_watcher::package::PACKAGE as WATCHER;
use crate::api::oneagent::package::PACKAGE as ONEAGENT;

const DIGEST: &str = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A list of these versions, with lines added to the last of them.
fn list(versions: &[&str], more: &str) -> String {
    let entry = |v: &&str| {
        format!(
            "- version: {v}\n  date: 2026-11-21\n  commit: abcdef0\n  published: false\n  operatorImage: a\n  \
            agentImage: b\n"
        )
    };
    format!("releases:\n{}{more}", versions.iter().map(entry).collect::<String>())
}

/// The same, with the digests of all images.
fn pushed(versions: &[&str]) -> Releases {
    let mut list = Releases::parse(&list(versions, "")).unwrap();
    for release in &mut list.releases {
        let image = |name: &str| format!("x/{name}{DIGEST}");
        release.operator_image = image("oneagent-operator");
        let all = PACKAGES.iter().filter(|package| release.has(package));
        release.bundle_images = all.map(|package| (package.name.to_owned(), image(package.name))).collect();
    }
    list
}

#[test]
fn a_list_is_ordered_and_well_formed_or_refused_with_its_line() {
    let two = ["0.1.0", "0.2.0"];
    let note = |more: &str| list(&two, &format!("deprecations:\n- package: oneagent-operator\n{more}"));
    for (wrong, words) in [
        (list(&["0.2.0", "0.1.0"], ""), "line 8: version 0.1.0 does not come after"),
        (list(&["0.1.0", "0.1.0"], ""), "line 8: version 0.1.0 is listed already"),
        (list(&["v0.1.0"], ""), "line 2: version \"v0.1.0\" is not of the form 0.1.0"),
        (list(&["0.01.0"], ""), "of the form"),
        (list(&["0.1.0+1"], ""), "of the form"),
        ("releases: []".into(), "no release"),
        ("x: 1".into(), "unknown field"),
        (list(&two, "  skip: [0.1.0]\n"), "unknown field `skip`"),
        (list(&two, "  published: true\n"), "duplicate"),
        (list(&two, "  skips: 0.1.0\n"), "expected a sequence"),
        (list(&two, "").replace("commit: abcdef0\n  published", "commit: [\n  published"), "line"),
        (list(&two, "").replace("2026-11-21", "2026-13-41"), "line 3: date \"2026-13-41\" of 0.1.0 is not of the form"),
        (list(&two, "").replace("abcdef0", "HEAD"), "line 4: commit \"HEAD\" of 0.1.0 is not a commit's hash"),
        (list(&two, "  channels: [stable]\n"), "line 14: channel \"stable\" of 0.2.0 is none; there are stable-v0 and"),
        (list(&["1.0.0"], "  channels: [stable-v0]\n"), "there are stable-v1 and candidate-v1"),
        (list(&["0.1.0-rc.1"], "  channels: [stable-v0]\n"), "is a pre-release and cannot be in stable-v0"),
        (list(&two, "  skips: [0.2.0]\n"), "line 14: 0.2.0 skips 0.2.0, which does not come before it"),
        (list(&two, "  skips: [0.3.0]\n"), "in a circle"),
        (list(&two, "  skips: [0.1.1]\n"), "0.2.0 skips \"0.1.1\", which is not listed"),
        (list(&two, "  deprecated: ''\n"), "line 14: 0.2.0 is deprecated without a reason"),
        (list(&two, "  packages: [agent]\n"), "line 14: packages of 0.2.0 has \"agent\", which is no package"),
        (
            list(&two, "  packages: [configwatcher-operator]\n"),
            "cannot be a release of configwatcher-operator, which came with",
        ),
        (list(&two, "  bundleImages: {x: y}\n"), "line 14: bundleImages of 0.2.0 has \"x\", which is no package of it"),
        (list(&two, "").replace("operatorImage: a", "operatorImage: a@sha256:abc"), "line 6: operatorImage of 0.1.0"),
        (list(&two, "").replace("agentImage: b", "agentImage: b@sha512:abc"), "line 7: agentImage of 0.1.0"),
        (list(&two, "").replace("published: false", "published: true"), "is published without a digest"),
        (
            note("  channel: stable-v0\n  message: x\n"),
            "line 16: no published release of oneagent-operator is in channel",
        ),
        (note("  message: ' '\n"), "line 16: oneagent-operator is deprecated without a message"),
        (
            note("  message: x\n").replace("package: one", "package: two"),
            "line 15: deprecations has \"twoagent-operator\"",
        ),
    ] {
        let said = Releases::parse(&wrong).unwrap_err().to_string();
        assert!(said.contains(words) && said.starts_with(PATH) && !said.contains('\n'), "{said}\n{wrong}");
    }
}

#[test]
fn a_release_is_published_with_all_its_digests_or_not_at_all() {
    let mut list = pushed(&["0.2.0", "0.3.0"]);
    let said = list.clone().publish("0.9.0").unwrap_err().to_string();
    assert!(said.contains("0.9.0 is not listed"), "{said}");
    for break_it in [
        |release: &mut Release| drop(release.bundle_images.remove("configwatcher-operator")),
        |release: &mut Release| drop(release.bundle_images.insert("configwatcher-operator".into(), "x:1".into())),
    ] {
        let mut broken = list.clone();
        break_it(&mut broken.releases[1]);
        let said = broken.publish("0.3.0").unwrap_err().to_string();
        assert!(said.contains("bundleImages.configwatcher-operator of 0.3.0") && said.contains("digest"), "{said}");
    }
    list.publish("0.3.0").unwrap();
    let again =
        list.add(Release::new(&Publisher::of_repository(), "0.2.0", "2026-11-22", "abcdef0")).unwrap_err().to_string();
    assert!(again.contains("listed already"), "{again}");
}

#[test]
fn a_release_replaces_the_published_one_before_it_that_it_does_not_skip() {
    let mut list = pushed(&["0.1.0", "0.2.0", "0.3.0", "0.4.0-rc.1", "0.4.0"]);
    let before = |list: &Releases, version: &str, package: &'static Package| {
        list.before(package, &list.of(&Publisher::of_repository(), version)).map(|release| release.version.clone())
    };
    assert_eq!(before(&list, "0.4.0", &ONEAGENT), None, "nothing is published");
    list.publish("0.2.0").unwrap();
    assert_eq!(before(&list, "0.4.0", &ONEAGENT), Some("0.2.0".into()));
    assert_eq!(before(&list, "0.4.0", &WATCHER), None, "the package came later");
    assert_eq!((before(&list, "0.3.0", &ONEAGENT), before(&list, "0.2.0", &ONEAGENT)), (Some("0.2.0".into()), None));
    list.publish("0.1.0").unwrap();
    list.releases[2].skips = vec!["0.2.0".into()];
    assert_eq!(before(&list, "0.3.0", &ONEAGENT), Some("0.1.0".into()));
    list.publish("0.4.0-rc.1").unwrap();
    assert_eq!(before(&list, "0.4.0", &ONEAGENT), Some("0.2.0".into()), "a pre-release is no way to a stable one");
    assert_eq!(before(&list, "0.4.1-rc.1", &ONEAGENT), Some("0.4.0-rc.1".into()));
    list.releases[2].packages = vec![WATCHER.name.into()];
    list.releases[2].bundle_images.retain(|name, _| name == WATCHER.name);
    list.publish("0.3.0").unwrap();
    let of = |package| list.of_package(&Publisher::of_repository(), "0.3.0", package).version;
    assert_eq!((of(&WATCHER), of(&ONEAGENT)), ("0.3.0".into(), "0.4.0".into()), "what is not its release is not named");
    assert_eq!(
        (before(&list, "0.4.0", &ONEAGENT), before(&list, "0.4.0", &WATCHER)),
        (Some("0.2.0".into()), Some("0.3.0".into())),
        "a release of one package is none of the other"
    );
}

#[test]
fn a_release_is_in_the_channels_of_its_major_number_but_a_pre_release_in_the_second_alone() {
    let of = |version: &str| Release::new(&Publisher::of_repository(), version, "2026-11-21", "abcdef0");
    assert_eq!(of("0.3.0").channels(), ["stable-v0", "candidate-v0"]);
    assert_eq!(of("0.3.0-rc.1").channels(), ["candidate-v0"]);
    assert_eq!(of("1.2.0").channels(), ["stable-v1", "candidate-v1"]);
    assert_eq!(Release { channels: vec!["candidate-v0".into()], ..of("0.3.0") }.channels(), ["candidate-v0"]);
    assert!(of("0.3.0-rc.1").has(&WATCHER) && !of("0.2.9").has(&WATCHER));
}

#[test]
fn every_package_has_the_operators_image_under_its_own_name_and_is_pinned_by_the_images_that_it_needs() {
    let release = Release {
        operator_image: format!("r/a/oneagent-operator{DIGEST}"),
        ..Release::new(&Publisher::of_repository(), "0.3.0", "", "")
    };
    assert_eq!(release.image_of(&WATCHER), format!("r/a/configwatcher-operator{DIGEST}"));
    assert_eq!(release.image_of(&ONEAGENT), release.operator_image);
    let other = Release { operator_image: "r/mine:1".into(), bundle_images: BTreeMap::new(), ..release.clone() };
    assert_eq!(other.image_of(&WATCHER), "r/mine:1", "somebody's own name stays");
    assert!(release.is_pinned(&WATCHER) && !release.is_pinned(&ONEAGENT), "the agent's image has no digest");
}
