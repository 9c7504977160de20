//! Nodes that are gone, and telling an environment so: otherwise it takes a host that was scaled in for one that broke.
//!
//! Here because it is the only thing that we write to the vendor. Must not find out which nodes are gone, and tells
//! nothing of a host that it cannot tell apart from another: an alert that is kept back wrongly is the greater harm.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use secrecy::SecretString;
use tokio::sync::Semaphore;

use super::types::zone_key;
use super::{Client, Error};

/// Nodes that go together are told together: when none has gone for so long.
pub(super) const GATHER: Duration = Duration::from_secs(10);
/// While others keep leaving, none waits longer.
const AT_LAST: Duration = Duration::from_secs(60);
/// After a failure it is tried again no sooner: each try reads the whole host list.
pub(super) const AGAIN: Duration = Duration::from_secs(20);
/// The event lies so long before the node was missed: the host may have fallen silent before.
const BEFORE: TimeDelta = TimeDelta::minutes(10);
/// Hosts in one call: the address of an entity selector ends at 2,000 characters.
const AT_ONCE: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoneNode {
    pub name: Arc<str>,
    /// The address that it had.
    pub ip: IpAddr,
    /// When it was missed.
    pub since: DateTime<Utc>,
}

/// What came of telling. Nothing more will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The environment took it.
    Accepted,
    /// Nothing was told, for this reason.
    Not(String),
}

/// A node, and the network zone of its OneAgent.
pub(super) type Zoned = (Option<Arc<str>>, GoneNode);

/// A node, and what came of telling.
pub(super) type Outcome = (GoneNode, Told);

/// How long until some of these are to be told; `None` without any.
pub(super) fn wait(nodes: &[Zoned], now: DateTime<Utc>) -> Option<Duration> {
    let times = || nodes.iter().map(|(_, node)| node.since);
    let due = (times().max()? + GATHER).min(times().min()? + AT_LAST);
    Some((due - now).to_std().unwrap_or_default())
}

/// Tells of all whose time has come. With an error those without an outcome are to be told later. `turn` is taken
/// while the host list is read: one list at a time, whatever environments there are.
pub(super) async fn tell(
    client: &Client,
    api: &SecretString,
    turn: Arc<Semaphore>,
    nodes: &[Zoned],
    now: DateTime<Utc>,
) -> (Vec<Outcome>, Result<(), Error>) {
    let due: Vec<&Zoned> = nodes.iter().filter(|(_, node)| node.since + GATHER <= now).collect();
    let mut wanted: HashMap<(String, IpAddr), Vec<String>> =
        due.iter().map(|(zone, node)| ((zone_key(zone.as_deref()), node.ip), Vec::new())).collect();
    let turn = turn.acquire_owned().await;
    let hosts = client
        .each_host(api, |host| {
            let (Some(id), zone) = (host.entity_id.filter(|id| is_host(id)), zone_key(host.network_zone_id.as_deref()))
            else {
                return;
            };
            for ip in host.ip_addresses.iter().flatten().filter_map(|ip| ip.parse().ok()) {
                if let Some(found) = wanted.get_mut(&(zone.clone(), ip)).filter(|found| !found.contains(&id)) {
                    found.push(id.clone());
                }
            }
        })
        .await;
    drop(turn);
    let mut outcomes = Vec::new();
    if hosts.is_err() {
        return (outcomes, hosts);
    }
    let mut known: Vec<(&GoneNode, String)> = Vec::new();
    for (zone, node) in due {
        let zone = zone_key(zone.as_deref());
        let not = |why: &str| {
            (
                node.clone(),
                Told::Not(format!("{why} in network zone {zone} reported the address within the last half hour")),
            )
        };
        match wanted.get(&(zone.clone(), node.ip)).map(Vec::as_slice) {
            Some([id]) => known.push((node, id.clone())),
            Some([_, ..]) => outcomes.push(not("more than one host")),
            _ => outcomes.push(not("no host")),
        }
    }
    for some in known.chunks(AT_ONCE) {
        let ids: Vec<String> = some.iter().map(|(_, id)| id.clone()).collect();
        let names: Vec<&str> = some.iter().map(|(node, _)| &*node.name).collect();
        let first = some.iter().map(|(node, _)| node.since).min().unwrap_or(now);
        let told = match client
            .terminated(api, &ids, first - BEFORE, &names.join(", ").chars().take(4000).collect::<String>())
            .await
        {
            Ok(()) => Told::Accepted,
            // It does not get better by saying it again.
            Err(error @ (Error::Forbidden(_) | Error::Status { code: 400..=499, .. })) => Told::Not(error.to_string()),
            Err(error) => return (outcomes, Err(error)),
        };
        outcomes.extend(some.iter().map(|(node, _)| ((*node).clone(), told.clone())));
    }
    (outcomes, Ok(()))
}

/// What may be in an entity selector without being something else.
fn is_host(id: &str) -> bool {
    id.strip_prefix("HOST-").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_leave_together_are_reported_together_within_bounds() {
        let at = |second: i64| DateTime::from_timestamp(1_000_000 + second, 0).unwrap();
        let gone =
            |second: i64| (None, GoneNode { name: "n".into(), ip: IpAddr::from([10, 0, 0, 1]), since: at(second) });
        assert_eq!(wait(&[], at(0)), None);
        assert_eq!(wait(&[gone(0)], at(4)), Some(Duration::from_secs(6)));
        assert_eq!(
            wait(&[gone(0), gone(5)], at(10)),
            Some(Duration::from_secs(5)),
            "until none has gone for ten seconds"
        );
        assert_eq!(
            wait(&[gone(0), gone(58)], at(59)),
            Some(Duration::from_secs(1)),
            "or the first has waited for a minute"
        );
        assert_eq!(wait(&[gone(0)], at(99)), Some(Duration::ZERO));
    }

    #[test]
    fn only_the_name_of_a_host_goes_into_a_selector() {
        assert!(is_host("HOST-00000000DEADBEEF"));
        for wrong in ["", "HOST-", "HOST-1\"),type(\"SERVICE", "PROCESS-1"] {
            assert!(!is_host(wrong), "{wrong}");
        }
    }
}
