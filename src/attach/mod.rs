//! Attach: a helper beside a running JVM, which has it load the Prometheus exporter and serve metrics on a port.
//!
//! It runs as an ephemeral container in the JVM's PID namespace and trusts no one: what could end the JVM it asks
//! before it does anything, and a JVM is made to load an agent once, ever. Its last words are a line of JSON, which the
//! kubelet hands on as the termination message. Knows no Kubernetes. Must not end, stop or change any process but by
//! that one load.

pub mod config;
mod endpoint;
#[cfg(test)]
mod exchanges;
mod jvm;
mod load;
mod proc;
mod questions;
mod said;
#[cfg(test)]
mod table;
#[cfg(test)]
mod watched;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use endpoint::{Endpoint, Reloads};
use jvm::Jvm;
use proc::Proc;
pub use said::{Done, Identity, LONGEST, Reason, Refusal, untouched};

use crate::k8s::hex::hex;

/// Prometheus waits no longer for an answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// One that lives for less than this, by what its kubelet says, was not touched.
pub const PASSING: Duration = Duration::from_secs(5);
/// A JVM that is younger may be a status script's, and is not touched. Kubelets say in whole seconds, and late, when a
/// container began: by what they say, one that was touched must have lived for `PASSING`.
const UNTOUCHED: Duration = Duration::from_secs(8);
/// The JVM is watched for so long after the load, whatever came of it.
const WATCHED_FOR: Duration = Duration::from_secs(10);
/// An exporter that takes no notice of a configuration in so many scrapes does not.
const ASKED: usize = 10;
/// A JVM in which nothing could be loaded is looked at once more after so long: it may be about to end of it.
const LINGERS: Duration = Duration::from_secs(1);
/// What is awaited is looked at so often.
const PAUSE: Duration = Duration::from_millis(100);
/// A caller that has ten seconds polls less often, which costs less.
const REST: Duration = Duration::from_millis(500);
/// How the exporter's jar, and its configuration, are named.
const JAR: &str = ".jar";
const CONFIG: &str = ".json";
/// What the exporter begins with: nothing that can be wrong.
const EMPTY: &str = "{\"rules\":[]}";

/// What the helper is asked to do.
#[derive(Debug, Clone)]
pub struct Order {
    /// The port on which the JVM is to serve metrics.
    pub port: u16,
    /// The exporter's configuration, as the kubelet gave it to us.
    pub config: String,
    /// The SHA-256 that it must have, as hexadecimal digits: the kubelet's copy may be old.
    pub sha256: String,
    /// The exporter's jar.
    pub jar: PathBuf,
    /// The ID of the JVM's container: processes of others, or of its successor, may be in sight.
    pub container: Option<String>,
    /// The order means nothing later: a kubelet may start an ephemeral container again.
    pub valid_until: DateTime<Utc>,
    /// Bytes that the container must have left.
    pub min_free_memory: u64,
    /// A JVM may come so much later.
    pub comes_within: Duration,
    /// Where the process table is.
    pub proc: PathBuf,
}

