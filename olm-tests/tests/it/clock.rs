//! Machines whose clock is wrong, or is set while the operator runs: times are the API server's.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kube::ResourceExt;
use olm_tests::cluster::{Cluster, repository};
use olm_tests::images::said;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2};
use serde_json::json;

/// A clock that a test can set, for one operator.
struct WrongClock {
    library: PathBuf,
    file: PathBuf,
}

impl WrongClock {
    fn new(lab: &Lab<'_>) -> Self {
        let library = lab.cluster.path("wrong_clock.so");
        let source = repository("olm-tests/src/wrong_clock.c");
        said(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source));
        Self { library, file: lab.cluster.path("wrong_clock") }
    }

    /// From now on it is ahead by so many seconds.
    fn is_ahead(&self, seconds: i64) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, seconds.to_string()).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    async fn start_operator(&self, lab: &mut Lab<'_>) {
        let (library, file) = (self.library.display().to_string(), self.file.display().to_string());
        lab.start_operator(&[("LD_PRELOAD", &library), ("WRONG_CLOCK", &file)]).await;
    }
}

#[test]
fn a_clock_that_is_wrong_or_is_set_rejects_no_good_version_and_shortens_no_soak() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "clock", 5).await;
        let clock = WrongClock::new(&lab);
        clock.is_ahead(1_200);
        clock.start_operator(&mut lab).await;
        let rollout = json!({ "maxUnavailable": 1, "canary": { "nodes": 1, "soak": "12s" } });
        lab.oneagent(&json!({ "waitReadySeconds": 60, "rollout": rollout }));
        lab.all_at("agent", V1, 5, SOON).await;
        // Long enough to be seen while it starts.
        lab.behave(|b| b.ready_after = Duration::from_secs(2));
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        for seconds in [7_200, -7_200] {
            clock.is_ahead(seconds);
            lab.is_looked_at().await;
        }
        lab.reached("agent", V2, 2).await;
        clock.is_ahead(-1_200);
        lab.reached("agent", V2, 4).await;
        clock.is_ahead(3_600);
        lab.all_at("agent", V2, 5, LONG).await;
        let mut made: Vec<i64> = lab
            .pods("agent")
            .await
            .values()
            .map(|pod| pod.creation_timestamp().expect("a time").0.as_second())
            .collect();
        made.sort_unstable();
        assert!(made[1] - made[0] >= 12, "the soak was shortened: {made:?}");
        let status = lab.status("agent").await;
        assert!(status.rejected_versions.is_empty(), "{:?}", status.rejected_versions);
        let events = lab.events("agent").await;
        assert!(!events.iter().any(|event| event.contains("Failed")), "{events:?}");
        let log = lab.operators[0].printed();
        assert!(log.contains("the API server's clock is ahead"), "{log}");
        lab.end().await;
    });
}
