//! `run`: the operator itself. Every setting is a flag and an environment variable of the same name.
//!
//! Lifetime of a kind's process: logs, probes, watches, lease, controllers, and an orderly end. What a kind is made of
//! is in a file of its own. Must not reconcile anything.

mod gate;

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::ValueEnum;
use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::duration::duration;
use super::oneagent::run::OneAgentArgs;
use super::table::choose;
use crate::backoff;
use crate::clock::Clock;
use crate::config_watcher::ConfigWatchers;
use crate::daemonset_rollout::DaemonSetRollouts;
use crate::jmx_exporter::{self, JmxExporters};
use crate::kernel::feed::Feed;
use crate::kernel::kind::{Kind, Process, Shared};
use crate::kernel::lease::{Candidate, Timing};
use crate::kernel::runtime::Runtime;
use crate::kernel::sync::{Scope, Synced, Watches};
use crate::kernel::triggers::Triggers;
use crate::kernel::{self, Access, ApiContact, Reference};
use crate::manager::Managers;
use crate::telemetry::{self, Health, LogFormat, Metrics, Rollouts};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Kind of objects to reconcile. Each kind has a package of its own, with only the rights that it needs.
    #[arg(long, env = "KIND", value_enum, default_value_t)]
    kind: KindName,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    oneagent: OneAgentArgs,
    /// With --kind jmxexporter: the operator's own image, for the containers that join Pods. OLM and the manifests set
    /// it.
    #[arg(long, env = "OPERATOR_IMAGE", default_value = "")]
    operator_image: String,
    /// With --kind manager: file with the table of a stack's components. Default: the one in the program.
    #[arg(long, env = "TABLE", value_name = "FILE")]
    table: Option<PathBuf>,
}

/// What every kind's process is told.
#[derive(Debug, clap::Args)]
struct Common {
    /// Namespaces to watch, separated by commas. Empty: all. With OLM it is annotation olm.targetNamespaces.
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "")]
    watch_namespace: String,
    /// Namespace of the operator itself: its Lease and its stop ConfigMap are there. Default: the package's, such as
    /// dynatrace.
    #[arg(long, env = "POD_NAMESPACE")]
    pod_namespace: Option<String>,
    /// Name of the operator's Pod. Together with its UID it is the identity in the Lease. Default: the package's name.
    #[arg(long, env = "POD_NAME")]
    pod_name: Option<String>,
    /// UID of the operator's Pod.
    #[arg(long, env = "POD_UID", default_value = "")]
    pod_uid: String,
    /// Name of OLM's OperatorCondition. OLM v0 sets it. Empty: there is none.
    #[arg(long, env = "OPERATOR_CONDITION_NAME", default_value = "")]
    operator_condition_name: String,
    /// Address that serves probes (/livez, /readyz) and metrics (/metrics).
    #[arg(long, env = "LISTEN_ADDRESS", default_value = "0.0.0.0:8080")]
    listen_address: SocketAddr,
    /// Folder with tls.crt and tls.key. With it metrics are served over TLS only, to clients that may get /metrics, and
    /// not at --listen-address.
    #[arg(long, env = "SECURE_METRICS_CERTIFICATES", value_name = "FOLDER")]
    secure_metrics_certificates: Option<PathBuf>,
    /// Address that serves metrics over TLS.
    #[arg(long, env = "SECURE_METRICS_ADDRESS", default_value = "0.0.0.0:8443")]
    secure_metrics_address: SocketAddr,
    /// How long a lease that is not renewed stays valid.
    #[arg(long, env = "LEASE_DURATION", default_value = "137s", value_parser = duration)]
    lease_duration: Duration,
    /// For how long the leader tries to renew the lease before it exits.
    #[arg(long, env = "LEASE_RENEW_DEADLINE", default_value = "107s", value_parser = duration)]
    lease_renew_deadline: Duration,
    /// How often the lease is renewed.
    #[arg(long, env = "LEASE_RETRY_PERIOD", default_value = "26s", value_parser = duration)]
    lease_retry_period: Duration,
    /// error, warn, info, debug or trace, or a list such as info,kube=debug.
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    log_level: String,
    /// How a log line looks.
    #[arg(long, env = "LOG_FORMAT", default_value = "json", value_enum)]
    log_format: LogFormat,
}

/// The kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum KindName {
    /// OneAgents, in package oneagent-operator.
    #[default]
    Oneagent,
    /// ConfigWatchers, in package configwatcher-operator.
    Configwatcher,
    /// PrometheusJmxExporters, in package jmx-exporter-operator.
    Jmxexporter,
    /// Managers, in package tf-operator.
    Manager,
    /// DaemonSetRollouts, in package daemonset-rollout-operator.
    Daemonsetrollout,
}

type Stop = futures::future::Shared<futures::future::BoxFuture<'static, ()>>;