/// Has the JVM load the exporter, with a configuration that cannot end it; then gives it the real one, and watches. One
/// that loaded it before, and serves, is only given that. `touches`: called just before the JVM is touched.
pub async fn attach(order: &Order, now: DateTime<Utc>, touches: impl Fn()) -> Result<Done, Refusal> {
    let began = Instant::now();
    let config = wanted(order, now)?;
    let proc = Proc::at(&order.proc);
    let jvm = find(&proc, order).await?;
    let files = Files::of(&jvm);
    let endpoint = Endpoint::new(order.port);
    let locked_at = files.locked_at();
    if locked_at.is_none() {
        questions::ask(&proc, &jvm, order.port, order.min_free_memory)?;
        if !jvm.is_there(&proc) {
            return Err(ended());
        }
        // Time has passed with waiting for it.
        is_valid(order, now + began.elapsed())?;
    }
    // By the clock of the node, as its kubelet says when the Pod ceased to be Ready. What another helper loaded longer
    // ago has nothing to do with what becomes of the JVM now.
    let now = now + began.elapsed();
    let loaded = locked_at.map_or(Some(now), |at| (at <= now && now < at + WATCHED_FOR).then_some(at));
    if loaded.is_some() {
        touches();
    }
    let (place, wanted) = ((&proc, &jvm, &endpoint), (&files, &*config));
    let came = match locked_at {
        None => load(place, wanted, order).await,
        Some(_) => take_over(place, wanted, loaded.is_some(), touches).await,
    };
    if came.is_err() {
        sleep(LINGERS).await;
    }
    let loaded_at = loaded.map(|at| at.format("%FT%TZ").to_string());
    if loaded.is_some() && !jvm.is_there(&proc) {
        let after = came.err().filter(|refusal| refusal.reason != Reason::NoJvm);
        let after = after.map(|refusal| format!(": {}", refusal.message)).unwrap_or_default();
        let why = format!("the JVM ended within ten seconds after it was made to load the exporter{after}");
        return Err(Refusal { loaded_at, ..Refusal::of(Reason::Harmed, why) });
    }
    match came {
        Ok(()) => Ok(Done::Exporting { loaded_at }),
        Err(refusal) => Err(Refusal { loaded_at, ..refusal }),
    }
}

/// The load, and what comes of it, as long as the JVM is there. From here on it is touched.
async fn load(
    (proc, jvm, endpoint): (&Proc, &Jvm, &Endpoint),
    (files, config): (&Files, &str),
    order: &Order,
) -> Result<(), Refusal> {
    let socket = load::socket(proc, jvm).await?;
    files.lock()?;
    if let Err(refusal) = files.unpack(&order.jar) {
        // Nothing was loaded: another helper may.
        let _ = fs::remove_file(files.path(""));
        return Err(refusal);
    }
    let options = format!("{}={}:{}", files.inside(JAR), order.port, files.inside(CONFIG));
    let answer = load::load(&socket, &options).await;
    let is_there = endpoint.answers(proc, jvm).await;
    // The JVM keeps it open.
    let _ = fs::remove_file(files.path(JAR));
    let began = Instant::now();
    let came = match is_there {
        Ok(_) => files.exchange(proc, jvm, endpoint, config, EMPTY).await,
        Err(why) => Err(answer.err().unwrap_or_else(|| Refusal::of(Reason::ScrapeFailed, why))),
    };
    watch(proc, jvm, began).await;
    came
}

/// What comes of a JVM that another helper had load the exporter, and perhaps did not get further.
async fn take_over(
    (proc, jvm, endpoint): (&Proc, &Jvm, &Endpoint),
    (files, config): (&Files, &str),
    loaded_just_now: bool,
    touches: impl Fn(),
) -> Result<(), Refusal> {
    let is_there = endpoint.answers(proc, jvm).await;
    let began = Instant::now();
    let came = match is_there {
        Ok(_) => {
            touches();
            let before = files.config()?;
            files.exchange(proc, jvm, endpoint, config, &before).await
        }
        Err(_) if !jvm.is_there(proc) => Err(ended()),
        // It may have stalled.
        Err(why) if endpoint.is_open(proc, jvm) => Err(Refusal::of(Reason::ScrapeFailed, why)),
        Err(_) => Err(loaded_before()),
    };
    if loaded_just_now {
        watch(proc, jvm, began).await;
    }
    came
}

/// Stays beside the JVM for a while, as long as that is there.
async fn watch(proc: &Proc, jvm: &Jvm, began: Instant) {
    while jvm.is_there(proc) && began.elapsed() < WATCHED_FOR {
        sleep(REST).await;
    }
}

