//! Tools: the real parts, built once from pinned Go modules and crates into a per-user cache.
//!
//! The cache's key is the Go version, go.mod, go.sum, the link flags and what is kept of a module, or the versions of
//! crate and compiler, so that nothing is rebuilt in vain and nothing stale is used. Must not download anything that is
//! not pinned.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use oneagent_operator::k8s::hex::hex;
use sha2::{Digest, Sha256};

/// A Go module of `tools/`, and what it gives.
struct Module {
    folder: &'static str,
    /// Programs: name as built, name as used.
    programs: &'static [(&'static str, &'static str)],
    /// Files and folders of a module that are kept beside the programs: module, path there, name as used.
    files: &'static [(&'static str, &'static str, &'static str)],
}

const OLM: &str = "github.com/operator-framework/operator-lifecycle-manager";

const OLM_V1: &str = "github.com/operator-framework/operator-controller";

const OPENSHIFT: &str = "github.com/openshift/api";

const MODULES: &[Module] = &[
    Module { folder: "etcd", programs: &[("server", "etcd")], files: &[] },
    Module {
        folder: "kubernetes",
        programs: &[
            ("kube-apiserver", "kube-apiserver"),
            ("kube-controller-manager", "kube-controller-manager"),
            ("kube-scheduler", "kube-scheduler"),
            ("kubectl", "kubectl"),
        ],
        files: &[],
    },
    Module { folder: "buildah", programs: &[("buildah", "buildah")], files: &[] },
    Module { folder: "opm", programs: &[("opm", "opm")], files: &[] },
    Module {
        folder: "sdk",
        programs: &[("operator-sdk", "operator-sdk"), ("scorecard-test", "scorecard-test")],
        files: &[],
    },
    Module {
        folder: "istio",
        programs: &[],
        files: &[("istio.io/api", "kubernetes/customresourcedefinitions.gen.yaml", "istio.yaml")],
    },
    Module {
        folder: "openshift",
        programs: &[],
        files: &[
            (OPENSHIFT, "console/v1/zz_generated.crd-manifests", "openshift-console"),
            (OPENSHIFT, "config/v1/zz_generated.crd-manifests", "openshift-config"),
            (OPENSHIFT, "security/v1/zz_generated.crd-manifests", "openshift-security"),
        ],
    },
    Module {
        folder: "prometheus",
        programs: &[],
        files: &[(
            "github.com/prometheus-operator/prometheus-operator",
            "example/prometheus-operator-crd",
            "prometheus-crds",
        )],
    },
    Module { folder: "lua", programs: &[("glua", "glua")], files: &[] },
    Module { folder: "helm", programs: &[("helm", "helm")], files: &[] },
    // Applies on the server's side, where Helm 3 patches.
    Module { folder: "helm4", programs: &[("helm", "helm4")], files: &[] },
    Module { folder: "promtool", programs: &[("promtool", "promtool")], files: &[] },
    Module { folder: "misspell", programs: &[("misspell", "misspell")], files: &[] },
    Module { folder: "cosign", programs: &[("cosign", "cosign")], files: &[] },
    Module { folder: "crane", programs: &[("crane", "crane")], files: &[] },
    Module {
        folder: "olm",
        programs: &[("olm", "olm-operator"), ("catalog", "catalog-operator")],
        files: &[(OLM, "deploy/chart/crds", "olm-crds"), (OLM, "deploy/upstream/quickstart/olm.yaml", "olm.yaml")],
    },
    Module {
        folder: "olmv1",
        programs: &[("catalogd", "catalogd")],
        files: &[(OLM_V1, "manifests/standard.yaml", "olmv1.yaml")],
    },
    // The last in which a ClusterExtension must name a ServiceAccount.
    Module { folder: "olmv1-10", programs: &[], files: &[(OLM_V1, "manifests/standard.yaml", "olmv1-10.yaml")] },
    Module { folder: "actionlint", programs: &[("actionlint", "actionlint")], files: &[] },
    Module { folder: "kubeconform", programs: &[("kubeconform", "kubeconform")], files: &[] },
    Module { folder: "argocd", programs: &[("argocd", "argocd")], files: &[] },
];

/// The modules that a control plane needs.
pub const CONTROL_PLANE: &[&str] = &["etcd", "kubernetes"];

/// Bytes that building everything takes on disk, module and build caches included.
const DISK: u64 = 8 << 30;

