//! `explain`: why a node has no Pod, an old one, or waits; and what an object waits for.
//!
//! Here is what every kind has in common. Reads only, with the caller's rights. Must not judge anything itself: that is
//! the operator's own code.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::asked::{PodKind, Question, Said};
use super::read::Reader;
use super::{daemonset_rollout, oneagent};
use crate::api::condition::timestamp;
use crate::api::nearest::nearest;
use crate::clock::Clock;
use crate::fleet::finding::{Finding, Kind};
use crate::k8s::facts::NodeFacts;
use crate::kernel::{self, Access, Reached};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "oneagent-operator explain [-n NAMESPACE]\n       \
        oneagent-operator explain NAME [--kind KIND] [-n NAMESPACE]\n       \
        oneagent-operator explain node NODE [-n NAMESPACE]",
    after_help = "Without a name it prints a line for each OneAgent and each DaemonSetRollout that you may list. Exit \
        code: 0, no action is needed; 1, somebody must act; 2, the question could not be answered.\n\nIt reads nodes, \
        Pods, DaemonSets, OneAgents, DaemonSetRollouts with ControllerRevisions, Namespaces, Events, Deployments and \
        Leases with your rights, and writes nothing. ClusterRoles oneagent-operator-observe and \
        daemonset-rollout-operator-observe have all these rights."
)]
pub(super) struct Args {
    /// Word `node` and the name of a node, or the name of an object.
    #[arg(num_args = 0..=2)]
    what: Vec<String>,
    /// Kind of the object. Default: oneagent with a name, both kinds without one.
    #[arg(long, value_enum)]
    kind: Option<PodKind>,
    /// Namespace of the objects. Default: dynatrace with the name of a OneAgent, otherwise all namespaces.
    #[arg(short, long)]
    namespace: Option<String>,
}

/// Returns whether a person must act.
pub(super) async fn explain(args: &Args) -> Result<bool, String> {
    let clock = Clock::default();
    let reached = kernel::reach(&Access::default(), &clock).await?;
    // One object is a OneAgent, in the namespace where these usually are.
    let is_one = args.what.len() == 1;
    let kind = args.kind.or(is_one.then_some(PodKind::Oneagent));
    let home = (is_one && kind == Some(PodKind::Oneagent)).then_some("dynatrace");
    let findings = findings(&reached, &clock, (&args.what, kind), args.namespace.as_deref().or(home)).await?;
    let must_act = findings.iter().any(|finding| finding.kind == Kind::Act);
    for Finding { who, what, remedy, .. } in findings {
        say!("{who}: {what}");
        if let Some(remedy) = remedy {
            say!("    {remedy}");
        }
    }
    Ok(must_act)
}

/// The answer to what the user typed.
pub(super) async fn findings(
    reached: &Reached,
    clock: &Clock,
    (what, kind): (&[String], Option<PodKind>),
    namespace: Option<&str>,
) -> Result<Vec<Finding>, String> {
    let all = [PodKind::Oneagent, PodKind::Daemonsetrollout];
    let given = kind.as_ref().map(std::slice::from_ref);
    let kinds = given.unwrap_or(&all);
    let nodes;
    let (question, kinds) = match what {
        [] => (Question::All, kinds),
        [name] => (Question::One(name), kinds),
        [node, name] if node == "node" => {
            nodes = Reader::of(reached, kinds[0].operator()).all::<NodeFacts>("nodes").await?;
            let names: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
            if !names.contains(name) {
                return Err(format!("there is no node {name}{}", nearest(name, &names)));
            }
            (Question::Node { name, nodes: &nodes, now: clock.now() }, kinds)
        }
        _ => return Err("write explain node NODE, or explain NAME, the name of an object".to_owned()),
    };
    let (mut findings, mut nothing) = (Vec::new(), Vec::new());
    for kind in kinds {
        let found = match of_kind((reached, namespace), *kind, &question).await? {
            Ok(found) => found,
            // It need not be there, nor be allowed, if another one is.
            Err(why) => {
                nothing.push(why);
                continue;
            }
        };
        findings.extend(operator(&reached.client, (kind.operator(), namespace), clock.now()).await);
        findings.extend(if let Question::Node { name, .. } = question {
            folded(name, kind.name(), found)
        } else {
            found
        });
    }
    if nothing.len() == kinds.len() {
        return Err(nothing.join("; "));
    }
    Ok(findings)
}

