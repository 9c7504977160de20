//! The JVM among the processes in sight.
//!
//! Must not ask what could end it (that is `questions`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::process::geteuid;

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
    let (mut found, mut closed, mut unnamed) = (Vec::new(), None, Vec::new());
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let is_old = |started: &u64| uptime - *started as f64 / ticks as f64 >= UNTOUCHED.as_secs_f64();
    let all = proc.pids();
    let old: Vec<(u32, u64)> = all.iter().filter_map(|pid| Some((*pid, proc.started(*pid).filter(is_old)?))).collect();
    if old.is_empty() {
        // A helper looks again and again until there is one.
        return Err(none());
    }
    let cgroup = |pid| proc.read(pid, "cgroup").ok();
    let cgroups: BTreeMap<u32, String> = all.into_iter().filter_map(|pid| Some((pid, cgroup(pid)?))).collect();
    // Where a process names the container, one that names none is another's, such as the host's own.
    let is_named = container.is_some_and(|id| cgroups.values().any(|text| text.contains(id)));
    for (pid, started) in old {
        let is_its =
            |id: &str| cgroups.get(&pid).is_some_and(|text| text.contains(id) || !is_named && !names_another(text, id));
        if !container.is_none_or(is_its) {
            continue;
        }
        match proc.read(pid, "maps") {
            Ok(maps) => found.extend(jvm(proc, pid, started, &maps)),
            // Whose files are closed to us may be one: its name is not.
            Err(_) if proc.read(pid, "comm").is_ok_and(|comm| comm.trim() == "java") => {
                closed = closed.or_else(|| identity(proc, pid));
            }
            Err(_) => unnamed.push((pid, started)),
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
    Err(launcher(proc, unnamed).unwrap_or_else(none))
}

/// A launcher gives a JVM another name than `java`: of the closed processes the likeliest one says its user. Root's are
/// the last, because they start others as their users. `closed`: processes, and when they started.
fn launcher(proc: &Proc, closed: Vec<(u32, u64)>) -> Option<Refusal> {
    let ranked = closed.into_iter().filter_map(|(pid, started)| {
        let status = proc.read(pid, "status").ok()?;
        let identity = identity_of(&status)?;
        // As the same user it stays closed.
        let is_another = identity.user != geteuid().as_raw();
        is_another.then_some(((identity.user == 0, own_pid(&status) != Some(1), started), identity))
    });
    let (_, identity) = ranked.min_by_key(|(rank, _)| *rank)?;
    let message = format!("no process of the container is a JVM, except perhaps one of user {}", identity.user);
    Some(Refusal { identity: Some(identity), ..Refusal::of(Reason::NoJvm, message) })
}

fn none() -> Refusal {
    Refusal::of(Reason::NoJvm, "no process of the container is a JVM")
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
    let own_pid = own_pid(&status).unwrap_or(pid);
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

/// The number of a process in its own PID namespace, as its status says it.
fn own_pid(status: &str) -> Option<u32> {
    line(status, "NSpid:")?.split_whitespace().last()?.parse().ok()
}

/// What of a process's status a line says.
pub(super) fn line<'s>(status: &'s str, key: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(key))
}

/// Whose files a process's are.
pub(super) fn identity(proc: &Proc, pid: u32) -> Option<Identity> {
    identity_of(&proc.read(pid, "status").ok()?)
}

