//! Known nodes: those that have, or had, an agent, so that it is noticed when one is gone, in our absence too.
//!
//! Pure; the list is kept as a note in the cluster. Must not know what is done about a node that is gone.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::revision::Pod;
use crate::dynatrace::{GoneNode, Told};
use crate::k8s::node::Node;
use crate::k8s::placement::{Placement, Verdict};
use crate::kernel::notes::Noted;

/// A node that could not be reported for so long is forgotten: before its host leaves the half hour that the
/// environment is asked about, for who has its address after that is another.
const AT_LAST: TimeDelta = TimeDelta::minutes(20);

/// In how many pieces they are noted: of 5,000 nodes a change writes 16 KB.
const PIECES: u32 = 16;

/// How many names stand in a sentence.
const EXAMPLES: usize = 5;

/// A node that has, or had, an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownNode {
    name: Arc<str>,
    ip: IpAddr,
    /// When it was missed, if it is gone.
    gone: Option<DateTime<Utc>>,
}

/// What is known now, and what came of telling of nodes that were gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct News {
    /// The nodes.
    pub known: Known,
    /// What came of telling, for those that were waited for.
    pub outcomes: Vec<(GoneNode, Told)>,
}

/// All of them, by name. Noted as a line each: name, address, and the time at which it was missed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known(Vec<KnownNode>);

impl Noted for Known {
    fn pieces(&self) -> BTreeMap<String, String> {
        let mut pieces: BTreeMap<u32, String> = (0..PIECES).map(|piece| (piece, String::new())).collect();
        for node in &self.0 {
            // Of the name alone, so that a node that joins or leaves moves no other.
            let piece = node.name.bytes().fold(0, |sum: u32, byte| (sum + u32::from(byte)) % PIECES);
            let line = pieces.entry(piece).or_default();
            *line += &node.to_string();
            line.push('\n');
        }
        pieces.into_iter().map(|(piece, text)| (format!("nodes-{piece:02}"), text)).collect()
    }
}

impl fmt::Display for KnownNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.ip)?;
        self.gone.map_or(Ok(()), |gone| write!(f, " {}", gone.to_rfc3339_opts(SecondsFormat::Millis, true)))
    }
}

impl Known {
    /// From what was noted, in whatever pieces. A line that does not read is left out: better a node forgotten than
    /// none known.
    #[must_use]
    pub fn parse<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Self {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let (name, ip, gone) = (words.next()?, words.next()?.parse().ok()?, words.next());
            let gone = gone.map(|time| DateTime::parse_from_rfc3339(time).map(|t| t.to_utc())).transpose().ok()?;
            Some(KnownNode { name: name.into(), ip, gone })
        };
        let mut nodes: Vec<KnownNode> = pieces.into_iter().flat_map(str::lines).filter_map(line).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes.dedup_by(|a, b| a.name == b.name);
        Self(nodes)
    }

    /// Those that are gone.
    #[must_use]
    pub fn gone(&self) -> Vec<GoneNode> {
        let gone = |node: &KnownNode| Some(GoneNode { name: node.name.clone(), ip: node.ip, since: node.gone? });
        self.0.iter().filter_map(gone).collect()
    }

    /// Names and addresses of all that are known.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.0.iter().map(|node| (&*node.name, node.ip))
    }

    /// What is known now. `nodes` is every node that matters, by name; `told` is what came of telling of some.
    #[must_use]
    pub fn now(
        &self,
        nodes: &[Arc<Node>],
        pods: &[Arc<Pod>],
        placement: &Placement,
        told: &[(GoneNode, Told)],
        now: DateTime<Utc>,
    ) -> News {
        // An agent that never ran was never heard of.
        let agents: HashSet<&str> = pods.iter().filter(|pod| pod.ready_since.is_some()).map(|pod| &*pod.node).collect();
        let mut outcomes = Vec::new();
        let mut next = Vec::with_capacity(self.0.len().max(agents.len()));
        let (mut before, mut there) = (self.0.iter().peekable(), nodes.iter().peekable());
        loop {
            let order = match (before.peek(), there.peek()) {
                (Some(known), Some(node)) => known.name.cmp(&node.name),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let known = if order.is_le() { before.next() } else { None };
            let node = if order.is_ge() { there.next() } else { None };
            next.extend(match (known, node) {
                (known, Some(node)) => {
                    // While its Pod is replaced a node has none; where agents no longer belong it is none of ours.
                    let ours = agents.contains(&*node.name)
                        || (known.is_some() && placement.verdict(node) == Verdict::Selected);
                    let ip = node.ip.or(known.map(|known| known.ip)).filter(|_| ours);
                    ip.map(|ip| KnownNode { name: node.name.clone(), ip, gone: None })
                }
                // Who has its address now must not be taken for it.
                (Some(known), None) if nodes.iter().any(|node| node.ip == Some(known.ip)) => None,
                (Some(known), None) => {
                    let node = GoneNode { name: known.name.clone(), ip: known.ip, since: known.gone.unwrap_or(now) };
                    let told = told.iter().find(|(told, _)| *told == node).map(|(_, outcome)| outcome.clone());
                    let too_late = (node.since + AT_LAST < now)
                        .then(|| Told::Not("it could not be reached for too long".to_owned()));
                    let outcome = told.or(too_late);
                    let since = node.since;
                    outcomes.extend(outcome.clone().map(|outcome| (node, outcome)));
                    outcome.is_none().then(|| KnownNode { gone: Some(since), ..known.clone() })
                }
                (None, None) => None,
            });
        }
        News { known: Self(next), outcomes }
    }
}