async fn of_kind(
    (reached, namespace): (&Reached, Option<&str>),
    kind: PodKind,
    question: &Question<'_>,
) -> Result<Said, String> {
    let reader = Reader::of(reached, kind.operator());
    match kind {
        PodKind::Oneagent => oneagent::explain::explain(reader, question, namespace).await,
        PodKind::Daemonsetrollout => daemonset_rollout::explain::explain(reader, question, namespace).await,
    }
}

/// Whether no operator runs: then what a status says may be old. Where that cannot be seen, nothing is said.
pub(super) async fn operator(client: &Client, of: (&str, Option<&str>), now: DateTime<Utc>) -> Option<Finding> {
    asked_operator(client, of, now).await.unwrap_or_default()
}

/// The same; without the right to see that, nothing is said.
pub(super) async fn asked_operator(
    client: &Client,
    (operator, namespace): (&str, Option<&str>),
    now: DateTime<Utc>,
) -> Result<Option<Finding>, kube::Error> {
    let name = format!("metadata.name={operator}");
    let leases: Api<Lease> = Api::all(client.clone());
    let mut leases = match leases.list(&ListParams::default().fields(&name)).await {
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(None),
        leases => leases?,
    };
    // Of several installations the one that is next to the objects counts.
    if leases.items.iter().any(|lease| lease.namespace().as_deref() == namespace) {
        leases.items.retain(|lease| lease.namespace().as_deref() == namespace);
    }
    let is_held = |lease: &Lease| {
        let valid = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default().max(15);
        renewed(lease).is_some_and(|since| now.timestamp() - since <= 2 * i64::from(valid))
    };
    if leases.items.is_empty() || leases.items.iter().any(is_held) {
        return Ok(None);
    }
    let deployments: Api<Deployment> = Api::all(client.clone());
    let labelled = ListParams::default().labels(&format!("app.kubernetes.io/name={operator}"));
    let found = deployments.list(&labelled).await.map(|list| list.items).unwrap_or_default();
    Ok(Some(stopped(operator, &leases.items[0], found.first())))
}

/// When its holder, if it has one, renewed a Lease the last time, in seconds since 1970.
fn renewed(lease: &Lease) -> Option<i64> {
    let spec = lease.spec.as_ref()?;
    spec.holder_identity.as_ref().filter(|holder| !holder.is_empty())?;
    Some(spec.renew_time.as_ref().map_or(0, |time| time.0.as_second()))
}

/// What is said of an operator that does not run.
pub(super) fn stopped(operator: &str, lease: &Lease, deployment: Option<&Deployment>) -> Finding {
    let namespace = lease.namespace().unwrap_or_default();
    let name = format!("Lease {namespace}/{operator}");
    let ended = match renewed(lease).and_then(|since| DateTime::from_timestamp(since, 0)) {
        Some(since) => format!("{name} was renewed at {} the last time", timestamp(since)),
        None => format!("{name} has no holder"),
    };
    let scaled = deployment.filter(|one| one.spec.as_ref().and_then(|spec| spec.replicas) == Some(0));
    let (what, remedy) = match scaled {
        Some(deployment) => {
            let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
            (
                format!("does not run: Deployment {namespace}/{name} is scaled to 0, and what follows may be old"),
                format!("kubectl -n {namespace} scale deployment {name} --replicas=1"),
            )
        }
        None => (
            format!("does not run: {ended}, and what follows may be old"),
            format!("kubectl -n {namespace} get pods -l app.kubernetes.io/name={operator}"),
        ),
    };
    Finding { who: "the operator".to_owned(), what, remedy: Some(remedy), kind: Kind::Act }
}

/// Those that have nothing to do with a node stand in one line.
fn folded(node: &str, kind: &str, found: Vec<Finding>) -> Vec<Finding> {
    let (unrelated, mut related): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|finding| finding.kind == Kind::Unrelated);
    let Some(first) = unrelated.first() else { return related };
    let such = format!("{} {}", first.who, first.what);
    let what = match (related.is_empty(), unrelated.len()) {
        (true, 1) => format!("no {kind} selects it: {such}"),
        (true, count) => format!("no {kind} selects it: {such}; and {} more do not", count - 1),
        (false, 1) => return related,
        (false, count) => format!("{count} other {kind}s do not select it"),
    };
    related.push(Finding { who: format!("node {node}"), what, remedy: None, kind: Kind::Unrelated });
    related
}
