//! What is asked before a JVM is made to load anything: all that could end it, or be in vain.
//!
//! Reads only. Must not signal the JVM, nor write.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::jvm::{Jvm, identity, line};
use super::proc::Proc;
use super::{Reason, Refusal};

/// Modules without which the exporter fails, and then any later load ends the JVM.
const MODULES: [&str; 5] = ["java.instrument", "java.desktop", "java.logging", "java.management", "jdk.httpserver"];
/// What only the exporter's jar has.
const AGENT: &[u8] = b"io/prometheus/jmx/JavaAgent.class";
/// What a jar begins with, whatever its name is.
const ZIP: [u8; 4] = *b"PK\x03\x04";
/// Options that decide whether a JVM can be attached to: each with its value that lets it.
const SWITCHES: [(&str, &str); 2] = [("DisableAttachMechanism", "-"), ("EnableDynamicAgentLoading", "+")];

/// Asks all of it.
pub(super) fn ask(proc: &Proc, jvm: &Jvm, port: u16, min_free_memory: u64) -> Result<(), Refusal> {
    if jvm.is_openj9 {
        return Err(Refusal::of(Reason::NotHotSpot, "it is OpenJ9, which has no such attach mechanism"));
    }
    is_reachable(proc, jvm)?;
    has_no_exporter(proc, jvm)?;
    if let Some(option) = switched_off(proc, jvm) {
        let why = format!("option {option} of the JVM forbids it; remove it, or start the JVM with -javaagent");
        return Err(Refusal::of(Reason::AttachDisabled, why));
    }
    if !jvm.handles_quit {
        let why = "the JVM does not handle SIGQUIT, which would end it; remove option -Xrs";
        return Err(Refusal::of(Reason::SignalUnsafe, why));
    }
    has_modules(proc, jvm)?;
    has_memory(proc, jvm, min_free_memory)?;
    if !proc.listening(jvm.pid, port).is_empty() {
        let why = format!("somebody listens on port {port} of the Pod already; name another in spec.port");
        return Err(Refusal::of(Reason::PortInUse, why));
    }
    Ok(())
}

/// Its root opens to the same user with at least its capabilities.
fn is_reachable(proc: &Proc, jvm: &Jvm) -> Result<(), Refusal> {
    let Err(error) = std::fs::read_dir(&jvm.tmp) else { return Ok(()) };
    let message = format!("/tmp of the JVM cannot be reached: {error}");
    let reason = if error.kind() == io::ErrorKind::NotFound { Reason::ReadOnlyTmp } else { Reason::NotReachable };
    Err(Refusal { identity: identity(proc, jvm.pid), ..Refusal::of(reason, message) })
}

/// Whether an exporter is in it: a jar stays open, also one that was deleted.
fn has_no_exporter(proc: &Proc, jvm: &Jvm) -> Result<(), Refusal> {
    for (path, target) in proc.open(jvm.pid) {
        // To open a pipe could block.
        if !path.metadata().is_ok_and(|file| file.is_file()) {
            continue;
        }
        let target = target.to_string_lossy().into_owned();
        let ending = Path::new(target.trim_end_matches(" (deleted)")).extension();
        // One that is a program, too, begins with a script.
        let is_named = ending.is_some_and(|ending| ending.eq_ignore_ascii_case("jar"));
        let is_jar = |mut file: &File| {
            let mut begins = [0; ZIP.len()];
            file.read_exact(&mut begins).is_ok() && begins == ZIP
        };
        let has_it = |file: File| (is_jar(&file) || is_named) && contains(file, AGENT).unwrap_or(true);
        if File::open(path).is_ok_and(has_it) {
            let why = format!("an exporter is in it already, from {target}; a second one would end the JVM");
            return Err(Refusal::of(Reason::AlreadyExporting, why));
        }
    }
    Ok(())
}

