//! The gate of the metrics: the cluster says whose a token is, whether they may get /metrics, and how TLS is spoken.
//!
//! Wiring only. Must not keep a token.

use std::time::Duration;

use kube::Client;

use crate::kernel::{Answer, Singletons, review};
use crate::openshift::cluster::API_SERVER;
use crate::openshift::tls_profile::TlsProfile;
use crate::telemetry::{Admission, Gate};

/// For how long the cluster's TLS profile is believed.
const BELIEVED: Duration = Duration::from_secs(60);
/// Asks the API server.
pub(super) struct Reviews {
    client: Client,
    singletons: Singletons,
}

impl Reviews {
    pub(super) fn new(client: Client) -> Self {
        Self { client, singletons: Singletons::new(BELIEVED) }
    }
}

impl Gate for Reviews {
    async fn admits(&self, token: &str) -> Admission {
        let who = match review::whose(&self.client, token).await {
            Ok(Some(who)) => who,
            Ok(None) => return Admission::Unknown,
            Err(error) => return Admission::Unanswered(error.chain()),
        };
        let name = who.username.clone().unwrap_or_default();
        match review::may_get_path(&self.client, who, "/metrics").await {
            Ok(true) => Admission::Welcome,
            Ok(false) => Admission::Forbidden(name),
            Err(error) => Admission::Unanswered(error.chain()),
        }
    }

    async fn profile(&self) -> TlsProfile {
        match self.singletons.lookup(&self.client, &API_SERVER).await {
            Answer::There(api_server) => TlsProfile::of_api_server(&api_server),
            Answer::Absent => TlsProfile::default(),
            Answer::Refused(_) | Answer::Unread(_) | Answer::Unasked => TlsProfile::unknown(),
        }
    }
}
