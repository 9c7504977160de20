//! What OLM's Pods run: the operator's binary out of its image, and the work of OLM's unpack Jobs.
//!
//! Used by the fake kubelet. Must not know what a test wants of them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use oneagent_operator::api::PACKAGES;

use crate::catalogs::{Catalogs, is_catalog};
use crate::operator::{Operator, binary, get, token};
use crate::webapp::Containers;

/// Starts programs of ours, and of OLM's, for their Pods.
pub struct Launcher {
    folder: PathBuf,
    /// Kubeconfig with all rights, for what replaces a Pod's own.
    admin: PathBuf,
    /// Makes a kubeconfig from the path of a token.
    kubeconfig: Box<dyn Fn(&Path) -> String + Send + Sync>,
    /// Settings on top of the Pod's own.
    extra: Vec<(String, String)>,
    running: Arc<Mutex<HashMap<String, Operator>>>,
    /// Processes of applications.
    containers: Containers,
    images: Images,
    /// Processes of catalogs.
    catalogs: Catalogs,
}

/// Where a node pulls images from, as an ImageDigestMirrorSet configures it; and what it pulled.
#[derive(Debug, Clone, Default)]
pub struct Images {
    mirrors: Arc<Mutex<Vec<(String, String)>>>,
    pulled: Arc<Mutex<Vec<String>>>,
    /// Held while an operator's image is pulled: no test starts a program that is still being written.
    pulling: Arc<tokio::sync::Mutex<()>>,
}

impl Images {
    /// Images of this source, by digest, are pulled from the mirror alone.
    pub fn mirror(&self, source: &str, mirror: &str) {
        self.mirrors.lock().expect("mirrors").push((source.to_owned(), mirror.to_owned()));
    }

    /// Where each image came from that was pulled.
    #[must_use]
    pub fn pulled(&self) -> Vec<String> {
        self.pulled.lock().expect("images").clone()
    }

    /// Where an image is pulled from.
    #[must_use]
    pub fn resolve(&self, image: &str) -> String {
        let mirrors = self.mirrors.lock().expect("mirrors");
        let found = mirrors
            .iter()
            .filter(|_| image.contains('@'))
            .find_map(|(source, mirror)| Some(format!("{mirror}/{}", image.strip_prefix(source)?.strip_prefix('/')?)));
        found.unwrap_or_else(|| image.to_owned())
    }

    fn pull(&self, image: &str, into: &Path) -> Result<PathBuf, String> {
        let image = self.resolve(image);
        self.pulled.lock().expect("images").push(image.clone());
        crate::images::pull(&image, into)
    }
}

impl Launcher {
    /// In a folder; `extra` settings go on top of the Pod's own.
    pub fn new(
        folder: PathBuf,
        admin: PathBuf,
        kubeconfig: impl Fn(&Path) -> String + Send + Sync + 'static,
        extra: Vec<(String, String)>,
    ) -> Self {
        Self {
            folder,
            admin,
            kubeconfig: Box::new(kubeconfig),
            extra,
            running: Arc::default(),
            containers: Containers::default(),
            images: Images::default(),
            catalogs: Catalogs::default(),
        }
    }

    /// The catalogs that run as Pods.
    #[must_use]
    pub fn catalogs(&self) -> &Catalogs {
        &self.catalogs
    }

    /// Starts the catalog of a CatalogSource's Pod; returns the digest of its image. `None`: the Pod is another.
    pub async fn catalog(&self, pod: &Pod) -> Option<Result<String, String>> {
        if !is_catalog(pod) {
            return None;
        }
        let (catalogs, folder, pod) = (self.catalogs.clone(), self.folder.clone(), pod.clone());
        let started = tokio::task::spawn_blocking(move || catalogs.start(&folder, &pod)).await;
        Some(started.unwrap_or_else(|e| Err(e.to_string())))
    }