/// Gives a JVM that exports another configuration; where it does not take that, the previous one.
pub async fn rewrite(order: &Order, now: DateTime<Utc>, touches: impl Fn()) -> Result<Done, Refusal> {
    let began = Instant::now();
    let config = wanted(order, now)?;
    let proc = Proc::at(&order.proc);
    let jvm = find(&proc, order).await?;
    let files = Files::of(&jvm);
    let before = files.config()?;
    is_valid(order, now + began.elapsed())?;
    touches();
    files.exchange(&proc, &jvm, &Endpoint::new(order.port), &config, &before).await?;
    Ok(Done::Exporting { loaded_at: None })
}

/// Whether the order still means something.
fn is_valid(order: &Order, now: DateTime<Utc>) -> Result<(), Refusal> {
    if now <= order.valid_until {
        return Ok(());
    }
    let why = format!("the order was valid until {}", order.valid_until.format("%FT%TZ"));
    Err(Refusal::of(Reason::Expired, why))
}

/// The desired configuration, as the exporter reads it.
fn wanted(order: &Order, now: DateTime<Utc>) -> Result<String, Refusal> {
    is_valid(order, now)?;
    if hex(&Sha256::digest(order.config.as_bytes())) != order.sha256 {
        return Err(Refusal::of(Reason::ConfigStale, "the kubelet's copy of the ConfigMap is another one"));
    }
    config::checked(&order.config).map_err(|why| Refusal::of(Reason::ConfigRejected, why))
}

/// The JVM, for which it waits.
async fn find(proc: &Proc, order: &Order) -> Result<Jvm, Refusal> {
    let end = Instant::now() + order.comes_within;
    loop {
        match jvm::find(proc, order.container.as_deref()) {
            // One that has just started does not handle the signal yet.
            Ok(jvm) if jvm.handles_quit || Instant::now() >= end => return Ok(jvm),
            Err(refusal) if refusal.reason != Reason::NoJvm || Instant::now() >= end => return Err(refusal),
            _ => sleep(REST).await,
        }
    }
}

/// What is written into the JVM's `/tmp`.
struct Files {
    tmp: PathBuf,
    /// Names a process for as long as its container lives.
    stem: String,
}

impl Files {
    fn of(jvm: &Jvm) -> Self {
        Self { tmp: jvm.tmp.clone(), stem: format!(".jmx-exporter-{}-{}", jvm.own_pid, jvm.started) }
    }

    /// A file, as the JVM names it.
    fn inside(&self, ending: &str) -> String {
        format!("/tmp/{}{ending}", self.stem)
    }

    /// The same file, as we reach it.
    fn path(&self, ending: &str) -> PathBuf {
        self.tmp.join(format!("{}{ending}", self.stem))
    }

    /// The jar and a configuration that cannot be wrong, where the JVM finds them.
    fn unpack(&self, jar: &Path) -> Result<(), Refusal> {
        let unpacked = File::open(jar).and_then(|mut from| write(&self.path(JAR), &mut from));
        let unpacked = unpacked.and_then(|()| write(&self.path(CONFIG), &mut EMPTY.as_bytes()));
        unpacked.map_err(|error| unwritable(&error))
    }

