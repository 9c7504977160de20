//! The ledger: what went because of us and is not back, as far as this process knows.
//!
//! Pure: it is told what was done and what the watches show. What was done before this process it does not know; that
//! is read from the cluster. Must not choose a Pod.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::Policy;
use super::guard::Guard;
use super::place::{Place, Pod, Selection};

/// A deletion that the watch does not show for so long never happened: its answer was lost, or it was given up.
const BELIEVED: TimeDelta = TimeDelta::seconds(90);

/// What went and is not back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Places whose Pod we deleted and that have no agent yet.
    places: HashMap<Arc<str>, Lost>,
    /// What we deleted and the watch may still show, by id.
    sent: HashMap<Arc<str>, Sent>,
}

/// A deletion that the watch may not show yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    at: DateTime<Utc>,
    /// Of which workload, where places are replicas: once the watch shows it, the workload's own count does.
    workload: Option<Arc<str>>,
    costs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lost {
    at: DateTime<Utc>,
    /// Whether a running agent was lost.
    costs: bool,
    successor: Successor,
}

impl Lost {
    fn new(at: DateTime<Utc>, costs: bool) -> Self {
        Self { at, costs, successor: Successor::Missing }
    }

    /// Whether it counts now. Where the place is being worked on, or should have no agent, it does again once that is
    /// over.
    fn counts(&self) -> bool {
        self.successor != Successor::Left
    }
}

/// What a deletion noted, so that it can be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    id: Arc<str>,
    /// The place, if it was not lost before.
    place: Option<Arc<str>>,
}

/// How far the new agent of a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Successor {
    /// There is no Pod, or it is being deleted.
    Missing,
    /// There is a Pod that is not Ready.
    Unready,
    /// Ready, but not for long enough.
    Ready,
    /// None is available, and for now that is not ours to wait for.
    Left,
    /// Available.
    Settled,
}

impl Ledger {
    /// Takes note of a deletion before it is sent; `None`: the guard forbids it.
    pub fn begin(&mut self, guard: &Guard, place: &Arc<str>, id: &Arc<str>, now: DateTime<Utc>) -> Option<Entry> {
        let costs = guard.costs(id);
        if let Some(workload) = guard.workload(id) {
            let is_other = |sent: &&Sent| sent.costs == costs && sent.workload.as_ref() == Some(workload);
            let others = self.sent.values().filter(is_other).count();
            let sent = Sent { at: now, workload: Some(workload.clone()), costs };
            let admitted = !self.sent.contains_key(id) && guard.admits(id, others);
            return admitted.then(|| {
                self.sent.insert(id.clone(), sent);
                Entry { id: id.clone(), place: None }
            });
        }
        let others =
            || self.places.iter().filter(|(name, lost)| lost.costs == costs && lost.counts() && *name != place);
        let in_zone = || guard.admits_in_zone(place, others().map(|(name, _)| &**name));
        if !guard.admits(id, others().count()) || (costs && !in_zone()) {
            return None;
        }
        self.sent.insert(id.clone(), Sent { at: now, workload: None, costs });
        if self.places.get(place).is_some_and(|lost| lost.costs || !costs) {
            return Some(Entry { id: id.clone(), place: None });
        }
        self.places.insert(place.clone(), Lost::new(now, costs));
        Some(Entry { id: id.clone(), place: Some(place.clone()) })
    }

    /// Takes back what a deletion noted that was refused; a place that was lost before stays so.
    pub fn undo(&mut self, entry: &Entry) {
        self.sent.remove(&entry.id);
        if let Some(place) = &entry.place {
            self.places.remove(place);
        }
    }

