//! What a helper says of a JVM that ends soon after a load, whichever helper did that.
//!
//! For tests alone: the JVM is a socket of the test's own, and its process is written down. Must not start a JVM.

use std::cell::Cell;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::time::sleep;

use super::table::Table;
use super::{Order, Reason, attach};
use crate::k8s::hex::hex;

const CONFIG: &str = "rules: []";
/// No process listens there.
const PORT: u16 = 9400;

/// A JVM that refuses each load.
async fn refuse(listener: UnixListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..5 {
            while stream.read_u8().await.unwrap() != 0 {}
        }
        stream.write_all(b"0\nreturn code: 102\n").await.unwrap();
    }
}

/// The refusal of a helper, how many seconds before its start it says that the JVM was touched, and whether it left no
/// word that nothing was done. `locked`: so long before, another helper had the JVM load the exporter. `ends`: so long
/// after the helper's start, the JVM ends. All in seconds.
async fn said(name: &str, locked: Option<i64>, ends: i64) -> (Reason, Option<i64>, bool) {
    let table = Table::new(name);
    table.put("uptime", "1000.00 1.00\n");
    table.put("7/stat", &format!("7 (java) S {}5 0", "0 ".repeat(18)));
    table.put("7/maps", "7f00-7f01 r-xp 0 08:01 1 /opt/java/lib/server/libjvm.so\n");
    table.put("7/status", "Name:\tjava\nNSpid:\t7\t1\nSigCgt:\t0000000000000004\n");
    table.put("exporter.jar", "");
    let jvm = tokio::spawn(refuse(UnixListener::bind(table.path("7/root/tmp/.java_pid1")).unwrap()));
    let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    if let Some(before) = locked {
        let lock = File::create(table.path("7/root/tmp/.jmx-exporter-1-5")).unwrap();
        lock.set_modified(SystemTime::from(now - TimeDelta::seconds(before))).unwrap();
    }
    let stat = table.path("7/stat");
    let end = tokio::spawn(async move {
        sleep(Duration::from_secs(ends.unsigned_abs())).await;
        fs::remove_file(stat).unwrap();
    });
    let order = Order {
        port: PORT,
        config: CONFIG.to_owned(),
        sha256: hex(&Sha256::digest(CONFIG)),
        jar: table.path("exporter.jar"),
        container: None,
        valid_until: now + TimeDelta::hours(1),
        min_free_memory: 0,
        comes_within: Duration::ZERO,
        proc: table.path(""),
    };
    let is_touched = Cell::new(false);
    let refusal = attach(&order, now, || is_touched.set(true)).await.unwrap_err();
    jvm.abort();
    end.abort();
    let loaded_at = refusal.loaded_at.map(|at| at.parse::<DateTime<Utc>>().unwrap());
    let before = loaded_at.map(|at| (now.trunc_subsecs(0) - at).num_seconds());
    (refusal.reason, before, is_touched.get())
}

#[tokio::test(start_paused = true)]
async fn a_jvm_that_ends_within_ten_seconds_after_a_load_is_harmed_also_if_that_failed() {
    for (name, ends, wanted) in [("failed", 15, Reason::Harmed), ("failed-later", 60, Reason::LoadFailed)] {
        assert_eq!(said(name, None, ends).await, (wanted, Some(0), true), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_helper_that_takes_a_jvm_over_watches_it_where_the_load_was_a_moment_ago() {
    for (name, locked, ends, wanted) in [
        ("over", 3, 5, (Reason::Harmed, Some(3), true)),
        ("over-watched", 3, 15, (Reason::Harmed, Some(3), true)),
        ("over-later", 3, 60, (Reason::LoadedBefore, Some(3), true)),
        ("old", 60, 5, (Reason::NoJvm, None, false)),
        ("old-later", 60, 15, (Reason::LoadedBefore, None, false)),
    ] {
        assert_eq!(said(name, Some(locked), ends).await, wanted, "{name}");
    }
}
