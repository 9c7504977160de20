//! `run`: the operator itself. Every setting is a flag and an environment variable of the same name.
//!
//! Wiring and lifetime: logs, probes, watches, lease, controllers, and an orderly end. Must not reconcile anything.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::ValueEnum;
use futures::FutureExt;
use futures::future::Shared;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::SignedDuration;
use kube::Client;
use kube::api::Api;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::api::oneagent::package::PACKAGE;
use crate::api::oneagent::{DEFAULT_IMAGE, OneAgent};
use crate::clock::Clock;
use crate::dynatrace::{Environments, Periods};
use crate::kernel::lease::{Candidate, Timing};
use crate::kernel::runtime::{Receiver, Runtime, Triggers};
use crate::kernel::sync::{Scope, Synced};
use crate::kernel::{self, Events, Named};
use crate::oneagent::controller::watch_fleet;
use crate::oneagent::{Context, Settings, fleet::Fleet};
use crate::telemetry::{self, Health, LogFormat, Metrics};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which kind to keep: each is a package of its own, with just its rights.
    #[arg(long, env = "KIND", value_enum, default_value_t)]
    kind: KindName,
    /// Namespaces to watch, separated by commas; empty means all. OLM's olm.targetNamespaces goes here.
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "")]
    watch_namespace: String,
    /// Namespace of the operator itself: its Lease and its stop ConfigMap are there.
    #[arg(long, env = "POD_NAMESPACE", default_value = "dynatrace")]
    pod_namespace: String,
    /// Name of the operator's Pod; with its UID the identity in the Lease.
    #[arg(long, env = "POD_NAME", default_value = "oneagent-operator")]
    pod_name: String,
    /// UID of the operator's Pod.
    #[arg(long, env = "POD_UID", default_value = "")]
    pod_uid: String,
    /// Name of OLM's OperatorCondition; set by OLM v0. Empty: there is none.
    #[arg(long, env = "OPERATOR_CONDITION_NAME", default_value = "")]
    operator_condition_name: String,
    /// Where probes (/livez, /readyz) and metrics (/metrics) are served.
    #[arg(long, env = "LISTEN_ADDRESS", default_value = "0.0.0.0:8080")]
    listen_address: SocketAddr,
    /// How often an environment is asked for its newest version, such as 15m, 90s or 500ms.
    #[arg(long, env = "POLL_INTERVAL", default_value = "15m", value_parser = duration)]
    poll_interval: Duration,
    /// How often tokens, and whether versions are still offered, are looked at.
    #[arg(long, env = "SLOW_POLL_INTERVAL", default_value = "60m", value_parser = duration)]
    slow_poll_interval: Duration,
    /// How often the host list is asked for while something needs it.
    #[arg(long, env = "HOSTS_POLL_INTERVAL", default_value = "5m", value_parser = duration)]
    hosts_poll_interval: Duration,
    /// How often it is looked at whether Istio is there and its objects are as they should be, where enableIstio asks
    /// for it.
    #[arg(long, env = "DISCOVERY_INTERVAL", default_value = "60s", value_parser = duration)]
    discovery_interval: Duration,
    /// Longest time for one call to an environment.
    #[arg(long, env = "VENDOR_TIMEOUT", default_value = "30s", value_parser = duration)]
    vendor_timeout: Duration,
    /// Image of the agent's installer where a OneAgent names none.
    #[arg(long, env = "RELATED_IMAGE_DYNATRACE_ONEAGENT", default_value = DEFAULT_IMAGE)]
    related_image_dynatrace_oneagent: String,
    /// How long a lease that is not renewed stays valid.
    #[arg(long, env = "LEASE_DURATION", default_value = "137s", value_parser = duration)]
    lease_duration: Duration,
    /// For how long the leader tries to renew before it ends itself.
    #[arg(long, env = "LEASE_RENEW_DEADLINE", default_value = "107s", value_parser = duration)]
    lease_renew_deadline: Duration,
    /// How often the lease is renewed.
    #[arg(long, env = "LEASE_RETRY_PERIOD", default_value = "26s", value_parser = duration)]
    lease_retry_period: Duration,
    /// error, warn, info, debug or trace; or a list such as info,kube=debug.
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
}