pub(super) async fn run(args: Args) -> Result<(), String> {
    let Args { kind, common, oneagent, operator_image, table } = args;
    match kind {
        KindName::Oneagent => Box::pin(serve(&common, |shared, triggers| oneagent.kind(shared, triggers))).await,
        KindName::Configwatcher => {
            Box::pin(serve(&common, |shared, _| ConfigWatchers::new(shared.clock.clone()))).await
        }
        KindName::Jmxexporter => {
            let kind = |shared: &Shared| {
                JmxExporters::new(operator_image, jmx_exporter::metrics::OwnMetrics::new(&shared.metrics))
            };
            Box::pin(serve(&common, |shared, _| kind(shared))).await
        }
        KindName::Daemonsetrollout => {
            let kind =
                |shared: &Shared| DaemonSetRollouts::new(shared.clock.clone(), Rollouts::registered(&shared.metrics));
            Box::pin(serve(&common, |shared, _| kind(shared))).await
        }
        KindName::Manager => {
            choose(table.as_deref())?;
            Box::pin(serve(&common, |_, _| Managers::default())).await
        }
    }
}

async fn serve<K: Kind>(args: &Common, make: impl FnOnce(&Shared, &Triggers) -> K) -> Result<(), String> {
    telemetry::start_logs(&args.log_level, args.log_format)?;
    let timing = Timing {
        duration: args.lease_duration,
        renew_deadline: args.lease_renew_deadline,
        retry_period: args.lease_retry_period,
    };
    if !(timing.retry_period < timing.renew_deadline && timing.renew_deadline < timing.duration) {
        return Err(
            "--lease-retry-period must be shorter than --lease-renew-deadline, and that shorter than --lease-duration"
                .to_owned(),
        );
    }
    let scope =
        Scope(args.watch_namespace.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect());
    let stop = stop_signal()?;
    let clock = Clock::default();
    let client = kernel::reach(&Access::default(), &clock).await?.client;
    let (triggers, receivers) = Triggers::new(&scope);
    let pod = args.pod_name.clone().unwrap_or_else(|| K::PACKAGE.name.to_owned());
    let namespace = args.pod_namespace.clone().unwrap_or_else(|| K::PACKAGE.namespace.to_owned());
    let (tell_named, named) = mpsc::unbounded_channel();
    let contact = Arc::new(ApiContact::new(clock.clone(), timing.retry_period));
    let identity = identity(&pod, &args.pod_uid);
    let process = Process {
        client: client.clone(),
        clock: clock.clone(),
        namespace: namespace.clone(),
        pod,
        contact: contact.clone(),
    };
    let shared = Arc::new(Shared::new::<K>(process, tell_named));
    let kind = Arc::new(make(&shared, &triggers));
    tokio::spawn(wake(shared.clone(), named, triggers.clone()));
    let status = Arc::new(Readiness {
        of: PhantomData::<K>,
        shared: shared.clone(),
        synced: OnceLock::new(),
        crd: Mutex::new(false),
    });
    let probes = serve_pages(args, &client, status.clone());
    tracing::info!(version = env!("CARGO_PKG_VERSION"), namespaces = args.watch_namespace, "started");

    let work = async {
        tokio::select! {
            () = wait_for_crd::<K>(&client, &scope, &status) => {}
            () = stop.clone() => return Ok(()),
        }
        let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
        let candidate = Candidate::new(leases, K::PACKAGE.name, &identity, &scope.0.join(","), timing, contact);
        let tell_olm = async {
            let condition = &args.operator_condition_name;
            if condition.is_empty() {
                std::future::pending::<()>().await;
            }
            shared.upgradeable.keep(client.clone(), K::PACKAGE.name, &clock, &namespace, condition).await;
        };
        let watch = || {
            let mut feed = Feed::new(&client, &scope, &triggers);
            kind.watch(&mut feed);
            feed.started()
        };
        let runtime = Runtime::new(kind.clone(), shared.clone(), triggers.clone());
        let early = stand_by(candidate, watch, &status, stop.clone()).await?;
        let Some((mut candidate, mut watches, synced)) = early else { return Ok(()) };
        tracing::info!(identity, "leading");
        shared.metrics.leads(true);
        runtime.decides_from(synced);
        let ended = tokio::select! {
            () = runtime.run(receivers, stop.clone()) => None,
            () = tell_olm => None,
            () = kind.beside(&shared) => None,
            error = candidate.keep() => Some(lost(&error)),
            // What a dead watch feeds stays as it is: nothing may be decided from that.
            defect = watches.ended() => Some(defect),
        };
        if let Some(error) = ended {
            return Err(error);
        }
        candidate.release().await;
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        error = probes => Err(error),
    };
    tracing::info!("ended");
    outcome
}

