//! Signs images that were pushed, with cosign, and attests what they were made from.
//!
//! Attested are the provenance that was noted when the image was built, and the list of the operator's dependencies.
//! Nothing is written to a transparency log unless TLOG=true. Must not sign a tag: it can move.

use std::path::{Path, PathBuf};
use std::process::Command;

use oneagent_operator::olm::signatures::KEY;

use super::registry;
use super::run;
use crate::tools::{crate_tool, tool};

/// What is attested of an image: the predicate's type, as cosign names it, and the file that has it.
pub type Attestation = (&'static str, PathBuf);

/// What an image was made from.
pub const PROVENANCE: &str = "slsaprovenance1";
/// What a program depends on.
pub const DEPENDENCIES: &str = "cyclonedx";

/// A key, as cosign names it: a file of `cosign generate-key-pair`, or one of a KMS.
pub struct Signer(String);

impl Signer {
    /// Refuses a key that is missing, or not the one that the repository's policies name, before the first push.
    pub fn new(root: &Path, key: &str) -> Result<Self, String> {
        // Keys of a KMS have a scheme.
        let is_file = !key.contains("://");
        if is_file && !Path::new(key).is_file() {
            return Err(format!("the key {key} is not there: `make key` makes one, or name a key of a KMS"));
        }
        if is_file && std::env::var_os("COSIGN_PASSWORD").is_none() {
            return Err(format!("COSIGN_PASSWORD is missing: set it to the password of {key}, for it is used often"));
        }
        let Ok(known) = std::fs::read_to_string(root.join(KEY)) else { return Ok(Self(key.to_owned())) };
        let own = run("reading the key", Command::new(tool("cosign")).args(["public-key", "--key", key]))?;
        if own.trim() == known.trim() {
            return Ok(Self(key.to_owned()));
        }
        Err(format!(
            "{key} does not belong to {KEY}, which users and the policies in config/ check signatures with: sign with \
            the key of step 2 in docs/release.md"
        ))
    }

    fn cosign(&self, verb: &str) -> Command {
        let mut command = Command::new(tool("cosign"));
        let log = std::env::var("TLOG").unwrap_or_else(|_| "false".into());
        command.args([verb, "--key", &self.0, "--yes", &format!("--tlog-upload={log}")]);
        command
    }

    /// Attests to an image by its digest and signs it, unless it is signed.
    pub fn sign(&self, name: &str, digest: &str, attestations: &[Attestation]) -> Result<(), String> {
        if is_signed(name, digest)? {
            return Ok(());
        }
        let image = &format!("{name}@{digest}");
        // A registry without TLS, as a test has it.
        let plain = image.starts_with("127.0.0.1:").then_some("--allow-http-registry");
        // The signature comes last: where it is, all of it is.
        for (kind, predicate) in attestations {
            let mut attest = self.cosign("attest");
            attest.args(plain).args(["--type", kind, "--predicate"]).arg(predicate);
            run(&format!("attesting {kind} of {image}"), attest.arg(image))?;
        }
        run(&format!("signing {image}"), self.cosign("sign").args(plain).args(["--recursive", image])).map(drop)
    }
}

/// Whether an image has a signature.
pub fn is_signed(name: &str, digest: &str) -> Result<bool, String> {
    Ok(registry::digest(&format!("{name}:{}.sig", digest.replace(':', "-")))?.is_some())
}

/// Makes a key pair; cosign asks for the password of the private half.
pub fn key(root: &Path, folder: &Path) -> Result<(), String> {
    let public = root.join(KEY);
    if public.exists() {
        return Err(format!("{KEY} is there already: what it signed could not be checked any more; remove it first"));
    }
    let inside = |path: &Path| Some(path.canonicalize().ok()?.starts_with(root.canonicalize().ok()?));
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    if inside(folder) != Some(false) {
        return Err(format!("{} is in the repository, and would be published: name another folder", folder.display()));
    }
    let status = Command::new(tool("cosign")).arg("generate-key-pair").current_dir(folder).status();
    if !status.map_err(|error| format!("cannot run cosign: {error}"))?.success() {
        return Err("cosign made no key".into());
    }
    std::fs::copy(folder.join("cosign.pub"), &public).map_err(|error| format!("cannot write {KEY}: {error}"))?;
    println!(
        "{} is the private half: keep it and its password; {KEY} is the public one: commit it",
        folder.join("cosign.key").display()
    );
    Ok(())
}

/// The dependencies of the operator, as CycloneDX lists them.
pub fn dependencies(source: &Path, work: &Path) -> Result<Attestation, String> {
    if let Some(named) = std::env::var_os("SBOM").filter(|named| !named.is_empty()) {
        return Ok((DEPENDENCIES, named.into()));
    }
    let program = crate_tool("cargo-cyclonedx")?;
    let mut command = Command::new(program);
    command.args(["cyclonedx", "--quiet", "--format", "json", "--override-filename", "bom", "--manifest-path"]);
    run("listing the dependencies", command.arg(source.join("Cargo.toml")).current_dir(source))?;
    let to = work.join("bom.json");
    std::fs::rename(source.join("bom.json"), &to).map_err(|error| format!("the list of dependencies: {error}"))?;
    let _ = std::fs::remove_file(source.join("olm-tests/bom.json"));
    Ok((DEPENDENCIES, to))
}