/// Where a tool, or a file that came with one, is; builds its module when it is not there yet.
#[must_use]
pub fn tool(name: &str) -> PathBuf {
    let gives = |m: &&Module| {
        m.programs.iter().any(|(_, used)| *used == name) || m.files.iter().any(|(_, _, used)| *used == name)
    };
    let module = MODULES.iter().find(gives).unwrap_or_else(|| panic!("no tool {name}"));
    build(module).unwrap_or_else(|why| panic!("{why}")).join(name)
}

/// Programs that come as crates: name and version.
const CRATES: &[(&str, &str)] = &[("cargo-auditable", "0.7.7"), ("cargo-cyclonedx", "0.5.9")];

/// Where a program that comes as a crate is; installs it when it is not there yet.
pub fn crate_tool(name: &str) -> Result<PathBuf, String> {
    let found = CRATES.iter().find(|(known, _)| *known == name);
    let (_, version) = found.unwrap_or_else(|| panic!("no crate {name}"));
    let output = Command::new("rustc").arg("-V").output().map_err(|e| format!("cannot run rustc: {e}"))?;
    let key = Sha256::new().chain_update(&output.stdout);
    let done = cache().join(format!("{name}-{version}-{}", hex(&key.finalize()[..8])));
    let program = done.join("bin").join(name);
    made_once(&done, name, |making| {
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--quiet", "--locked", "--version", version, "--root"]).arg(making).arg(name);
        cargo.arg("--target-dir").arg(making.join("target")).env_remove("RUSTFLAGS");
        let output = cargo.output().map_err(|e| format!("cannot run cargo: {e}"))?;
        let _ = fs::remove_dir_all(making.join("target"));
        if output.status.success() {
            return Ok(());
        }
        Err(format!("installing {name} failed:\n{}", String::from_utf8_lossy(&output.stderr)))
    })?;
    Ok(program)
}

/// The exporter that JVMs load, of a Maven project that names its version; what has another digest is none.
pub fn exporter() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/jmx");
    let read = |name: &str| fs::read_to_string(source.join(name)).map_err(|e| format!("{name}: {e}"));
    let (project, digest) = (read("pom.xml")?, read("sha256")?);
    let done = cache().join(format!("jmx-{}", hex(&Sha256::digest(format!("{project}{digest}"))[..8])));
    let jar = "jmx_prometheus_javaagent.jar";
    made_once(&done, "jmx", |making| {
        fetch(&source, making, &["-DexcludeTransitive=true", "-Dmdep.stripVersion=true"])?;
        let bytes = fs::read(making.join(jar)).map_err(|e| format!("{jar} was not fetched: {e}"))?;
        let found = hex(&Sha256::digest(bytes));
        if found == digest.trim() { Ok(()) } else { Err(format!("{jar} has digest {found}, not the pinned one")) }
    })?;
    Ok(done.join(jar))
}

/// The jars of a program, of a Maven project that names its version: `cassandra`, `zookeeper`.
pub fn jars(name: &str) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(name);
    let project = fs::read_to_string(source.join("pom.xml")).map_err(|e| format!("pom.xml of {name}: {e}"))?;
    let done = cache().join(format!("{name}-{}", hex(&Sha256::digest(project)[..8])));
    made_once(&done, name, |making| fetch(&source, making, &[]))?;
    Ok(done)
}

/// Has Maven copy what a project depends on into a folder.
fn fetch(project: &Path, folder: &Path, more: &[&str]) -> Result<(), String> {
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies"]).args(more);
    maven.arg(format!("-DoutputDirectory={}", folder.display())).current_dir(project);
    let output = maven.output().map_err(|e| format!("cannot run mvn ({e}); install Maven and put it on PATH"))?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stdout);
        return Err(format!("fetching what {} names failed:\n{printed}", project.display()));
    }
    Ok(())
}

/// Builds the modules of these folders; all of them, and the crates, when none is named.
pub fn prepare(folders: &[&str]) -> Result<(), String> {
    let wanted = |module: &&Module| folders.is_empty() || folders.contains(&module.folder);
    MODULES.iter().filter(wanted).try_for_each(|module| build(module).map(drop))?;
    let crates = CRATES.iter().filter(|_| folders.is_empty());
    crates.into_iter().try_for_each(|(name, _)| crate_tool(name).map(drop))?;
    if !folders.is_empty() {
        return Ok(());
    }
    exporter()?;
    ["cassandra", "zookeeper"].into_iter().try_for_each(|name| jars(name).map(drop))
}

