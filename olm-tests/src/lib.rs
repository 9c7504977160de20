//! The rig: a real control plane on loopback, a fake fleet on it, a vendor stand-in, and the operator as a process.
//!
//! What runs here is real wherever it can be had: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
//! kubectl and the operator's own binary. Fake are the kubelets (there are no machines) and the vendor (there is no
//! network); both are shown to behave like the real ones as far as the operator can see. Needs Go, no root.
//! Everything started here ends with the process that started it, however that ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a rig that cannot go on stops its test")]
#![allow(clippy::missing_panics_doc, reason = "see above")]

pub mod audit;
pub mod browser;
pub mod catalogs;
pub mod checkout;
pub mod clients;
pub mod cluster;
pub mod control_plane;
pub mod debian;
pub mod eyes;
pub mod front;
pub mod gate;
pub mod images;
pub mod jvm;
pub mod kubelet;
pub mod lab;
pub mod launcher;
pub mod lint;
pub mod nodes;
pub mod olm;
pub mod openshift;
pub mod operator;
pub mod original;
pub mod pages;
pub mod pki;
pub mod process;
pub mod programs;
pub mod pty;
pub mod publishing;
pub mod reference;
pub mod relay;
pub mod sandbox;
pub mod tools;
pub mod vendor;
pub mod wait;
pub mod watched;
pub mod webapp;
pub mod webhook;
pub mod zookeeper;

use std::sync::OnceLock;

use tokio::runtime::Runtime;

pub use wait::eventually;

/// The one runtime of a test process: what tests share must not end with the test that began it.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime")
    })
}

/// Runs a test on the shared runtime.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    runtime().block_on(test)
}