/// The option that switches attaching off, as far as it is the last of its kind.
fn switched_off(proc: &Proc, jvm: &Jvm) -> Option<String> {
    let environment = proc.words(jvm.pid, "environ");
    let of = |name: &str| environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut options = of("JAVA_TOOL_OPTIONS").map(words).unwrap_or_default();
    options.extend(of("JDK_JAVA_OPTIONS").map(words).unwrap_or_default());
    options.extend(proc.words(jvm.pid, "cmdline"));
    // Comes last, whatever it says.
    options.extend(of("_JAVA_OPTIONS").map(words).unwrap_or_default());
    let files = |option: String| match option.strip_prefix('@') {
        Some(file) => words(&argument_file(proc, jvm, file).unwrap_or_default()),
        None => vec![option],
    };
    let options: Vec<String> = options.into_iter().flat_map(files).collect();
    let last = |(name, lets): (&str, &str)| {
        let is_it = |option: &&String| {
            option.trim_matches(['"', '\'']).strip_prefix("-XX:").and_then(|option| option.get(1..)) == Some(name)
        };
        let option = options.iter().rev().find(is_it)?.trim_matches(['"', '\'']).to_owned();
        (!option.contains(&format!(":{lets}"))).then_some(option)
    };
    SWITCHES.into_iter().find_map(last)
}

