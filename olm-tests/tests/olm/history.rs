//! What the release list says of a release that turned out bad, as OLM shows it and follows it.

use olm_tests::eventually;
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish};
use olm_tests::wait::SOON;
use serde_json::Value;

/// Status and message of what the Subscription says of the installed bundle's deprecation.
async fn deprecated(olm: &Olm) -> (Value, Value) {
    let subscription = olm.get("Subscription", "dynatrace", PACKAGE).await.unwrap_or_default();
    let conditions = subscription["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|c| c["type"] == "BundleDeprecated").unwrap_or_default();
    (found["status"].clone(), found["message"].clone())
}

#[test]
fn a_deprecated_release_is_shown_as_such_and_the_one_that_skips_it_comes_in_its_place() {
    const WHY: &str = "It forgets its Lease; install a newer one.";
    olm_tests::run(async {
        let olm = Olm::start().await;
        let [first, mut bad, mut good] = [NEXT, "0.9.0", "0.9.1"].map(|version| olm.release(version));
        bad.release.deprecated = Some(WHY.into());
        good.release.skips = vec!["0.9.0".into()];
        olm.publish(&[first.clone(), bad.clone()]).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", "0.9.0").await;
        eventually("the Subscription shows it", SOON, || async {
            let (status, message) = deprecated(&olm).await;
            let says = status == "True" && message.as_str().is_some_and(|message| message.contains(WHY));
            if says { Ok(()) } else { Err(format!("{status} {message}")) }
        })
        .await;
        olm.publish(&[first, bad, good]).await;
        olm.installed("dynatrace", "0.9.1").await;
        eventually("it is not shown of the new one", SOON, || async {
            let (status, message) = deprecated(&olm).await;
            if status == "True" { Err(message.to_string()) } else { Ok(()) }
        })
        .await;
        olm.judge("dynatrace");
    });
}