    /// One load, ever: of two helpers one gets it.
    fn lock(&self) -> Result<(), Refusal> {
        match OpenOptions::new().write(true).create_new(true).open(self.path("")) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(loaded_before()),
            Err(error) => Err(unwritable(&error)),
        }
    }

    /// When a helper made the JVM load the exporter, if one did.
    fn locked_at(&self) -> Option<DateTime<Utc>> {
        let lock = fs::metadata(self.path("")).ok()?;
        Some(lock.modified().map_or(DateTime::UNIX_EPOCH, DateTime::from))
    }

    /// The configuration that is there.
    #[expect(clippy::disallowed_methods, reason = "a file of the JVM's own")]
    fn config(&self) -> Result<String, Refusal> {
        let read = fs::read_to_string(self.path(CONFIG));
        read.map_err(|error| Refusal::of(Reason::NoJvm, format!("this JVM has no configuration of ours: {error}")))
    }

    /// Gives the exporter another configuration, and the previous one where it does not take that.
    async fn exchange(
        &self,
        proc: &Proc,
        jvm: &Jvm,
        endpoint: &Endpoint,
        wanted: &str,
        before: &str,
    ) -> Result<(), Refusal> {
        // What was put there before is read by the first scrape, and counted in the second.
        endpoint.reloads(proc, jvm).await?;
        let mut why = String::new();
        // A JVM may stall in the middle of it. So a scrape that fails is no verdict until it fails again.
        for _ in 0..2 {
            let known = endpoint.reloads(proc, jvm).await?;
            self.put(wanted)?;
            let Some(not_taken) = taken(proc, jvm, endpoint, known).await? else { return Ok(()) };
            self.put(before)?;
            let answers = endpoint.reloads(proc, jvm).await;
            if !jvm.is_there(proc) {
                return Err(Refusal::of(Reason::NoJvm, "the JVM ended while it was given another configuration"));
            }
            // With the previous one it answered a moment ago.
            answers?;
            let is_refused = matches!(not_taken, NotTaken::Refused);
            why = match not_taken {
                NotTaken::Refused => "the JVM's log says why".to_owned(),
                NotTaken::Failed(why) => format!("with it {why}"),
            };
            if is_refused {
                break;
            }
        }
        let why = format!("the exporter does not take the configuration, and the previous one is in force; {why}");
        Err(Refusal::of(Reason::ConfigNotTaken, why))
    }

    /// Written beside, then renamed: no reader sees half of it.
    fn put(&self, config: &str) -> Result<(), Refusal> {
        let beside = self.path(".new");
        let written = write(&beside, &mut config.as_bytes()).and_then(|()| fs::rename(&beside, self.path(CONFIG)));
        written.map_err(|error| unwritable(&error))
    }
}

/// How an exporter does not take a configuration.
enum NotTaken {
    Refused,
    /// Scrapes fail with it: why.
    Failed(String),
}

/// Whether the exporter takes the configuration that was put there.
async fn taken(proc: &Proc, jvm: &Jvm, endpoint: &Endpoint, known: Reloads) -> Result<Option<NotTaken>, Refusal> {
    for _ in 0..ASKED {
        // A scrape reads the file; the first answer may show the previous counts.
        let now = match endpoint.reloads(proc, jvm).await {
            Ok(now) => now,
            Err(refusal) if !jvm.is_there(proc) => return Err(refusal),
            Err(refusal) => return Ok(Some(NotTaken::Failed(refusal.message))),
        };
        if now.taken > known.taken {
            return Ok(None);
        }
        if now.refused > known.refused {
            break;
        }
        sleep(PAUSE).await;
    }
    Ok(Some(NotTaken::Refused))
}

fn ended() -> Refusal {
    Refusal::of(Reason::NoJvm, "the JVM ended before anything was done to it")
}

fn loaded_before() -> Refusal {
    let why = "this JVM was made to load the exporter before: a second load would end it; restart the container";
    Refusal::of(Reason::LoadedBefore, why)
}

fn unwritable(error: &io::Error) -> Refusal {
    Refusal::of(Reason::ReadOnlyTmp, format!("/tmp of the JVM cannot be written: {error}; mount an emptyDir there"))
}

/// Writes a file that is not there: anything that was put in its place, such as a link, is removed.
fn write(path: &Path, from: &mut impl io::Read) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    io::copy(from, &mut file)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_termination_message_is_cut_so_that_kubelets_keep_it_whole() {
        let long = Refusal::of(Reason::LoadFailed, "ä\"".repeat(300));
        assert!(long.line().len() <= LONGEST && long.line().ends_with("…\"}"), "{}", long.line());
        let short = Refusal::of(Reason::NoJvm, "none");
        assert_eq!(short.line(), r#"{"reason":"NoJvm","message":"none"}"#);
    }
}
