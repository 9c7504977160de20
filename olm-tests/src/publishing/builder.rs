//! Builds images into OCI layouts, with buildah: what an image's digest will be is known before anything is pushed.
//!
//! The same commit, toolchain and certificate authorities (CA_BUNDLE; by default this machine's) give the same digests:
//! times are the commit's, and a release's binary names no path of this machine. Must not push, and must not decide
//! what is in an image: that is in the Containerfiles.

use std::path::{Path, PathBuf};
use std::process::Command;

use oneagent_operator::olm::manifests::PRODUCT;
use serde_json::json;

use super::{git, run};
use crate::tools::{crate_tool, exporter, tool};

/// What an image is built from.
#[derive(Debug, Clone)]
pub struct Source {
    pub root: PathBuf,
    /// The commit, and when it was made, in seconds since 1970.
    pub commit: String,
    pub time: i64,
    /// Whether the files are not those of the commit.
    pub is_dirty: bool,
}

impl Source {
    /// The files of the repository as they are.
    pub fn here(root: &Path) -> Result<Self, String> {
        let is_dirty = super::is_clean(root).is_err();
        Self { is_dirty, ..Self::of(root, "HEAD")? }.at(root)
    }

    fn of(root: &Path, commit: &str) -> Result<Self, String> {
        let missing = |_| format!("commit {commit} is not in this clone: `git fetch --unshallow`, or fetch its branch");
        let said = git(root, &["log", "-1", "--format=%H %ct", commit]).map_err(missing)?;
        let (commit, time) = said.split_once(' ').ok_or("git log says no time")?;
        let time = time.parse().map_err(|_| format!("git log says time {time:?}"))?;
        Ok(Self { root: root.to_owned(), commit: commit.to_owned(), time, is_dirty: false })
    }

    fn at(self, root: &Path) -> Result<Self, String> {
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        Ok(Self { root, ..self })
    }
}

/// An image on disk.
#[derive(Debug, Clone)]
pub struct Layout {
    pub folder: PathBuf,
    pub digest: String,
}

/// Builds images of a repository.
pub struct Builder {
    root: PathBuf,
    /// Where everything is put that is not committed.
    work: PathBuf,
    profile: String,
    /// The architectures that can be built, as an image and as Rust name them.
    machines: Vec<(&'static str, &'static str)>,
}

const MACHINES: [(&str, &str); 2] = [("amd64", "x86_64"), ("arm64", "aarch64")];

