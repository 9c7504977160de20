//! Programs from Debian's packages, unpacked into the rig's cache where this machine has none of its own.
//!
//! Needs no root: packages are downloaded and unpacked, never installed. Must not be used where a program is on PATH.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oneagent_operator::k8s::hex::hex;
use sha2::{Digest as _, Sha256};

use crate::tools::{cache, made_once};

/// A program that comes in packages.
#[derive(Debug, Clone, Copy)]
pub struct Debian {
    /// What the image is called that has it.
    pub name: &'static str,
    /// Its name where an administrator installs it.
    package: &'static str,
    /// Programs that must be there.
    needs: &'static [&'static str],
    packages: &'static [&'static str],
    /// Where they are, as the packages have it.
    folders: &'static [&'static str],
}

/// All of them.
pub const ALL: &[Debian] = &[RABBITMQ, REDIS, NAMED, DNSMASQ, ZSH, FISH];

const RABBITMQ: Debian = Debian {
    name: "rabbitmq",
    package: "rabbitmq-server",
    needs: &["rabbitmq-server", "rabbitmqctl", "erl"],
    // With the parts of Erlang that it names.
    packages: &[
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
    ],
    folders: &["usr/lib/erlang/bin", "usr/lib/rabbitmq/bin"],
};

const REDIS: Debian = Debian {
    name: "redis",
    package: "redis-server",
    needs: &["redis-server", "redis-cli"],
    packages: &["redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1"],
    folders: &["usr/bin"],
};

const NAMED: Debian = Debian {
    name: "named",
    package: "bind9",
    needs: &["named", "named-checkconf"],
    packages: &[
        "bind9",
        "bind9-libs",
        "bind9-utils",
        "libfstrm0",
        "libjemalloc2",
        "libjson-c5",
        "liblmdb0",
        "libmaxminddb0",
        "libprotobuf-c1",
        "libuv1",
    ],
    folders: &["usr/sbin", "usr/bin"],
};

const DNSMASQ: Debian = Debian {
    name: "dnsmasq",
    package: "dnsmasq-base",
    needs: &["dnsmasq"],
    packages: &[
        "dnsmasq-base",
        "libmnl0",
        "libnetfilter-conntrack3",
        "libnfnetlink0",
        "libnftables1",
        "libnftnl11",
        "libjansson4",
        "libxtables12",
    ],
    folders: &["usr/sbin"],
};

/// The Z shell.
pub const ZSH: Debian =
    Debian { name: "zsh", package: "zsh", needs: &["zsh"], packages: &["zsh", "zsh-common"], folders: &["bin"] };

/// The friendly interactive shell.
pub const FISH: Debian = Debian {
    name: "fish",
    package: "fish",
    needs: &["fish"],
    packages: &["fish", "fish-common", "libpcre2-32-0"],
    folders: &["usr/bin"],
};

/// Where Erlang believes that it is; its scripts say so.
const ERLANG: &str = "/usr/lib/erlang";
const SCRIPTS: &[&str] = &["bin/erl", "bin/start"];

impl Debian {
    /// All that it consists of.
    pub fn programs(&self) -> Result<Vec<PathBuf>, String> {
        let on_path = self.needs.iter().filter_map(|name| {
            let output = Command::new("which").arg(name).output().ok()?;
            let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            (!path.is_empty()).then(|| PathBuf::from(path))
        });
        let on_path: Vec<PathBuf> = on_path.collect();
        if on_path.len() == self.needs.len() {
            return Ok(on_path);
        }
        let done = self.folder();
        made_once(&done, self.name, |making| {
            self.unpack(making)?;
            own_erlang(making, &done)
        })?;
        let all =
            self.folders.iter().flat_map(|folder| fs::read_dir(done.join(folder)).into_iter().flatten().flatten());
        Ok(all.map(|entry| entry.path()).collect())
    }

    /// One of its programs, as a command that finds its libraries.
    pub fn command(&self, name: &str) -> Result<Command, String> {
        let programs = self.programs()?;
        let program = programs.iter().find(|path| path.ends_with(name));
        let mut command = Command::new(program.ok_or_else(|| format!("{} has no {name}", self.package))?);
        command.envs(self.libraries().map(|folder| ("LD_LIBRARY_PATH", folder)));
        Ok(command)
    }

    fn folder(&self) -> PathBuf {
        let key = hex(&Sha256::digest(self.packages.join(" "))[..8]);
        cache().join(format!("{}-debian-{key}", self.name))
    }

    /// Libraries that came with it; none: this machine has them.
    #[must_use]
    pub fn libraries(&self) -> Option<PathBuf> {
        let all = fs::read_dir(self.folder().join("usr/lib")).ok()?.flatten();
        all.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with("-linux-gnu"))
    }

    /// Downloads packages, and unpacks them into a folder.
    fn unpack(&self, folder: &Path) -> Result<(), String> {
        let packed = folder.join("packages");
        fs::create_dir(&packed).map_err(|e| e.to_string())?;
        let download = || Command::new("apt-get").arg("download").args(self.packages).current_dir(&packed).output();
        let name = self.package;
        let mut output =
            download().map_err(|e| format!("cannot run apt-get ({e}); install {name} and put it on PATH"))?;
        if !output.status.success() {
            // This machine has no package lists yet.
            let _ = Command::new("apt-get").arg("update").output();
            output = download().map_err(|e| e.to_string())?;
        }
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("Debian's packages of {name} cannot be had; install it and put it on PATH:\n{said}"));
        }
        for package in fs::read_dir(&packed).map_err(|e| e.to_string())?.flatten() {
            let unpacked = Command::new("dpkg").arg("-x").arg(package.path()).arg(folder).output();
            if !unpacked.map_err(|e| format!("cannot run dpkg: {e}"))?.status.success() {
                return Err(format!("{} cannot be unpacked", package.path().display()));
            }
        }
        fs::remove_dir_all(&packed).map_err(|e| e.to_string())
    }
}

/// Has Erlang's scripts find it where it is.
fn own_erlang(making: &Path, done: &Path) -> Result<(), String> {
    let erlang = making.join(&ERLANG[1..]);
    let Ok(all) = fs::read_dir(&erlang) else { return Ok(()) };
    let runtime = all.flatten().map(|entry| entry.path());
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
}
