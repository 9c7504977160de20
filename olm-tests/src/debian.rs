//! Programs from Debian's packages, unpacked into the rig's cache where this machine has none of its own.
//!
//! Needs no root: packages are downloaded and unpacked, never installed. Must not be used where a program is on PATH.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::made_once;

/// RabbitMQ and the parts of Erlang that it names.
const RABBITMQ: &[&str] = &[
    "rabbitmq-server",
    "erlang-asn1",
    "erlang-base",
    "erlang-crypto",
    "erlang-eldap",
    "erlang-ftp",
    "erlang-inets",
    "erlang-mnesia",
    "erlang-os-mon",
    "erlang-parsetools",
    "erlang-public-key",
    "erlang-runtime-tools",
    "erlang-snmp",
    "erlang-ssl",
    "erlang-syntax-tools",
    "erlang-tftp",
    "erlang-tools",
    "erlang-xmerl",
];
/// Where Erlang believes that it is; its scripts say so.
const ERLANG: &str = "/usr/lib/erlang";
const SCRIPTS: &[&str] = &["bin/erl", "bin/start"];

/// Folders with the programs of RabbitMQ and Erlang; none: they are on PATH.
pub fn rabbitmq() -> Result<Vec<PathBuf>, String> {
    let has = |name: &str| Command::new("which").arg(name).output().is_ok_and(|output| output.status.success());
    if has("rabbitmq-server") && has("rabbitmqctl") && has("erl") {
        return Ok(Vec::new());
    }
    let done = crate::tools::cache().join("rabbitmq-debian");
    made_once(&done, "rabbitmq", |making| {
        unpack("rabbitmq-server", RABBITMQ, making)?;
        let erlang = making.join(&ERLANG[1..]);
        let runtime = fs::read_dir(&erlang).map_err(|e| e.to_string())?.flatten().map(|entry| entry.path());
        let runtime =
            runtime.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("erts-")));
        for folder in runtime.chain([erlang.clone()]) {
            for script in SCRIPTS.iter().map(|script| folder.join(script)).filter(|script| script.is_file()) {
                let text = fs::read_to_string(&script).map_err(|e| e.to_string())?;
                let moved = text.replace(ERLANG, &done.join(&ERLANG[1..]).display().to_string());
                fs::write(&script, moved).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    })?;
    Ok(vec![done.join("usr/lib/erlang/bin"), done.join("usr/lib/rabbitmq/bin")])
}

/// Downloads packages, and unpacks them into a folder.
fn unpack(program: &str, packages: &[&str], folder: &Path) -> Result<(), String> {
    let packed = folder.join("packages");
    fs::create_dir(&packed).map_err(|e| e.to_string())?;
    let download = || Command::new("apt-get").arg("download").args(packages).current_dir(&packed).output();
    let mut output =
        download().map_err(|e| format!("cannot run apt-get ({e}); install {program} and put it on PATH"))?;
    if !output.status.success() {
        // Nobody has told this machine yet which packages there are.
        let _ = Command::new("apt-get").arg("update").output();
        output = download().map_err(|e| e.to_string())?;
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("Debian's packages of {program} cannot be had; install it and put it on PATH:\n{said}"));
    }
    for package in fs::read_dir(&packed).map_err(|e| e.to_string())?.flatten() {
        let unpacked = Command::new("dpkg").arg("-x").arg(package.path()).arg(folder).output();
        if !unpacked.map_err(|e| format!("cannot run dpkg: {e}"))?.status.success() {
            return Err(format!("{} cannot be unpacked", package.path().display()));
        }
    }
    fs::remove_dir_all(&packed).map_err(|e| e.to_string())
}
