//! The JVM among the processes in sight.
//!
//! Must not ask what could end it (that is `questions`).

use std::path::PathBuf;

use super::proc::Proc;
use super::{Identity, Reason, Refusal, UNTOUCHED};

/// So many hexadecimal digits are a container's ID.
const ID: usize = 64;
/// Bit of SIGQUIT in a set of signals.
const QUIT: u64 = 1 << 2;

/// A running JVM.
#[derive(Debug, Clone)]
pub(super) struct Jvm {
    pub(super) pid: u32,
    /// Its number in its own PID namespace, as it names its files.
    pub(super) own_pid: u32,
    /// When it started, in ticks: a number is used again.
    pub(super) started: u64,
    /// Its `/tmp`, as we reach it.
    pub(super) tmp: PathBuf,
    /// Whether SIGQUIT would be handled, and not end it.
    pub(super) handles_quit: bool,
    pub(super) is_openj9: bool,
    /// Where its runtime is, as it names it.
    pub(super) home: Option<String>,
}

impl Jvm {
    /// Whether it still is the same process.
    pub(super) fn is_there(&self, proc: &Proc) -> bool {
        proc.started(self.pid) == Some(self.started)
    }
}

/// The JVM, if there is just one, or one that is process 1.
pub(super) fn find(proc: &Proc, container: Option<&str>) -> Result<Jvm, Refusal> {
    let (uptime, ticks) = (proc.uptime().unwrap_or(f64::MAX), rustix::param::clock_ticks_per_second());
    let (mut found, mut closed) = (Vec::new(), None);
    let cgroup = |pid| proc.read(pid, "cgroup").unwrap_or_default();
    // Where a process names the container, one that names none is another's, such as the host's own.
    let is_named = container.is_some_and(|id| proc.pids().into_iter().any(|pid| cgroup(pid).contains(id)));
    for pid in proc.pids() {
        let Some(started) = proc.started(pid) else { continue };
        let is_its = |id: &str| {
            proc.read(pid, "cgroup").is_ok_and(|text| text.contains(id) || !is_named && !names_another(&text, id))
        };
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let age = uptime - started as f64 / ticks as f64;
        if age < UNTOUCHED.as_secs_f64() || !container.is_none_or(is_its) {
            continue;
        }
        match proc.read(pid, "maps") {
            Ok(maps) => found.extend(jvm(proc, pid, started, &maps)),
            // Whose files are closed to us may be one: its name is not.
            Err(_) if closed.is_none() && proc.read(pid, "comm").is_ok_and(|comm| comm.trim() == "java") => {
                closed = identity(proc, pid);
            }
            Err(_) => {}
        }
    }
    if found.len() > 1 {
        found.sort_by_key(|jvm| jvm.own_pid != 1);
        if found[0].own_pid != 1 {
            let pids: Vec<String> = found.iter().map(|jvm| jvm.own_pid.to_string()).collect();
            let why = format!("processes {} are JVMs, and none is process 1", pids.join(", "));
            return Err(Refusal::of(Reason::SeveralJvms, why));
        }
    }
    if let Some(jvm) = found.into_iter().next() {
        return Ok(jvm);
    }
    if let Some(identity) = closed {
        let message = format!("the JVM's files are those of user {}", identity.user);
        return Err(Refusal { identity: Some(identity), ..Refusal::of(Reason::NotReachable, message) });
    }
    Err(Refusal::of(Reason::NoJvm, "no process of the container is a JVM"))
}

/// Whether a process's cgroup names another container than this. On some machines it names none.
fn names_another(cgroup: &str, id: &str) -> bool {
    let is_id = |word: &&str| word.len() == ID;
    !cgroup.contains(id) && cgroup.split(|c: char| !c.is_ascii_hexdigit()).any(|word| is_id(&word))
}

fn jvm(proc: &Proc, pid: u32, started: u64, maps: &str) -> Option<Jvm> {
    let library = maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| format!("/{path}"));
    let library = library.into_iter().find(|path| path.trim_end_matches(" (deleted)").ends_with("/libjvm.so"))?;
    let status = proc.read(pid, "status").unwrap_or_default();
    let own_pid = line(&status, "NSpid:").and_then(|pids| pids.split_whitespace().last()?.parse().ok()).unwrap_or(pid);
    let caught =
        line(&status, "SigCgt:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // lib/server/libjvm.so, and with Java 8 lib/ARCH/server/libjvm.so.
    let home = library.rsplit_once("/lib/").map(|(home, _)| home.to_owned());
    Some(Jvm {
        pid,
        own_pid,
        started,
        tmp: proc.path(pid, "root/tmp"),
        handles_quit: caught & QUIT != 0,
        is_openj9: maps.contains("/libj9vm"),
        home,
    })
}

/// What of a process's status a line says.
pub(super) fn line<'s>(status: &'s str, key: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(key))
}

/// Whose files a process's are.
pub(super) fn identity(proc: &Proc, pid: u32) -> Option<Identity> {
    let status = proc.read(pid, "status").ok()?;
    let effective = |key: &str| line(&status, key)?.split_whitespace().nth(1)?.parse().ok();
    Some(Identity {
        user: effective("Uid:")?,
        group: effective("Gid:")?,
        capabilities: line(&status, "CapEff:")?.trim().to_owned(),
    })
}
