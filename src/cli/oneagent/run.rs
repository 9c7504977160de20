//! A process of kind OneAgent: its settings, and what it is made of.
//!
//! Wiring only.

use std::time::Duration;

use tokio::sync::{OnceCell, mpsc};

use super::super::duration::duration;
use crate::api::oneagent::DEFAULT_IMAGE;
use crate::dynatrace::{Environments, Periods, Subscriber};
use crate::kernel::kind::Shared;
use crate::kernel::triggers::Triggers;
use crate::kernel::{NodeSelectors, Notes, OptionalApis, Singletons};
use crate::oneagent::fleet::Fleet;
use crate::oneagent::peers::Peers;
use crate::oneagent::{OneAgents, OwnMetrics, Settings};

/// Settings of kind OneAgent; others pass them over.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct OneAgentArgs {
    /// How often an environment is asked for its newest version, such as 15m, 90s or 500ms.
    #[arg(long, env = "POLL_INTERVAL", default_value = "15m", value_parser = duration)]
    poll_interval: Duration,
    /// How often tokens are checked, and whether versions are still offered.
    #[arg(long, env = "SLOW_POLL_INTERVAL", default_value = "60m", value_parser = duration)]
    slow_poll_interval: Duration,
    /// How often the environment's host list is read while the operator needs it.
    #[arg(long, env = "HOSTS_POLL_INTERVAL", default_value = "5m", value_parser = duration)]
    hosts_poll_interval: Duration,
    /// For how long facts about the cluster are cached: the state of Istio and its objects for enableIstio, and the
    /// node selectors of namespaces. Also OpenShift's proxy, update and default node selector.
    #[arg(long, env = "DISCOVERY_INTERVAL", default_value = "60s", value_parser = duration)]
    discovery_interval: Duration,
    /// Longest time for one call to an environment.
    #[arg(long, env = "VENDOR_TIMEOUT", default_value = "30s", value_parser = duration)]
    vendor_timeout: Duration,
    /// Image of the agent's installer where a OneAgent names none.
    #[arg(long, env = "RELATED_IMAGE_DYNATRACE_ONEAGENT", default_value = DEFAULT_IMAGE)]
    related_image_dynatrace_oneagent: String,
}

impl OneAgentArgs {
    /// What the kind is made of.
    pub(in crate::cli) fn kind(&self, shared: &Shared, triggers: &Triggers) -> OneAgents {
        let (tell_environment, mut environments) = mpsc::unbounded_channel::<Subscriber>();
        let periods =
            Periods { latest: self.poll_interval, slow: self.slow_poll_interval, hosts: self.hosts_poll_interval };
        let told = triggers.clone();
        tokio::spawn(async move {
            while let Some(subscriber) = environments.recv().await {
                told.one(&(subscriber.namespace, subscriber.name));
            }
        });
        OneAgents {
            settings: Settings {
                agent_image: self.related_image_dynatrace_oneagent.clone(),
                vendor_timeout: self.vendor_timeout,
            },
            fleet: Fleet::new(shared.clock.clone()),
            peers: Peers::default(),
            environments: Environments::new(periods, shared.clock.clone(), tell_environment),
            optional_apis: OptionalApis::new(shared.manager, self.discovery_interval),
            node_selectors: NodeSelectors::new(self.discovery_interval),
            singletons: Singletons::new(self.discovery_interval),
            notes: Notes::new(shared.manager),
            metrics: OwnMetrics::new(&shared.metrics),
            cluster_id: OnceCell::new(),
        }
    }
}