    /// Without what the watches have shown: ids that are gone or terminating, places with an available agent again.
    #[must_use]
    pub fn settled<R>(&self, policy: &Policy, places: &[Place<'_, R>], now: DateTime<Utc>) -> Self {
        if self.places.is_empty() && self.sent.is_empty() {
            return Self::default();
        }
        let known = places.iter().filter(|place| self.places.contains_key(place.name));
        let known: HashMap<&str, &Place<'_, R>> = known.map(|place| (&**place.name, place)).collect();
        let shown: HashSet<&str> = places
            .iter()
            .filter_map(|place| place.occupant)
            .filter(|occupant| !occupant.pod.deleting)
            .map(|occupant| &*occupant.pod.id)
            .collect();
        let settle = |(name, lost): (&Arc<str>, &Lost)| {
            let successor = known.get(&**name).map_or(Successor::Settled, |place| self.successor(policy, place, now));
            // Where no agent ran before, none is waited for once there is another Pod, or can be none.
            let is_open = || known.get(&**name).is_some_and(|place| place.selection == Selection::Selected);
            let is_awaited = || successor == Successor::Missing && is_open();
            let stays = if lost.costs { successor != Successor::Settled } else { is_awaited() };
            stays.then(|| (name.clone(), Lost { successor, ..*lost }))
        };
        Self { places: self.places.iter().filter_map(settle).collect(), ..self.shown(|id| shown.contains(id), now) }
    }

    /// Without the deletions that the watch has shown: the Pod is gone, or said to be terminating.
    #[must_use]
    pub fn shown(&self, is_still_there: impl Fn(&str) -> bool, now: DateTime<Utc>) -> Self {
        let stays = |(id, sent): &(&Arc<str>, &Sent)| is_still_there(id) && now - sent.at < BELIEVED;
        let sent = self.sent.iter().filter(stays).map(|(id, sent)| (id.clone(), sent.clone())).collect();
        Self { places: HashMap::new(), sent }
    }

    /// Takes note of places that an operator before this one left without an agent: should they be closed, the cluster
    /// does not show it any more.
    pub fn inherit(&mut self, places: &[(Arc<str>, DateTime<Utc>)]) {
        for (place, at) in places {
            self.places.entry(place.clone()).or_insert(Lost::new(*at, true));
        }
    }

    /// How many available replicas of a workload were deleted that the watch may still show.
    #[must_use]
    pub fn in_flight(&self, workload: &str) -> usize {
        self.sent.values().filter(|sent| sent.costs && sent.workload.as_deref() == Some(workload)).count()
    }

    /// A place that we touched counts until it has an agent again, whatever keeps it from that; one that is drained or
    /// no longer ours does not for as long as that lasts, and one that is gone is none.
    fn successor<R>(&self, policy: &Policy, place: &Place<'_, R>, now: DateTime<Utc>) -> Successor {
        let is_ours = match &place.selection {
            Selection::Selected => true,
            Selection::Closed(closed) => closed.may_open,
            Selection::NotSelected => false,
        };
        // While it is NotReady that is unknown.
        let is_left = !is_ours || (place.is_ready && place.busy.is_some());
        match self.agent(policy, place, now) {
            Successor::Settled => Successor::Settled,
            _ if is_left => Successor::Left,
            successor => successor,
        }
    }

    fn agent<R>(&self, policy: &Policy, place: &Place<'_, R>, now: DateTime<Utc>) -> Successor {
        let is_there = |pod: &&Arc<Pod<R>>| !pod.deleting && !self.sent.contains_key(&pod.id);
        let Some(pod) = place.occupant.map(|occupant| occupant.pod).filter(is_there) else { return Successor::Missing };
        let Some(since) = pod.ready_since.filter(|_| place.is_ready) else { return Successor::Unready };
        // As in the plan: without a wait the clocks of two machines need not agree.
        if policy.min_ready.is_zero() || since + policy.min_ready <= now {
            Successor::Settled
        } else {
            Successor::Ready
        }
    }

    /// Ids that were deleted and that the watch may still show.
    #[must_use]
    pub fn deleted(&self) -> HashSet<Arc<str>> {
        self.sent.keys().cloned().collect()
    }

    /// Places that lost a running agent by us and have none yet, with the time of the deletion.
    #[must_use]
    pub fn lost(&self) -> HashMap<Arc<str>, DateTime<Utc>> {
        let lost = self.places.iter().filter(|(_, lost)| lost.costs && lost.counts());
        lost.map(|(place, lost)| (place.clone(), lost.at)).collect()
    }

    /// Places that lost a broken agent by us and have no Pod yet.
    #[must_use]
    pub fn freed(&self) -> HashSet<Arc<str>> {
        self.places.iter().filter(|(_, lost)| !lost.costs).map(|(place, _)| place.clone()).collect()
    }

    /// When the first deletion that no watch has shown ceases to be believed.
    #[must_use]
    pub fn believed_until(&self) -> Option<DateTime<Utc>> {
        self.sent.values().map(|sent| sent.at + BELIEVED).min()
    }

    /// When the latest Pod was deleted whose replacement is not Ready yet.
    #[must_use]
    pub fn latest(&self) -> Option<DateTime<Utc>> {
        let awaited = |lost: &&Lost| lost.costs && lost.counts() && lost.successor != Successor::Ready;
        self.places.values().filter(awaited).map(|lost| lost.at).max()
    }
}
