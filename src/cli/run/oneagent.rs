//! A process of kind OneAgent: its settings, and what it is made of.
//!
//! Wiring only.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Base, Operated, duration};
use crate::api::oneagent::DEFAULT_IMAGE;
use crate::dynatrace::{Environments, Periods};
use crate::kernel::sync::{Scope, Watches};
use crate::kernel::triggers::Triggers;
use crate::kernel::{self, Events, Named, Upgradeable};
use crate::oneagent::controller::watch_fleet;
use crate::oneagent::{Context, MANAGER, Settings, fleet::Fleet};
use crate::telemetry::Metrics;

/// Settings of kind OneAgent; others pass them over.
#[derive(Debug, clap::Args)]
pub(super) struct OneAgentArgs {
    /// How often an environment is asked for its newest version, such as 15m, 90s or 500ms.
    #[arg(long, env = "POLL_INTERVAL", default_value = "15m", value_parser = duration)]
    poll_interval: Duration,
    /// How often tokens, and whether versions are still offered, are looked at.
    #[arg(long, env = "SLOW_POLL_INTERVAL", default_value = "60m", value_parser = duration)]
    slow_poll_interval: Duration,
    /// How often the host list is asked for while something needs it.
    #[arg(long, env = "HOSTS_POLL_INTERVAL", default_value = "5m", value_parser = duration)]
    hosts_poll_interval: Duration,
    /// For how long it is believed what the cluster says of itself: whether Istio is there and its objects are as they
    /// should be, where enableIstio asks for it; the node selectors of namespaces; OpenShift's proxy, update and
    /// default node selector.
    #[arg(long, env = "DISCOVERY_INTERVAL", default_value = "60s", value_parser = duration)]
    discovery_interval: Duration,
    /// Longest time for one call to an environment.
    #[arg(long, env = "VENDOR_TIMEOUT", default_value = "30s", value_parser = duration)]
    vendor_timeout: Duration,
    /// Image of the agent's installer where a OneAgent names none.
    #[arg(long, env = "RELATED_IMAGE_DYNATRACE_ONEAGENT", default_value = DEFAULT_IMAGE)]
    related_image_dynatrace_oneagent: String,
}

impl Operated for Context {
    fn watch(self: &Arc<Self>, scope: &Scope, triggers: &Triggers) -> Watches {
        self.peers.expect(&scope.namespaces());
        watch_fleet(self, scope, triggers)
    }

    fn named(&self) -> &Named {
        &self.named
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics.all
    }

    fn upgradeable(&self) -> &Upgradeable {
        &self.upgradeable
    }
}

/// What the kind is made of.
pub(super) fn kind(args: &OneAgentArgs, base: Base<'_>) -> Arc<Context> {
    let Base { client, clock, heard, triggers, tell_named, namespace, pod } = base;
    let (tell_environment, mut environments) = mpsc::unbounded_channel();
    let periods =
        Periods { latest: args.poll_interval, slow: args.slow_poll_interval, hosts: args.hosts_poll_interval };
    let context = Arc::new(Context {
        client: client.clone(),
        clock: clock.clone(),
        settings: Settings {
            namespace,
            agent_image: args.related_image_dynatrace_oneagent.clone(),
            vendor_timeout: args.vendor_timeout,
        },
        fleet: Fleet::new(clock.clone()),
        peers: crate::oneagent::peers::Peers::default(),
        named: Named::new(client.clone(), tell_named),
        environments: Environments::new(periods, clock, tell_environment),
        deletions: kernel::Deletions::default(),
        optional_apis: kernel::OptionalApis::new(MANAGER, args.discovery_interval),
        node_selectors: kernel::NodeSelectors::new(args.discovery_interval),
        singletons: kernel::Singletons::new(args.discovery_interval),
        notes: kernel::Notes::new(MANAGER),
        upgradeable: kernel::Upgradeable::default(),
        events: Events::new(client, MANAGER, &pod),
        metrics: crate::oneagent::OwnMetrics::default(),
        cluster_id: tokio::sync::OnceCell::new(),
        heard,
    });
    let told = triggers.clone();
    tokio::spawn(async move {
        while let Some(subscriber) = environments.recv().await {
            told.one(&(subscriber.namespace, subscriber.name));
        }
    });
    context
}
