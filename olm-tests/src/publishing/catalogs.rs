//! The images of a catalog: its content alone, and with a server and its cache.
//!
//! A catalog has a tag for each content, and the tags that users follow: only these move. Must not know what is in it.

use std::path::PathBuf;
use std::process::Command;

use oneagent_operator::api::PACKAGES;
use oneagent_operator::olm::manifests::PRODUCT;
use oneagent_operator::olm::publisher::Publisher;

use super::builder::{Builder, Layout, Source};
use super::registry::Target;
use super::sign::{PROVENANCE, Signer};
use super::{registry, run};
use crate::tools::tool;

/// The label by which a catalog that serves itself says what it serves: its cache differs from build to build.
const CONTENT: &str = "org.opencontainers.image.base.digest";

/// The two images of a catalog.
pub struct Catalogs<'a> {
    pub builder: &'a Builder,
    pub publisher: &'a Publisher,
    pub source: &'a Source,
    pub folder: PathBuf,
    pub version: &'a str,
}

impl Catalogs<'_> {
    /// Pushes the catalog, without a server and with one, and lets the tags follow that users follow.
    pub fn push(&self, opm: Option<&str>, follow: &[&str], signer: Option<&Signer>) -> Result<(), String> {
        let name = format!("{PRODUCT}-catalog");
        let content = format!("{name}-content");
        let built =
            self.builder.image(&content, &self.folder.join("Containerfile.content"), &self.folder, self.source, &[])?;
        self.put(&content, &built.digest, Some(&built), follow, signer)?;
        if opm == Some("none") {
            println!("the catalog that serves itself is left out");
            return Ok(());
        }
        // What is there and serves the same stays as it is: clusters would load it once more.
        let base = opm.unwrap_or(&self.publisher.bases.opm);
        let serves = format!("{} on {base}", built.digest);
        for tag in follow {
            let followed = format!("{}:{tag}", self.publisher.image(&name));
            if let Some(digest) = registry::digest(&followed)?
                && registry::label(&followed, CONTENT)?.as_deref() == Some(&serves)
            {
                return self.put(&name, &digest, None, follow, signer);
            }
        }
        let label = format!("{CONTENT}={serves}");
        let (argument, stage) = (format!("OPM={base}"), format!("cache={}", self.cache()?.display()));
        let mut args = vec!["--build-context", &stage, "--build-arg", &argument, "--label", &label];
        args.extend(base.starts_with("127.0.0.1:").then_some("--tls-verify=false"));
        let refused = |why| format!("{why}; name an image that has /bin/opm in OPM_IMAGE, or none to leave it out");
        let layout = self.builder.image(&name, &self.folder.join("Containerfile"), &self.folder, self.source, &args);
        let layout = layout.map_err(refused)?;
        self.put(&name, &layout.digest, Some(&layout), follow, signer)
    }

    /// The catalog with opm's cache of it, in the place of stage `cache`: made here, it needs no base that runs here.
    fn cache(&self) -> Result<PathBuf, String> {
        let stage = self.builder.work().join("cache");
        let (configs, cache) = (stage.join("configs"), stage.join("tmp/cache"));
        let _ = std::fs::remove_dir_all(&stage);
        std::fs::create_dir_all(&configs).map_err(|error| format!("cannot make {}: {error}", configs.display()))?;
        std::fs::create_dir_all(stage.join("tmp")).map_err(|error| error.to_string())?;
        for package in PACKAGES.iter().map(|package| self.folder.join(package.name)).filter(|folder| folder.is_dir()) {
            run("copying the catalog", Command::new("cp").arg("-r").arg(package).arg(&configs))?;
        }
        let mut opm = Command::new(tool("opm"));
        opm.arg("serve").arg(&configs).arg("--cache-only").arg("--cache-dir").arg(&cache);
        opm.args(["--pprof-addr", "", "--termination-log"]).arg(stage.join("tmp/log"));
        run("making opm's cache", &mut opm)?;
        let _ = std::fs::remove_file(stage.join("tmp/log"));
        // Clusters run it as any user.
        run("chmod", Command::new("chmod").args(["-R", "a+rX"]).arg(&stage))?;
        stage.canonicalize().map_err(|error| error.to_string())
    }

    fn put(
        &self,
        name: &str,
        digest: &str,
        layout: Option<&Layout>,
        follow: &[&str],
        signer: Option<&Signer>,
    ) -> Result<(), String> {
        // By its content, too: a catalog of one version may come again, with a deprecation.
        let short: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
        let target = Target { name: self.publisher.image(name), tag: format!("{}-{short}", self.version) };
        if let Some(layout) = layout {
            target.push(layout)?;
            let attestation = (PROVENANCE, self.builder.provenance(digest));
            signer.map_or(Ok(()), |signer| signer.sign(&target.name, digest, &[attestation]))?;
        }
        for tag in follow {
            target.follow(tag, digest)?;
        }
        println!("{}", target.at(digest));
        Ok(())
    }
}