/// Serves probes and metrics; returns why that ended.
fn serve_pages<H: Health>(args: &Common, client: &Client, health: Arc<H>) -> impl Future<Output = String> + use<H> {
    let mut servers = JoinSet::new();
    let folder = args.secure_metrics_certificates.clone();
    servers.spawn(telemetry::serve(args.listen_address, health.clone(), folder.is_none()));
    if let Some(folder) = folder {
        let gate = Arc::new(gate::Reviews::new(client.clone()));
        servers.spawn(telemetry::serve_securely(args.secure_metrics_address, folder, health, gate));
    }
    async move {
        match servers.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => error.to_string(),
            Some(Ok(Ok(()))) | None => "probes are no longer served".to_owned(),
        }
    }
}

/// Has those objects reconciled that refer to one that changed.
async fn wake(shared: Arc<Shared>, mut named: mpsc::UnboundedReceiver<Reference>, triggers: Triggers) {
    while let Some(reference) = named.recv().await {
        shared.named.subscribers(&reference).iter().for_each(|key| triggers.one(key));
    }
}

/// Who a candidate is.
fn identity(pod: &str, uid: &str) -> String {
    if uid.is_empty() { format!("{pod}_{}", std::process::id()) } else { format!("{pod}_{uid}") }
}

/// A leader with complete caches.
type Leader = (Candidate, Watches, Arc<Synced>);

/// Waits until the lease is ours and the caches are complete; `None`: stopped before.
async fn stand_by<K: Kind>(
    mut candidate: Candidate,
    watch: impl FnOnce() -> Watches,
    status: &Readiness<K>,
    stop: Stop,
) -> Result<Option<Leader>, String> {
    // Usually no one else holds the lease: then the watches start once, after it is ours.
    let at_once = tokio::time::timeout(Duration::from_millis(500), candidate.acquire()).await.is_ok();
    let mut watches = watch();
    let synced = watches.synced();
    let _ = status.synced.set(synced.clone());
    if !at_once {
        tracing::info!("the Lease is not ours yet; standing by");
        tokio::select! {
            () = candidate.acquire() => {}
            () = stop.clone() => return Ok(None),
        }
    }
    let lists = async {
        // What the leader before us did last must be seen before the first step.
        if at_once { synced.first().await } else { synced.refresh().await }
    };
    // Lists may be slow: meanwhile the lease is renewed, and a stop is heard.
    tokio::select! {
        () = lists => {}
        () = stop => {
            candidate.release().await;
            return Ok(None);
        }
        error = candidate.keep() => return Err(lost(&error)),
        defect = watches.ended() => return Err(defect),
    }
    Ok(Some((candidate, watches, synced)))
}

fn lost(error: &kernel::Error) -> String {
    match error {
        kernel::Error::Restored { .. } => format!("{error}; ending so that everything is read again"),
        _ => format!("the lease was lost ({}); ending so that only one operator acts", error.chain()),
    }
}

/// What is waited for, as the back-off's key.
const CRD: &str = "crd";
/// A CRD that comes is noticed within this.
const LONGEST_FOR_CRD: Duration = Duration::from_secs(10);

/// Waits until the API server serves the kind: on a first installation the CRD may come after us. One namespace that
/// answers is enough: of one that is gone, or whose Role is, the others know nothing.
async fn wait_for_crd<K: Kind>(client: &Client, scope: &Scope, status: &Readiness<K>) {
    let plural = K::Object::plural(&());
    let namespaced = |namespace: &String| Api::namespaced(client.clone(), namespace);
    let mut apis: Vec<Api<K::Object>> = scope.0.iter().map(namespaced).collect();
    if apis.is_empty() {
        apis.push(Api::all(client.clone()));
    }
    for failures in 1.. {
        let mut is_served = false;
        for api in &apis {
            match api.list_metadata(&kube::api::ListParams::default().limit(1)).await {
                Ok(_) => is_served = true,
                Err(error) => tracing::warn!(%error, "{plural} cannot be listed yet; is the CRD installed and the \
                    ServiceAccount allowed?"),
            }
            if is_served {
                break;
            }
        }
        if is_served {
            break;
        }
        tokio::time::sleep(backoff::wait(failures, CRD).min(LONGEST_FOR_CRD)).await;
    }
    *status.crd.lock() = true;
}

fn stop_signal() -> Result<Stop, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let future = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let stop = future.boxed().shared();
    // Polled from the start, though others wait for it too.
    tokio::spawn(stop.clone());
    Ok(stop)
}

struct Readiness<K> {
    of: PhantomData<K>,
    shared: Arc<Shared>,
    synced: OnceLock<Arc<Synced>>,
    crd: Mutex<bool>,
}

impl<K: Kind> Health for Readiness<K> {
    fn not_ready(&self) -> Option<String> {
        if !*self.crd.lock() {
            return Some(format!("the API server does not serve {}s yet: is the CRD installed?", K::Object::kind(&())));
        }
        let synced = self.synced.get();
        if synced.is_some_and(|synced| synced.is_ready()) {
            return None;
        }
        // Without a right of the whole cluster it never gets further.
        let refused = synced.and_then(|synced| synced.refusal("")).map(|why| format!(": {why}"));
        Some(format!("the caches are not complete yet{}", refused.unwrap_or_default()))
    }

    fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }
}