/// What a build of Rust code is told.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Builder {
    /// Finds what this machine can build for; without all of it nothing that others use may be made, unless
    /// `is_partial`.
    pub fn new(root: &Path, is_partial: bool, is_for_others: bool) -> Result<Self, String> {
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let work = variable("BINARIES").map_or_else(|| root.join("target/images"), PathBuf::from);
        let builder =
            Self { root, work, profile: variable("PROFILE").unwrap_or_else(|| "release".into()), machines: Vec::new() };
        let mut machines = Vec::new();
        for (arch, machine) in MACHINES {
            match builder.linker(machine) {
                Ok(()) => machines.push((arch, machine)),
                Err(needs) if is_for_others && !is_partial => {
                    return Err(format!(
                        "linux/{arch} cannot be built: it needs {needs}; PARTIAL=1 goes on without it"
                    ));
                }
                Err(needs) => eprintln!("not built: linux/{arch}; it needs {needs}"),
            }
        }
        builder.prepare()?;
        if machines.is_empty() { Err("no architecture can be built".into()) } else { Ok(Self { machines, ..builder }) }
    }

    /// Where an image's layout, and all intermediate files, are put.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    fn linker(&self, machine: &str) -> Result<(), String> {
        let triple = format!("{machine}-unknown-linux-gnu");
        let is_there =
            |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", &triple]).current_dir(&self.root);
        let folder = run("rustc", &mut rustc)?;
        match cross(machine) {
            _ if !Path::new(&folder).is_dir() => Err(format!("`rustup target add {triple}`")),
            Some(linker) if !is_there(&linker) => {
                Err(format!("{linker}, which package gcc-{}-linux-gnu has", machine.replace('_', "-")))
            }
            _ => Ok(()),
        }
    }

    /// The files of a commit, out of the repository's history.
    pub fn source(&self, commit: &str) -> Result<Source, String> {
        let source = Source::of(&self.root, commit)?;
        let folder = self.fresh(&format!("source-{}", source.commit))?;
        let archive = folder.with_extension("tar");
        git(&self.root, &["archive", "-o", &archive.display().to_string(), &source.commit])?;
        run("tar", Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&folder))?;
        let _ = std::fs::remove_file(&archive);
        source.at(&folder)
    }

    fn fresh(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.work.join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        folder.canonicalize().map_err(|error| error.to_string())
    }

    /// The operator's image.
    pub fn operator(&self, source: &Source, version: &str) -> Result<Layout, String> {
        let stage = self.fresh("stage")?;
        let out = stage.join("out");
        for (arch, machine) in &self.machines {
            let binary = self.binary(source, machine)?;
            let to = out.join(arch).join(PRODUCT);
            install(&binary, &to, 0o755)?;
        }
        let certificates = variable("CA_BUNDLE").unwrap_or_else(|| "/etc/ssl/certs/ca-certificates.crt".into());
        let missing = |why| format!("{why}; install ca-certificates, or name a PEM file in CA_BUNDLE");
        install(Path::new(&certificates), &out.join("ca-certificates.crt"), 0o644).map_err(missing)?;
        install(&source.root.join("LICENSE"), &out.join("LICENSE"), 0o644)?;
        let fetched = self.fresh("exporter")?;
        install(&exporter()?, &fetched.join("out/jmx_prometheus_javaagent.jar"), 0o644)?;
        let containerfile = source.root.join("Containerfile");
        let (stage, fetched) = (format!("builder={}", stage.display()), format!("exporter={}", fetched.display()));
        let version = format!("VERSION={version}");
        let args = ["--build-context", &stage, "--build-context", &fetched, "--build-arg", &version];
        self.image(PRODUCT, &containerfile, &source.root, source, &args)
    }

    /// The operator's program for a machine. It carries the list of its dependencies, for scanners.
    fn binary(&self, source: &Source, machine: &str) -> Result<PathBuf, String> {
        let triple = format!("{machine}-unknown-linux-gnu");
        let mut flags = "-C target-feature=+crt-static".to_owned();
        if self.profile != "dev" {
            let home = variable("CARGO_HOME").or_else(|| variable("HOME").map(|home| format!("{home}/.cargo")));
            let cargo = home.map(|home| format!(" --remap-path-prefix={home}=/cargo"));
            flags = format!("{flags} --remap-path-prefix={}=/src{}", source.root.display(), cargo.unwrap_or_default());
        }
        let mut cargo = Command::new(variable("CARGO").unwrap_or_else(|| "cargo".into()));
        let auditable = crate_tool("cargo-auditable")?;
        let path = [auditable.parent().map(Path::to_owned).unwrap_or_default()];
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(path.into_iter().chain(std::env::split_paths(&rest))).map_err(|e| e.to_string())?;
        cargo
            .args(["auditable", "build", "--quiet", "--locked", "--profile", &self.profile, "--package", PRODUCT])
            .args(["--target", &triple, "--target-dir"])
            .arg(&self.work)
            .current_dir(&source.root)
            .env("RUSTFLAGS", flags)
            .env("PATH", path);
        // A linker is named only for a foreign architecture: named for this machine's it would make Cargo build all
        // again.
        if let Some(linker) = cross(machine) {
            cargo.env(format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase().replace('-', "_")), linker);
        }
        // A test's own names would make build scripts build again.
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST"))
        {
            cargo.env_remove(name);
        }
        run(&format!("building for {triple}"), &mut cargo)?;
        let folder = if self.profile == "dev" { "debug" } else { &self.profile };
        Ok(self.work.join(&triple).join(folder).join(PRODUCT))
    }

    /// An image by its Containerfile, for each architecture; notes what it was made from.
    pub fn image(
        &self,
        name: &str,
        containerfile: &Path,
        context: &Path,
        source: &Source,
        args: &[&str],
    ) -> Result<Layout, String> {
        let tag = format!("localhost/{name}:build");
        let _ = self.buildah().args(["manifest", "rm", &tag]).output();
        // One after the other: built at once, their order in the index is left to chance.
        for (arch, _) in &self.machines {
            let mut build = self.buildah();
            build.args(["build", "--quiet", "--format", "oci", "--timestamp", &source.time.to_string()]);
            build.args(["--platform", &format!("linux/{arch}"), "--manifest", &tag]).args(args);
            run(&format!("building image {name}"), build.arg("-f").arg(containerfile).arg(context))?;
        }
        let folder = self.fresh(&format!("layouts/{name}"))?;
        let noted = folder.with_extension("digest");
        let mut push = self.buildah();
        push.args(["manifest", "push", "--quiet", "--all", "--digestfile"]).arg(&noted);
        run(&format!("packing image {name}"), push.arg(&tag).arg(format!("oci:{}:build", folder.display())))?;
        let digest = std::fs::read_to_string(&noted).map_err(|error| format!("{}: {error}", noted.display()))?;
        let layout = Layout { folder, digest: digest.trim().to_owned() };
        self.note(source, &layout)?;
        Ok(layout)
    }

    /// An image that was built here before, if it has this digest.
    #[must_use]
    pub fn found(&self, name: &str, digest: &str) -> Option<Layout> {
        let folder = self.work.join("layouts").join(name);
        let noted = std::fs::read_to_string(folder.with_extension("digest")).ok()?;
        let is_it = noted.trim() == digest && folder.join("index.json").is_file() && self.provenance(digest).is_file();
        is_it.then(|| Layout { folder, digest: digest.to_owned() })
    }

    /// Writes what buildah reads: its storage is its own, below our folder.
    fn prepare(&self) -> Result<(), String> {
        let home = self.work.join("buildah");
        let write = |path: &str, text: &str| -> Result<PathBuf, String> {
            let path = home.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(&home)).map_err(|e| e.to_string())?;
            std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
            Ok(path)
        };
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/root\"\nrunroot = \"{0}/run\"\n[storage.options.vfs]\n\
            ignore_chown_errors = \"true\"\n",
            home.display()
        );
        write("storage.conf", &storage)?;
        // It looks for the network's program before it is clear that nothing needs a network.
        let netavark = write("helpers/netavark", "#!/bin/sh\necho no network is set up here >&2\nexit 1\n")?;
        run("chmod", Command::new("chmod").arg("+x").arg(netavark))?;
        let containers = format!("[engine]\nhelper_binaries_dir = [\"{}\"]\n", home.join("helpers").display());
        write("containers.conf", &containers)?;
        // Bases are pinned by digest; no key of their signatures is known here.
        write(".config/containers/policy.json", r#"{"default":[{"type":"insecureAcceptAnything"}]}"#).map(drop)
    }

    /// buildah, in a user namespace: it needs neither root nor an installation.
    fn buildah(&self) -> Command {
        let home = self.work.join("buildah");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount"]).arg(tool("buildah"));
        command
            .env("HOME", &home)
            .env("TMPDIR", &home)
            .env("CONTAINERS_STORAGE_CONF", home.join("storage.conf"))
            .env("CONTAINERS_CONF", home.join("containers.conf"))
            .env("BUILDAH_ISOLATION", "chroot")
            .env("_CONTAINERS_USERNS_CONFIGURED", "done");
        // Its home is ours, the login is the user's, where there is one.
        command.env_remove("DOCKER_CONFIG");
        let docker = variable("DOCKER_CONFIG").or_else(|| variable("HOME").map(|home| format!("{home}/.docker")));
        let login = docker.map(|folder| PathBuf::from(folder).join("config.json")).filter(|file| file.is_file());
        if let Some(login) = login.filter(|_| variable("REGISTRY_AUTH_FILE").is_none()) {
            command.env("REGISTRY_AUTH_FILE", login);
        }
        command
    }

    /// Where it is noted what an image was made from.
    #[must_use]
    pub fn provenance(&self, digest: &str) -> PathBuf {
        self.work.join("provenance").join(format!("{}.json", digest.trim_start_matches("sha256:")))
    }

    fn note(&self, source: &Source, layout: &Layout) -> Result<(), String> {
        let manifest = std::fs::read_to_string(self.root.join("Cargo.toml")).map_err(|e| format!("Cargo.toml: {e}"))?;
        let named = manifest.lines().find_map(|line| line.strip_prefix("repository = \"")?.strip_suffix('"'));
        let repository = named.unwrap_or_default();
        let what = format!("{repository}/blob/main/olm-tests/src/publishing/builder.rs");
        let rustc = run("rustc", Command::new("rustc").arg("--version").current_dir(&self.root))?;
        let note = json!({
            "buildDefinition": {
                "buildType": what,
                "externalParameters": { "profile": self.profile },
                "internalParameters": { "rustc": rustc, "uncommittedChanges": source.is_dirty },
                "resolvedDependencies": [{ "uri": format!("git+{repository}"),
                    "digest": { "gitCommit": source.commit } }],
            },
            "runDetails": { "builder": { "id": what } },
        });
        let path = self.provenance(&layout.digest);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.work)).map_err(|e| e.to_string())?;
        std::fs::write(&path, note.to_string()).map_err(|e| format!("cannot write {}: {e}", path.display()))
    }
}

/// The linker for a machine other than this one.
fn cross(machine: &str) -> Option<String> {
    (machine != std::env::consts::ARCH).then(|| format!("{machine}-linux-gnu-gcc"))
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    let mut install = Command::new("install");
    run("copying a file into the image", install.arg("-D").arg("-m").arg(format!("{mode:o}")).arg(from).arg(to))
        .map(drop)
}