    /// Where images are pulled from.
    #[must_use]
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Does the work of OLM's unpack Job: pulls the bundle image and runs the Pod's own command on what is in it.
    /// `None`: the Pod is another.
    pub async fn unpack(&self, pod: &Pod) -> Option<Result<(), String>> {
        let name = pod.labels().get("operatorframework.io/bundle-unpack-ref")?.clone();
        let spec = pod.spec.as_ref()?;
        let image = spec.init_containers.as_ref()?.iter().find(|c| c.name == "pull")?.image.clone()?;
        let extract = spec.containers.iter().find(|c| c.name == "extract")?.clone();
        let into = self.folder.join(format!("unpack-{}", pod.uid().unwrap_or_default()));
        let kubeconfig = self.admin.clone();
        let images = self.images.clone();
        let work = move || {
            let folder = images.pull(&image, &into)?;
            // The Pod's command, with the folder of the image in place of the volume.
            let args: Vec<String> =
                extract.command.into_iter().flatten().chain(extract.args.into_iter().flatten()).skip(1).collect();
            let args = args.into_iter().map(|a| if a == "/bundle/" { format!("{}/", folder.display()) } else { a });
            let output = std::process::Command::new(crate::tools::tool("opm"))
                .args(args)
                .env("KUBECONFIG", kubeconfig)
                .env("CONTAINER_IMAGE", &image)
                .output()
                .map_err(|e| e.to_string())?;
            let _ = std::fs::remove_dir_all(&folder);
            if output.status.success() {
                Ok(())
            } else {
                Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)))
            }
        };
        Some(tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(e.to_string())))
    }

    /// Whether a Pod is the operator's own.
    #[must_use]
    pub fn is_operator(&self, pod: &Pod) -> bool {
        let name = pod.labels().get("app.kubernetes.io/name");
        name.is_some_and(|name| PACKAGES.iter().any(|package| package.name == name))
    }

    /// The binary of an image of ours: out of the registry if it is there, otherwise the one that was just built.
    async fn binary(&self, image: &str) -> Result<PathBuf, String> {
        if !self.images.resolve(image).starts_with("127.0.0.1:") {
            return Ok(binary());
        }
        let into = self.folder.join(format!("image-{}", image.replace(['/', ':', '@'], "-")));
        let program = into.join("oneagent-operator");
        let _alone = self.images.pulling.lock().await;
        if !program.exists() {
            let (images, image) = (self.images.clone(), image.to_owned());
            tokio::task::spawn_blocking(move || images.pull(&image, &into)).await.map_err(|e| e.to_string())??;
        }
        Ok(program)
    }

    /// Starts the binary of the Pod's image with the Pod's environment and its ServiceAccount's token; returns when it
    /// is ready. `Err`: the image cannot be had.
    pub async fn launch(&self, client: &Client, pod: &Pod) -> Result<(), String> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let spec = pod.spec.as_ref().expect("a spec");
        let token =
            token(client, &namespace, spec.service_account_name.as_deref().unwrap_or("default"), Some(pod)).await;
        let token_file = self.folder.join(format!("{name}.token"));
        std::fs::write(&token_file, token).expect("a token file");
        let field = |path: &str| match path {
            "metadata.name" => name.clone(),
            "metadata.namespace" => namespace.clone(),
            "metadata.uid" => pod.uid().unwrap_or_default(),
            "metadata.annotations['olm.targetNamespaces']" => {
                pod.annotations().get("olm.targetNamespaces").cloned().unwrap_or_default()
            }
            other => panic!("the fake kubelet does not know field {other}"),
        };
        let env = spec.containers[0].env.iter().flatten().map(|e| {
            let from = e.value_from.as_ref().and_then(|v| v.field_ref.as_ref()).map(|f| field(&f.field_path));
            (e.name.clone(), e.value.clone().or(from).unwrap_or_default())
        });
        let env: Vec<(String, String)> = env.chain(self.extra.iter().cloned()).collect();
        let binary = self.binary(spec.containers[0].image.as_deref().unwrap_or_default()).await?;
        let args: Vec<&str> = spec.containers[0].args.iter().flatten().map(String::as_str).collect();
        let kubeconfig = (self.kubeconfig)(&token_file);
        let operator = Operator::start_binary(&binary, &self.folder, &name, &args, &kubeconfig, &env);
        let address = operator.address.clone();
        self.running.lock().expect("operators").insert(pod.uid().unwrap_or_default(), operator);
        // The readiness probe, as the Pod has it.
        for _ in 0..300 {
            if get(&address, "/readyz").await.is_some_and(|(code, _)| code == 200) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Starts the process of an application's Pod; returns its address. `None`: it has none.
    pub async fn serve(&self, pod: &Pod, environment: &BTreeMap<String, String>) -> Option<String> {
        self.containers.start(&self.folder, pod, environment).await
    }

    /// Ends the process of a Pod as a kubelet does: TERM, and KILL after the grace period.
    pub async fn stop(&self, pod: &Pod) {
        self.containers.stop(pod).await;
        self.catalogs.stop(pod);
        let operator = self.running.lock().expect("operators").remove(&pod.uid().unwrap_or_default());
        let Some(mut operator) = operator else { return };
        operator.process.signal("TERM");
        for _ in 0..200 {
            if operator.process.ended().is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Does something with every running operator.
    pub fn each<T>(&self, act: impl FnMut(&mut Operator) -> T) -> Vec<T> {
        self.running.lock().expect("operators").values_mut().map(act).collect()
    }
}