/// Makes a folder of the cache, once; what fails leaves nothing.
pub(crate) fn made_once(done: &Path, name: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    if done.is_dir() {
        return Ok(());
    }
    let root = cache();
    fs::create_dir_all(&root)
        .map_err(|e| format!("cannot make {}: {e}; set RIG_CACHE to a folder that can be written", root.display()))?;
    // Two test processes may want the same: one makes it, the other waits.
    let lock = File::create(root.join(format!("{name}.lock"))).map_err(|e| e.to_string())?;
    lock.lock().map_err(|e| e.to_string())?;
    if done.is_dir() {
        return Ok(());
    }
    enough_disk(&root)?;
    eprintln!("building {name} from its source (once; a few minutes)");
    let making = done.with_extension(std::process::id().to_string());
    fs::create_dir_all(&making).map_err(|e| e.to_string())?;
    if let Err(why) = make(&making) {
        let _ = fs::remove_dir_all(&making);
        return Err(why);
    }
    fs::rename(&making, done).map_err(|e| e.to_string())
}

/// Where caches of the rig are: `RIG_CACHE`, otherwise the user's cache folder.
#[must_use]
pub fn cache() -> PathBuf {
    let user = || {
        std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
    };
    std::env::var_os("RIG_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(user()?.join("oneagent-operator-rig")))
        .unwrap_or_else(|| std::env::temp_dir().join("oneagent-operator-rig"))
}

fn build(module: &Module) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(module.folder);
    let read = |name: &str| fs::read_to_string(source.join(name)).unwrap_or_default();
    let go = go_version()?;
    let flags = format!("-s -w {}", read("flags").trim());
    let tags = read("tags").trim().to_owned();
    let kept: Vec<&str> = module.files.iter().flat_map(|(_, path, name)| [*path, *name]).collect();
    let key = [go.as_str(), &read("go.mod"), &read("go.sum"), &flags, &tags]
        .iter()
        .chain(&kept)
        .fold(Sha256::new(), |hash, part| hash.chain_update(part.len().to_le_bytes()).chain_update(part));
    let key: String = hex(&key.finalize()[..8]);
    let done = cache().join(format!("{}-{key}", module.folder));
    made_once(&done, module.folder, |making| compile(module, &source, making, &flags, &tags))?;
    Ok(done)
}

fn compile(module: &Module, source: &Path, making: &Path, flags: &str, tags: &str) -> Result<(), String> {
    let mut go = Command::new("go");
    if module.programs.is_empty() {
        go.args(["mod", "download"]).args(module.files.iter().map(|(from, _, _)| *from));
    } else {
        go.args(["build", "-trimpath", "-ldflags", flags, "-tags", tags, "-o"])
            .arg(format!("{}/", making.display()))
            .arg("tool");
    }
    let output = go
        .current_dir(source)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false -mod=readonly")
        .output()
        .map_err(|e| format!("cannot run go: {e}"))?;
    if !output.status.success() {
        return Err(format!("building {} failed:\n{}", module.folder, String::from_utf8_lossy(&output.stderr)));
    }
    for (built, used) in module.programs {
        if built != used {
            fs::rename(making.join(built), making.join(used)).map_err(|e| format!("{built} was not built: {e}"))?;
        }
    }
    module.files.iter().try_for_each(|(from, path, name)| copy(source, from, path, &making.join(name)))
}

/// Copies a file or a folder out of a module; they are read-only there.
fn copy(source: &Path, module: &str, path: &str, to: &Path) -> Result<(), String> {
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", module])
        .current_dir(source)
        .output()
        .map_err(|e| e.to_string())?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let copied = Command::new("cp")
        .args(["-r", "--no-preserve=mode"])
        .arg(folder.join(path))
        .arg(to)
        .output()
        .map_err(|e| e.to_string())?;
    if copied.status.success() {
        Ok(())
    } else {
        Err(format!("{path} of {module}: {}", String::from_utf8_lossy(&copied.stderr)))
    }
}

fn go_version() -> Result<String, String> {
    let output = Command::new("go").args(["env", "GOVERSION"]).output();
    let output = output.map_err(|e| {
        format!(
            "Go is needed to build the control plane and was not found ({e}); install Go 1.26 or \
            newer and put it on PATH"
        )
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Says so before a build fails in the middle.
fn enough_disk(folder: &Path) -> Result<(), String> {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output().map_err(|e| e.to_string())?;
    let free = String::from_utf8_lossy(&output.stdout).lines().nth(1).and_then(|line| line.trim().parse::<u64>().ok());
    match free {
        Some(free) if free < DISK => Err(format!(
            "{} has {} MiB free; building the control plane needs about {} MiB: free some, or set RIG_CACHE",
            folder.display(),
            free >> 20,
            DISK >> 20
        )),
        _ => Ok(()),
    }
}
