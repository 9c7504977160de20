//! The operator's images, made once and pushed where all clusters of this process pull them from.
//!
//! Must not know of releases: `catalog` does.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use tokio::sync::OnceCell;

use super::PACKAGE;
use crate::cluster::repository;
use crate::images::{Config, Registry, said};

/// The operator's images, by version: the same in every cluster, and each costs seconds to make.
pub(super) struct Operators {
    registry: Registry,
    images: Mutex<BTreeMap<String, String>>,
}

impl Operators {
    pub(super) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Operators> = OnceCell::const_new();
        SHARED.get_or_init(async || Self { registry: Registry::start().await, images: Mutex::default() }).await
    }

    /// The operator's image of a version, pushed.
    pub(super) fn image(&self, version: &str, binary: &Path) -> String {
        // Held until it is pushed: another test wants the same.
        let mut images = self.images.lock().expect("images");
        if let Some(image) = images.get(version) {
            return image.clone();
        }
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("licenses")).expect("a folder");
        std::fs::copy(repository("LICENSE"), root.path().join("licenses/LICENSE")).expect("the license");
        // Symbols would be most of the image.
        said(Command::new("strip").arg("-o").arg(root.path().join("oneagent-operator")).arg(binary));
        let config = Config {
            labels: vec![("version".into(), version.into())],
            entrypoint: Some("/oneagent-operator".into()),
            user: Some("65532:65532".into()),
        };
        let name = format!("{PACKAGE}:{version}");
        let image = self.registry.push(&name, root.path(), &["licenses", PACKAGE], &config);
        images.insert(version.to_owned(), image.clone());
        image
    }
}