fn identity_of(status: &str) -> Option<Identity> {
    let effective = |key: &str| line(status, key)?.split_whitespace().nth(1)?.parse().ok();
    Some(Identity {
        user: effective("Uid:")?,
        group: effective("Gid:")?,
        capabilities: line(status, "CapEff:")?.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::table::Table;

    const OWN: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    /// A process: its number in its container, the container, for how many seconds it runs, and what it maps.
    fn process(table: &Table, pid: u32, (own, container, age): (u32, &str, u64), library: &str) {
        let started = (1_000 - age) * rustix::param::clock_ticks_per_second();
        table.put(&format!("{pid}/stat"), &format!("{pid} (java (x)) S {}{started} 0", "0 ".repeat(18)));
        table.put(&format!("{pid}/cgroup"), &format!("0::/pod/cri-containerd-{container}.scope\n"));
        table.put(&format!("{pid}/maps"), &format!("7f00-7f01 r-xp 0 08:01 1 {library}\n"));
        table.put(&format!("{pid}/status"), &format!("Name:\tjava\nNSpid:\t{pid}\t{own}\nSigCgt:\t0000000000000004\n"));
    }

    fn found(table: &Table) -> Result<(u32, u32), Reason> {
        table.put("uptime", "1000.00 1.00\n");
        let found = find(&table.proc(), Some(OWN)).map_err(|refusal| refusal.reason);
        found.map(|jvm| (jvm.pid, jvm.own_pid))
    }

    const JVM: &str = "/opt/java/lib/server/libjvm.so";

    #[test]
    fn the_jvm_is_the_one_of_its_container_that_has_lived_for_a_while() {
        let table = Table::new("found");
        process(&table, 7, (1, OWN, 60), "/bin/sh");
        assert_eq!(found(&table), Err(Reason::NoJvm));
        process(&table, 8, (2, OTHER, 60), JVM);
        assert_eq!(found(&table), Err(Reason::NoJvm), "containers of the Pod may share their processes");
        process(&table, 9, (3, OWN, 7), JVM);
        assert_eq!(found(&table), Err(Reason::NoJvm), "a status script's");
        process(&table, 9, (3, OWN, 9), JVM);
        assert_eq!(found(&table), Ok((9, 3)));
        process(&table, 10, (4, OWN, 9), JVM);
        assert_eq!(found(&table), Err(Reason::SeveralJvms));
        process(&table, 7, (1, OWN, 60), JVM);
        assert_eq!(found(&table), Ok((7, 1)), "process 1 is meant");
    }

    /// A process whose files are closed, and its user.
    fn closed(table: &Table, pid: u32, (own, age): (u32, u64), name: &str, user: u32) {
        process(table, pid, (own, OWN, age), "");
        std::fs::remove_file(table.path(&format!("{pid}/maps"))).unwrap();
        table.put(&format!("{pid}/comm"), &format!("{name}\n"));
        let ids = format!("Uid:\t{user}\t{user}\t{user}\t{user}\nGid:\t5\t5\t5\t5\nCapEff:\t0\n");
        table.put(&format!("{pid}/status"), &format!("NSpid:\t{pid}\t{own}\n{ids}"));
    }

    #[test]
    fn a_closed_process_says_its_user_also_where_a_launcher_gives_the_jvm_another_name() {
        let table = Table::new("closed");
        table.put("uptime", "1000.00 1.00\n");
        let said = |table: &Table| {
            let refusal = find(&table.proc(), Some(OWN)).unwrap_err();
            (refusal.reason, refusal.identity.map(|identity| (identity.user, identity.group)))
        };
        let own = geteuid().as_raw();
        closed(&table, 7, (1, 60), "sh", own);
        assert_eq!(said(&table), (Reason::NoJvm, None), "another run as this user sees no more");
        closed(&table, 8, (2, 30), "shop", own + 2);
        closed(&table, 9, (3, 40), "shop", own + 3);
        assert_eq!(said(&table), (Reason::NoJvm, Some((own + 3, 5))), "the oldest");
        closed(&table, 7, (1, 20), "shop", own + 1);
        assert_eq!(said(&table), (Reason::NoJvm, Some((own + 1, 5))), "process 1");
        closed(&table, 7, (1, 60), "jsvc", 0);
        assert_eq!(said(&table), (Reason::NoJvm, Some((own + 3, 5))), "what root started");
        closed(&table, 10, (4, 10), "java", own + 4);
        assert_eq!(said(&table), (Reason::NotReachable, Some((own + 4, 5))));
    }

    #[test]
    fn what_a_jvm_is_its_maps_and_its_status_say() {
        let table = Table::new("maps");
        process(
            &table,
            7,
            (1, OWN, 60),
            "/opt/j9/lib/default/libj9vm29.so\n7f02-7f03 r-xp 0 08:01 1 /opt/j9/lib/server/libjvm.so",
        );
        table.put("7/status", "Name:\tjava\nNSpid:\t7\t1\nSigCgt:\t0000000000000000\n");
        table.put("uptime", "1000.00 1.00\n");
        let jvm = find(&table.proc(), Some(OWN)).unwrap();
        assert_eq!((jvm.is_openj9, jvm.handles_quit, jvm.home.as_deref()), (true, false, Some("/opt/j9")));
    }
}