/// `15m`, `90s`, `500ms`, `1h 30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    let duration = parsed.ok_or_else(|| format!("{text:?} is not a duration such as 15m, 90s or 500ms"))?;
    if duration.is_zero() { Err(format!("{text:?} must be longer than nothing")) } else { Ok(duration) }
}

type Stop = Shared<futures::future::BoxFuture<'static, ()>>;

pub(super) async fn run(args: Args) -> Result<(), String> {
    match args.kind {
        KindName::Oneagent => Box::pin(run_oneagent(args)).await,
    }
}

async fn run_oneagent(args: Args) -> Result<(), String> {
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
    let client = kernel::client().await?;
    let (triggers, receivers) = Triggers::new(&scope);
    let context = context(&args, client.clone(), &triggers);
    let status = Arc::new(Readiness { context: context.clone(), synced: OnceLock::new(), crd: Mutex::new(false) });
    let probes = tokio::spawn(telemetry::serve(args.listen_address, status.clone()));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), namespaces = args.watch_namespace, "started");

    let work = async {
        tokio::select! {
            () = wait_for_crd(&client, &scope, &status) => {}
            () = stop.clone() => return Ok(()),
        }
        lead(&args, &context, &scope, &triggers, receivers, &status, timing, stop.clone()).await
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        ended = probes => {
            let served = ended.map_err(|error| error.to_string()).and_then(|served| served);
            Err(served.err().unwrap_or_else(|| "probes are no longer served".to_owned()))
        }
    };
    tracing::info!("ended");
    outcome
}

/// Stands by, leads, and gives the lease back at the end.
#[allow(clippy::too_many_arguments, reason = "wiring, called once")]
async fn lead(
    args: &Args,
    context: &Arc<Context>,
    scope: &Scope,
    triggers: &Triggers,
    receivers: Vec<Receiver>,
    status: &Readiness,
    timing: Timing,
    stop: Stop,
) -> Result<(), String> {
    let leases: Api<Lease> = Api::namespaced(context.client.clone(), &args.pod_namespace);
    let identity = if args.pod_uid.is_empty() {
        format!("{}_{}", args.pod_name, std::process::id())
    } else {
        format!("{}_{}", args.pod_name, args.pod_uid)
    };
    let mut candidate = Candidate::new(leases, PACKAGE.name, &identity, timing);
    // Usually nobody else holds the lease: then the watches start once, after it is ours.
    let at_once = tokio::time::timeout(Duration::from_millis(500), candidate.acquire()).await.is_ok();
    context.peers.expect(&scope.namespaces());
    let mut watches = watch_fleet(context, scope, triggers);
    let synced = watches.synced();
    let _ = status.synced.set(synced.clone());
    if !at_once {
        tracing::info!("another operator leads; standing by");
        tokio::select! {
            () = candidate.acquire() => {}
            () = stop.clone() => return Ok(()),
        }
    }
    let lists = async {
        // What the leader before us did last must be seen before the first step.
        if at_once { synced.first().await } else { synced.refresh().await }
    };
    // Lists may be slow: meanwhile the lease is renewed, and a stop is heard.
    let early = tokio::select! {
        () = lists => None,
        () = stop.clone() => Some(Ok(())),
        error = candidate.keep() => Some(Err(lost(&error))),
        defect = watches.ended() => Some(Err(defect)),
    };
    if let Some(end) = early {
        if end.is_ok() {
            candidate.release().await;
        }
        return end;
    }
    tracing::info!(identity, "leading");
    let _ = context.deciding_since.set(context.clock.now());
    context.metrics.leads(true);
    let runtime = Runtime::new(context.client.clone(), context.clone(), triggers.clone());
    runtime.decides_from(synced);
    let tell_olm = async {
        if args.operator_condition_name.is_empty() {
            std::future::pending::<()>().await;
        }
        let client = context.client.clone();
        context
            .upgradeable
            .keep(client, PACKAGE.name, context.clock, &args.pod_namespace, &args.operator_condition_name)
            .await;
    };
    let ended = tokio::select! {
        () = runtime.run(receivers, stop) => None,
        () = tell_olm => None,
        error = candidate.keep() => Some(lost(&error)),
        // What a dead watch feeds stays as it is: nothing may be decided from that.
        defect = watches.ended() => Some(defect),
    };
    match ended {
        None => {
            candidate.release().await;
            Ok(())
        }
        Some(error) => Err(error),
    }
}