/// A file of options, which the JVM names as it sees it.
fn argument_file(proc: &Proc, jvm: &Jvm, file: &str) -> Option<String> {
    let path = match file.strip_prefix('/') {
        Some(inside) => proc.path(jvm.pid, "root").join(inside),
        None => proc.path(jvm.pid, "cwd").join(file),
    };
    let mut text = String::new();
    File::open(path).ok()?.take(1 << 20).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whether its runtime has the modules. Java 8 has none, and needs none.
fn has_modules(proc: &Proc, jvm: &Jvm) -> Result<(), Refusal> {
    let Some(home) = jvm.home.as_deref().and_then(|home| home.strip_prefix('/')) else { return Ok(()) };
    let home = proc.path(jvm.pid, "root").join(home);
    let missing: Vec<&str> = match release_modules(&home.join("release")) {
        Some(modules) => MODULES.into_iter().filter(|module| !modules.iter().any(|known| known == module)).collect(),
        None if !home.join("lib/modules").exists() => return Ok(()),
        None => {
            // A class of module java.base has their names, too. Those that are there stand between zeros.
            let lacks = |module: &&str| {
                let image = File::open(home.join("lib/modules"));
                let name = format!("\0{module}\0");
                image.is_ok_and(|image| contains(image, name.as_bytes()).is_ok_and(|found| !found))
            };
            MODULES.into_iter().filter(lacks).collect()
        }
    };
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("its runtime lacks module {}; add it where jlink makes the runtime", missing.join(", "));
    Err(Refusal::of(Reason::ModuleMissing, why))
}

/// The modules that the file `release` of a runtime names.
fn release_modules(path: &Path) -> Option<Vec<String>> {
    let mut text = String::new();
    File::open(path).ok()?.take(1 << 20).read_to_string(&mut text).ok()?;
    let named = line(&text, "MODULES=")?.trim().trim_matches('\x22');
    Some(named.split_whitespace().map(str::to_owned).collect())
}

/// Whether its container has so many bytes left: its limit without the working set.
fn has_memory(proc: &Proc, jvm: &Jvm, min_free: u64) -> Result<(), Refusal> {
    let Some(free) = free_memory(&proc.path(jvm.pid, "root/sys/fs/cgroup")).filter(|free| *free < min_free) else {
        return Ok(());
    };
    let why = format!(
        "the container has {} MiB left of its memory limit, and {} are asked for; raise the limit, or lower \
        spec.minFreeMemory",
        free >> 20,
        min_free >> 20
    );
    Err(Refusal::of(Reason::LowMemory, why))
}

/// `None`: there is no limit, or it is unknown.
fn free_memory(cgroup: &Path) -> Option<u64> {
    let read = |folder: &str, file: &str| -> Option<String> {
        let mut text = String::new();
        File::open(cgroup.join(folder).join(file)).ok()?.read_to_string(&mut text).ok()?;
        Some(text)
    };
    let number = |text: Option<String>| text?.trim().parse::<u64>().ok();
    let ([limit, used], folder) = if let Some(limit) = read("", "memory.max") {
        ([number(Some(limit)), number(read("", "memory.current"))], "")
    } else {
        let of = |file| number(read("memory", file));
        ([of("memory.limit_in_bytes"), of("memory.usage_in_bytes")], "memory")
    };
    let stat = read(folder, "memory.stat").unwrap_or_default();
    let inactive = |key: &str| line(&stat, key)?.trim().parse::<u64>().ok();
    let cache = inactive("total_inactive_file ").or_else(|| inactive("inactive_file ")).unwrap_or_default();
    Some(limit?.saturating_sub(used?.saturating_sub(cache)))
}

/// Whether a file has these bytes, read piece by piece.
fn contains(mut file: impl io::Read, wanted: &[u8]) -> io::Result<bool> {
    let (mut piece, mut kept) = (vec![0; 1 << 16], 0);
    loop {
        let read = file.read(&mut piece[kept..])?;
        let filled = kept + read;
        if piece[..filled].windows(wanted.len()).any(|bytes| bytes == wanted) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        // The end of this piece may be its beginning.
        let tail = filled.min(wanted.len() - 1);
        piece.copy_within(filled - tail..filled, 0);
        kept = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::table::Table;
    use std::fs;

    fn jvm(table: &Table) -> Jvm {
        Jvm {
            pid: 7,
            own_pid: 1,
            started: 1,
            tmp: table.path("7/root/tmp"),
            handles_quit: true,
            is_openj9: false,
            home: Some("/opt/java".into()),
        }
    }

    fn asked_of(table: &Table, jvm: &Jvm) -> Result<(), Reason> {
        ask(&table.proc(), jvm, 9400, 96 << 20).map_err(|refusal| refusal.reason)
    }

    fn asked(table: &Table) -> Result<(), Reason> {
        asked_of(table, &jvm(table))
    }

    #[test]
    fn openj9_and_a_jvm_that_the_signal_would_end_are_left_alone() {
        let table = Table::new("others");
        assert_eq!(asked_of(&table, &Jvm { is_openj9: true, ..jvm(&table) }), Err(Reason::NotHotSpot));
        assert_eq!(asked_of(&table, &Jvm { handles_quit: false, ..jvm(&table) }), Err(Reason::SignalUnsafe));
    }

    #[test]
    fn options_forbid_attaching_by_the_last_word_wherever_they_stand() {
        let table = Table::new("options");
        assert_eq!(asked(&table), Ok(()), "Java 8 without anything said");
        for (cmdline, environ, file, wanted) in [
            ("java\0-XX:+DisableAttachMechanism\0", "", "", false),
            ("java\0-XX:+DisableAttachMechanism\0-XX:-DisableAttachMechanism\0", "", "", true),
            ("java\0-XX:-EnableDynamicAgentLoading\0", "", "", false),
            ("java\0", "JAVA_TOOL_OPTIONS=-Xmx1g -XX:-EnableDynamicAgentLoading\0", "", false),
            ("java\0", "A=b\0JDK_JAVA_OPTIONS='-XX:+DisableAttachMechanism'\0", "", false),
            ("java\0-XX:-DisableAttachMechanism\0", "_JAVA_OPTIONS=-XX:+DisableAttachMechanism\0", "", false),
            ("java\0@/etc/options\0", "", "-Xmx1g\n-XX:+DisableAttachMechanism\n", false),
            ("java\0@/etc/options\0", "", "-Xmx1g\n", true),
            ("java\0-DX=-XX:+DisableAttachMechanism\0", "", "", true),
        ] {
            table.put("7/cmdline", cmdline);
            table.put("7/environ", environ);
            table.put("7/root/etc/options", file);
            let forbidden = Err(Reason::AttachDisabled);
            assert_eq!(asked(&table), if wanted { Ok(()) } else { forbidden }, "{cmdline:?} {environ:?}");
        }
    }

    #[test]
    fn a_runtime_must_have_the_modules() {
        let table = Table::new("modules");
        table.put("7/root/opt/java/lib/modules", "…/java.base/…");
        assert_eq!(asked(&table), Err(Reason::ModuleMissing));
        table.put("7/root/opt/java/lib/modules", &MODULES.join("/"));
        assert_eq!(asked(&table), Err(Reason::ModuleMissing), "what a class names need not be there");
        let names = format!("{}\0{}\0", "x".repeat((1 << 16) - 5), MODULES.join("\0"));
        table.put("7/root/opt/java/lib/modules", &names);
        assert_eq!(asked(&table), Ok(()), "a name may stand across two pieces");
        table.put("7/root/opt/java/release", "A=\"b\"\nMODULES=\"java.base java.logging\"\n");
        assert_eq!(asked(&table), Err(Reason::ModuleMissing));
        table.put("7/root/opt/java/release", &format!("MODULES=\"{}\"\n", MODULES.join(" ")));
        assert_eq!(asked(&table), Ok(()));
    }

    #[test]
    fn memory_is_what_the_limit_leaves_beside_the_working_set() {
        let table = Table::new("memory");
        let cgroup = |files: [&str; 3], values: [&str; 3]| {
            for (file, value) in files.iter().zip(values) {
                table.put(&format!("7/root/sys/fs/cgroup/{file}"), value);
            }
        };
        let second = ["memory.max", "memory.current", "memory.stat"];
        cgroup(second, ["max\n", "500000000\n", ""]);
        assert_eq!(asked(&table), Ok(()), "without a limit");
        cgroup(second, ["536870912\n", "480000000\n", "anon 1\ninactive_file 1000\n"]);
        assert_eq!(asked(&table), Err(Reason::LowMemory));
        cgroup(second, ["536870912\n", "480000000\n", "inactive_file 100000000\n"]);
        assert_eq!(asked(&table), Ok(()), "a file cache gives way");
        fs::remove_file(table.path("7/root/sys/fs/cgroup/memory.max")).unwrap();
        let first = ["memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"];
        cgroup(first, ["536870912\n", "480000000\n", "total_inactive_file 1000\n"]);
        assert_eq!(asked(&table), Err(Reason::LowMemory));
    }

    #[test]
    fn a_port_that_is_listened_on_is_seen() {
        let table = Table::new("port");
        let row = |state: &str| format!("  sl\n   0: 00000000:24B8 00000000:0000 {state} 0:0 00:0 0 0 0 4711 1\n");
        table.put("7/net/tcp6", &row("01"));
        assert_eq!(asked(&table), Ok(()), "a connection is none");
        table.put("7/net/tcp6", &row("0A"));
        assert_eq!(asked(&table), Err(Reason::PortInUse));
    }

    #[test]
    fn an_exporter_that_is_open_is_seen_whatever_its_file_is_named() {
        let table = Table::new("jars");
        let class = "io/prometheus/jmx/JavaAgent.class";
        let program = format!("#!/bin/sh\nPK\x03\x04 {class}");
        for (file, text, wanted) in [
            ("app.jar", format!("PK\x03\x04 {class}"), Err(Reason::AlreadyExporting)),
            ("exporter", format!("PK\x03\x04 {class}"), Err(Reason::AlreadyExporting)),
            ("program.jar", program, Err(Reason::AlreadyExporting)),
            ("other.jar", "PK\x03\x04 org/other/JavaAgent.class".to_owned(), Ok(())),
            ("app.log", format!("loaded {class}"), Ok(())),
            ("empty", String::new(), Ok(())),
        ] {
            table.put(&format!("7/root/{file}"), &text);
            std::os::unix::fs::symlink(table.path(&format!("7/root/{file}")), table.path("7/fd/5")).unwrap();
            assert_eq!(asked(&table), wanted, "{file}");
            fs::remove_file(table.path("7/fd/5")).unwrap();
        }
    }
}