/// When the first of these nodes is forgotten, reported or not.
#[must_use]
pub fn forgotten_at(gone: &[GoneNode]) -> Option<DateTime<Utc>> {
    gone.iter().map(|node| node.since).min().map(|since| since + AT_LAST + TimeDelta::seconds(1))
}

/// Name of the ConfigMap that keeps the known nodes of a OneAgent.
#[must_use]
pub fn note(name: &str) -> String {
    format!("{name}-known-nodes")
}

/// What came of telling, in words: whether it went wrong, and what.
#[must_use]
pub fn sentences(told: &[(GoneNode, Told)]) -> Vec<(bool, String)> {
    let mut outcomes: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
    for (node, outcome) in told {
        let why = if let Told::Not(why) = outcome { Some(why.as_str()) } else { None };
        outcomes.entry(why).or_default().push(&node.name);
    }
    let say = |(why, nodes): (Option<&str>, Vec<&str>)| {
        let more = if nodes.len() > EXAMPLES { format!(" and {} more", nodes.len() - EXAMPLES) } else { String::new() };
        let nodes = format!("{}{more}", nodes.iter().take(EXAMPLES).copied().collect::<Vec<_>>().join(", "));
        match why {
            None => (false, format!("the environment knows now that these nodes are gone: {nodes}")),
            Some(why) => (true, format!("the environment was not told that these nodes are gone: {nodes}: {why}")),
        }
    };
    outcomes.into_iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_000_000 + second, 0).unwrap()
    }

    fn node(name: &str, last: u8) -> Arc<Node> {
        Arc::new(Node { ip: Some(IpAddr::from([10, 0, 0, last])), ..Node::named(name) })
    }

    fn pod(node: &str) -> Arc<Pod> {
        Arc::new(Pod { ready_since: Some(at(0)), ..Pod::named("p", node) })
    }

    /// As noted and read.
    fn again(known: &Known) -> Known {
        Known::parse(known.pieces().values().map(String::as_str))
    }

    fn lines(known: &Known) -> Vec<String> {
        known.0.iter().map(ToString::to_string).collect()
    }

    fn names(known: &Known) -> Vec<String> {
        known.gone().iter().map(|gone| gone.name.to_string()).collect()
    }

    #[test]
    fn a_node_with_an_agent_is_known_and_missed_and_survives_as_text() {
        let all = Placement::default();
        let nodes = [node("a", 1), node("b", 2), node("c", 3)];
        let mut starting = pod("c");
        Arc::make_mut(&mut starting).ready_since = None;
        let known = Known::default().now(&nodes, &[pod("a"), pod("b"), starting], &all, &[], at(0)).known;
        assert_eq!(lines(&known), ["a 10.0.0.1", "b 10.0.0.2"], "the agent of c never ran");
        assert_eq!(known.now(&nodes, &[], &all, &[], at(1)).known, known, "a Pod that is replaced changes nothing");
        let later = again(&known).now(&nodes[1..], &[pod("b")], &all, &[], at(5)).known;
        assert_eq!(names(&later), ["a"]);
        assert_eq!(again(&later), later);
        let same = later.now(&nodes[1..], &[pod("b")], &all, &[], at(6)).known;
        assert_eq!(same.gone()[0].since, at(5), "missed once");
        let outcomes = [(same.gone()[0].clone(), Told::Accepted)];
        let told = same.now(&nodes[1..], &[pod("b")], &all, &outcomes, at(7));
        assert_eq!((lines(&told.known), told.outcomes.as_slice()), (vec!["b 10.0.0.2".to_owned()], &outcomes[..]));
        let again = told.known.now(&nodes[1..], &[pod("b")], &all, &outcomes, at(8));
        assert_eq!(again.outcomes, [], "what came of it is said once");
        let forgotten = later.now(&nodes[1..], &[], &all, &[], at(5 + 1201));
        assert_eq!(
            (forgotten.known.gone().len(), forgotten.outcomes.len()),
            (0, 1),
            "forgotten at last, and that is said"
        );
    }

    #[test]
    fn what_came_back_or_was_unselected_or_replaced_is_not_gone() {
        let all = Placement::default();
        let known = Known::default().now(&[node("a", 1), node("b", 2)], &[pod("a"), pod("b")], &all, &[], at(0)).known;
        let gone = known.now(&[node("b", 2)], &[pod("b")], &all, &[], at(1)).known;
        assert_eq!(
            names(&gone.now(&[node("a", 1), node("b", 2)], &[], &all, &[], at(2)).known),
            [] as [&str; 0],
            "it came back"
        );
        let none = Placement { selector: [("x".to_owned(), "y".to_owned())].into(), ..Placement::default() };
        assert_eq!(
            known.now(&[node("a", 1), node("b", 2)], &[], &none, &[], at(2)).known,
            Known::default(),
            "no longer selected"
        );
        let reused = known.now(&[node("b", 2), node("c", 1)], &[pod("b")], &all, &[], at(2)).known;
        assert_eq!(names(&reused), [] as [&str; 0], "another node has its address");
    }

    #[test]
    fn nonsense_in_the_note_is_left_out() {
        let known = Known::parse(["b 10.0.0.2\n\nx\ny z\na 10.0.0.1 yesterday\na 10.0.0.1\n", "a 10.0.0.9\n"]);
        assert_eq!(lines(&known), ["a 10.0.0.1", "b 10.0.0.2"]);
    }

    #[test]
    fn a_node_that_comes_changes_one_piece() {
        let of = |count: u8| {
            Known(
                (0..count)
                    .map(|n| KnownNode { name: format!("node-{n}").into(), ip: [10, 0, 0, n].into(), gone: None })
                    .collect(),
            )
        };
        let (before, after) = (of(200).pieces(), of(201).pieces());
        let changed: Vec<_> = after.iter().filter(|(key, text)| before.get(*key) != Some(text)).collect();
        assert_eq!((before.len(), after.len(), changed.len()), (16, 16, 1));
        assert!(changed[0].1.len() < 400, "{changed:?}");
        assert_eq!(Known::parse(after.values().map(String::as_str)).0.len(), 201);
    }
}