fn lost(error: &kernel::Error) -> String {
    format!("the lease was lost ({}); ending so that only one operator acts", error.chain())
}

fn context(args: &Args, client: Client, triggers: &Triggers) -> Arc<Context> {
    let (tell_environment, mut environments) = mpsc::unbounded_channel();
    let (tell_named, mut named) = mpsc::unbounded_channel();
    let periods =
        Periods { latest: args.poll_interval, slow: args.slow_poll_interval, hosts: args.hosts_poll_interval };
    let clock = Clock::of_the_machine();
    let context = Arc::new(Context {
        client: client.clone(),
        clock,
        settings: Settings {
            namespace: args.pod_namespace.clone(),
            agent_image: args.related_image_dynatrace_oneagent.clone(),
            vendor_timeout: args.vendor_timeout,
        },
        fleet: Fleet::default(),
        peers: crate::oneagent::peers::Peers::default(),
        named: Named::new(client.clone(), tell_named),
        environments: Environments::new(periods, clock, tell_environment),
        deletions: kernel::Deletions::default(),
        optional_apis: kernel::OptionalApis::new(PACKAGE.name, args.discovery_interval),
        node_selectors: kernel::NodeSelectors::default(),
        notes: kernel::Notes::new(PACKAGE.name),
        upgradeable: kernel::Upgradeable::default(),
        events: Events::new(client, PACKAGE.name, &args.pod_name),
        metrics: Metrics::default(),
        cluster_id: tokio::sync::OnceCell::new(),
        deciding_since: OnceLock::new(),
    });
    let (told, shared) = (triggers.clone(), context.clone());
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(subscriber) = environments.recv() => told.one(&(subscriber.namespace, subscriber.name)),
                Some(reference) = named.recv() => {
                    shared.named.subscribers(&reference).iter().for_each(|key| told.one(key));
                }
                else => break,
            }
        }
    });
    context
}

/// What is waited for, as the back-off's key.
const CRD: &str = "crd";
/// A CRD that comes is noticed within this.
const LONGEST_FOR_CRD: Duration = Duration::from_secs(10);

/// Waits until the API server serves OneAgents: on a first installation the CRD may come after us.
async fn wait_for_crd(client: &Client, scope: &Scope, status: &Readiness) {
    let api: Api<OneAgent> = scope
        .0
        .first()
        .map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace));
    for failures in 1.. {
        match api.list_metadata(&kube::api::ListParams::default().limit(1)).await {
            Ok(_) => break,
            Err(error) => {
                tracing::warn!(%error, "OneAgents cannot be listed yet; is the CRD installed and the ServiceAccount \
                    allowed?");
            }
        }
        tokio::time::sleep(kernel::backoff::wait(failures, CRD).min(LONGEST_FOR_CRD)).await;
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
    // Polled from the start, whoever else waits for it.
    tokio::spawn(stop.clone());
    Ok(stop)
}

struct Readiness {
    context: Arc<Context>,
    synced: OnceLock<Arc<Synced>>,
    crd: Mutex<bool>,
}

impl Health for Readiness {
    fn not_ready(&self) -> Option<&'static str> {
        if !*self.crd.lock() {
            return Some("the API server does not serve OneAgents yet");
        }
        (!self.synced.get().is_some_and(|synced| synced.is_ready())).then_some("the caches are not complete yet")
    }

    fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(duration("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1h 30m"), duration("1.5h"));
        for wrong in ["", "15", "m", "0s", "-1s", "5 apples"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
