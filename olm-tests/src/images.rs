//! Images and a registry for them: really pushed, really pulled, on loopback.
//!
//! crane puts an image together from files; nothing is run to build one. Must not know what an image is for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::control_plane::{scratch, tail};
use crate::operator::free_address;
use crate::process::Process;
use crate::tools::tool;

/// A registry. What it holds ends with it.
pub struct Registry {
    address: String,
    folder: TempDir,
    _process: Process,
}

/// What an image is like beside its files.
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub labels: Vec<(String, String)>,
    pub entrypoint: Option<String>,
    pub user: Option<String>,
}

impl Registry {
    /// Starts one and waits until it answers.
    pub async fn start() -> Self {
        let folder = scratch();
        let address = free_address();
        let args = ["registry", "serve", "--address", &address, "--disk", &folder.path().display().to_string()]
            .map(str::to_owned);
        let process = Process::start("registry", &tool("crane"), &args, &[], &folder.path().join("registry.log"));
        for _ in 0..200 {
            if crate::operator::get(&address, "/v2/").await.is_some_and(|(code, _)| code == 200) {
                return Self { address, folder, _process: process };
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("the registry does not answer:\n{}", tail(&folder.path().join("registry.log")))
    }

    /// Where it is: host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A reference to a repository and tag of it.
    #[must_use]
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Pushes an image with the entries of `root` named `paths`; returns the reference by digest.
    ///
    /// The same files give the same digest: times and owners are left out.
    #[must_use]
    pub fn push(&self, name: &str, root: &Path, paths: &[&str], config: &Config) -> String {
        let layer = self.folder.path().join(format!("{}.tar", name.replace(['/', ':'], "-")));
        let reference = self.reference(name);
        let tar = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=a+rX"];
        said(Command::new("tar").args(tar).arg("-C").arg(root).arg("-cf").arg(&layer).args(paths));
        let crane = || Command::new(tool("crane"));
        said(crane().args(["append", "--oci-empty-base", "-t", &reference, "-f"]).arg(&layer));
        let mut mutate = crane();
        mutate.args(["mutate", "--set-platform", "linux/amd64", "-t", &reference]);
        for (key, value) in &config.labels {
            mutate.arg("--label").arg(format!("{key}={value}"));
        }
        if let Some(entrypoint) = &config.entrypoint {
            mutate.args(["--entrypoint", entrypoint]);
        }
        if let Some(user) = &config.user {
            mutate.args(["--user", user]);
        }
        let _ = std::fs::remove_file(&layer);
        said(mutate.arg(&reference)).trim().to_owned()
    }
}

/// Unpacks an image into a folder; `Err` is what a kubelet would say.
pub fn pull(image: &str, into: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(into).map_err(|e| e.to_string())?;
    let tar = into.join(".image.tar");
    let output = Command::new(tool("crane")).args(["export", image]).arg(&tar).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let output = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(into).output().map_err(|e| e.to_string())?;
    let _ = std::fs::remove_file(&tar);
    if output.status.success() {
        Ok(into.to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// A HOME with which opm pulls: it wants to be told that images need no signature.
#[must_use]
pub fn home() -> TempDir {
    let home = TempDir::with_prefix("oneagent-home-").expect("a temporary folder");
    let folder = home.path().join(".config/containers");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("policy.json"), r#"{"default":[{"type":"insecureAcceptAnything"}]}"#).expect("a file");
    home
}

/// Runs a command; what it printed. Fails with what it said.
pub fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
