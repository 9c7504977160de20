//! Buckets: every selected place has an available agent, or is in exactly one bucket that says why not.
//!
//! Here because the budget, the failures and the status must come from one reading of the fleet. Must not decide
//! what to do about it.

use chrono::{DateTime, TimeDelta, Utc};

use super::cause::{Bucket, Cause, Start};
use super::cell::{Cell, Heard, Judge};
use super::place::{Occupant, Place, Pod, Revision, Selection, Standing, Trouble};
use super::reading::Reading;
use super::verdict::went_since;
use super::{Desired, Inventory, Policy, Rules};

/// A Pod whose deletion takes longer than its grace period by so much is said to be stuck.
const STUCK: TimeDelta = TimeDelta::seconds(60);
/// An agent that ceases to be Ready is said to lack after so long.
const MOMENT: TimeDelta = TimeDelta::seconds(3);

/// Reads the fleet.
pub(super) fn read<'r, 'a, R: Revision>(
    rules: &'r Rules<R>,
    policy: &'r Policy,
    desired: Option<&'r Desired<R>>,
    inventory: &'r Inventory<'a, R>,
    now: DateTime<Utc>,
) -> Reading<'r, 'a, R> {
    let mut reading = Reading::new(rules, policy, inventory, now);
    let is_selected = |place: &&Place<'_, R>| place.selection == Selection::Selected;
    let is_outdated =
        |place: &Place<'_, R>| place.occupant.is_some_and(|occupant| occupant.standing == Standing::Outdated);
    let advanced = inventory.template.is_some() && inventory.template == desired.map(|d| &d.revision);
    let some_outdated = || inventory.places.iter().filter(is_selected).any(is_outdated);
    let rolling = inventory.memory.began().is_some() || (advanced && some_outdated());
    let judge = Judge { rules, policy, desired, inventory, rolling, now };
    for place in inventory.places {
        match &place.selection {
            Selection::Selected => reading.cells.push(judge.cell(place)),
            Selection::Closed(closed) => {
                // A Pod that we made and that never ran shows it; where there is none, only the ledger knows.
                let never_ran = |pod: &Pod<R>| pod.ready_since.is_none() && !pod.was_available(policy);
                let is_new = place.occupant.is_some_and(|occupant| never_ran(occupant.pod));
                let is_touched = || judge.heard(place).is_some_and(|(why, _)| why == Heard::Touched);
                let made = is_new && is_touched() && !judge.was_broken(place);
                reading.close(place, closed, made);
            }
            Selection::NotSelected => {}
        }
    }
    rules.excused.iter().for_each(|(_, rule)| rule(&mut reading.cells, policy, now));
    reading.mass_outage = rules.mass_outage.iter().find_map(|(_, rule)| rule(&reading));
    reading
}

impl<'a, R: Revision> Judge<'_, 'a, R> {
    fn cell(&self, place: &'a Place<'a, R>) -> Cell<'a, R> {
        let mut cell = Cell {
            place,
            cause: None,
            touched: false,
            touched_at: None,
            heard_at: None,
            has_joined: false,
            freed: self.inventory.freed.contains(place.name),
            is_open: false,
            is_broken: false,
            is_in_flight: false,
            is_external: false,
            counts_as_failure: false,
            suspect: false,
            pending: false,
            blinks: false,
            unplanned: self.is_unplanned(place),
            until: None,
            deadline: None,
        };
        let heard = self.heard(place);
        let touched_at = heard.filter(|(why, _)| *why == Heard::Touched).map(|(_, at)| at);
        (cell.touched, cell.touched_at) = (touched_at.is_some(), touched_at);
        cell.heard_at = heard.map(|(_, at)| at);
        cell.has_joined = heard.is_some() && !cell.touched;
        cell.unplanned |= cell.has_joined;
        cell.cause = self.cause(place, touched_at, &mut cell.until);
        cell.deadline = cell.until;
        // One of the second in which the rollout began is said to have been there before once it has run for long.
        let runs_at = |pod: &Pod<R>| pod.ready_since.map(|since| since + self.policy.min_ready);
        let pod = place.occupant.map(|occupant| occupant.pod).filter(|pod| touched_at == Some(pod.created));
        let has_run = pod.and_then(|pod| runs_at(pod)).filter(|at| *at > self.now);
        cell.until = cell.until.into_iter().chain(has_run).min();
        cell.is_open = self.rules.open.iter().all(|(_, rule)| rule(&cell));
        if let Some(bucket) = cell.bucket() {
            cell.is_external = self.is_external(bucket);
            cell.is_broken = self.rules.broken.iter().all(|(_, rule)| rule(bucket));
            cell.is_in_flight = self.rules.counts.iter().any(|(_, rule)| rule(self, &cell, bucket));
        }
        self.rules.judged.iter().for_each(|(_, rule)| rule(self, &mut cell));
        cell
    }

    /// Why a place is heard, and since when.
    fn heard(&self, place: &Place<'_, R>) -> Option<(Heard, DateTime<Utc>)> {
        self.rules.heard.iter().find_map(|(_, rule)| rule(self, place))
    }

    fn is_unplanned(&self, place: &Place<'_, R>) -> bool {
        let template = self.inventory.template;
        let elsewhere = template.is_some() && self.desired.is_some_and(|desired| template != Some(&desired.revision));
        let Some(began) = self.inventory.memory.started().filter(|_| elsewhere) else { return false };
        place.occupant.is_some_and(|Occupant { pod, .. }| pod.revision.as_ref() == template && pod.created > began)
    }

    /// When this rollout touched a place. What this process did it knows; what was done before it is read from the
    /// cluster, and where that does not say, the place counts as touched: that only slows us.
    fn touched_at(&self, place: &Place<'_, R>) -> Option<DateTime<Utc>> {
        if let Some(at) = self.inventory.lost.get(place.name) {
            return Some(*at);
        }
        if place.occupant.is_some_and(|occupant| self.inventory.deleted.contains(&occupant.pod.id)) {
            return Some(self.now);
        }
        let began = self.inventory.memory.began();
        if !self.rolling || !self.was_there(place) {
            return None;
        }
        let Some(Occupant { pod, standing }) = place.occupant else {
            let known = began.is_some_and(|began| began > self.inventory.deciding_since);
            let since = self.inventory.missing.get(place.name).copied().unwrap_or(self.now);
            return (!known).then_some(since);
        };
        // Of replicas the kind says which are new, by one clock.
        let is_new = if self.inventory.workloads.is_empty() {
            // One that was made in the same second from what completed last was there before.
            let good = self.inventory.memory.last_good.as_ref().filter(|_| !self.is_from_desired(pod));
            let is_away = self.inventory.memory.touched.away.contains_key(&**place.name);
            let ran_for = pod.ready_since.map(|since| self.now - since).or(pod.was_ready);
            let has_run = ran_for.is_some_and(|ran| ran >= self.policy.min_ready);
            let is_of_before = has_run && !is_away && pod.revision.is_some() && pod.revision.as_ref() == good;
            let since = |began| pod.created > began || (pod.created == began && !is_of_before);
            began.map_or_else(|| self.is_from_desired(pod), since)
        } else {
            standing == Standing::Current
        };
        if is_new {
            return Some(pod.created);
        }
        (pod.deleting && standing == Standing::Outdated).then(|| pod.gone_by.unwrap_or(self.now))
    }

    /// Whether a place was there when the rollout began.
    fn was_there(&self, place: &Place<'_, R>) -> bool {
        let began = self.inventory.memory.began();
        // The API's times are whole seconds, so within the same second too.
        self.inventory.memory.touched.joined_after.or(began).is_none_or(|last| place.joined <= last)
    }

    /// Why a place has no available agent; `None`: it has.
    fn cause(
        &self,
        place: &Place<'_, R>,
        touched_at: Option<DateTime<Utc>>,
        until: &mut Option<DateTime<Utc>>,
    ) -> Option<Cause> {
        if !place.is_ready {
            return Some(self.away(place, touched_at));
        }
        let Some(Occupant { pod, .. }) = place.occupant else {
            let ended = place.loss.and_then(|loss| loss.why.clone());
            return Some(self.without_pod(place, ended, touched_at, until));
        };
        if pod.deleting || self.inventory.deleted.contains(&pod.id) {
            let stuck = pod.gone_by.map(|by| by + STUCK);
            let is_stuck = stuck.is_some_and(|stuck| stuck <= self.now);
            if is_stuck {
                return Some(Cause::Terminating(true));
            }
            *until = stuck;
            // One that never ran and is taken away by others is as good as gone: what ended it is still the reason.
            let ended = why_ended(place, pod).filter(|_| !self.inventory.deleted.contains(&pod.id));
            if ended.is_some() {
                return Some(self.without_pod(place, ended, touched_at, until));
            }
            return Some(Cause::Terminating(false));
        }
        if let Some(since) = pod.ready_since {
            let available = since + self.policy.min_ready;
            // Without a wait the clocks of two machines need not agree.
            if self.policy.min_ready.is_zero() || available <= self.now {
                return None;
            }
            *until = Some(available);
            return Some(Cause::Starting(Start::Settling(self.policy.min_ready.num_seconds())));
        }
        // A cordon of a node whose new agent crashes takes no vote away: that Pod is as bad as before.
        let crashes = matches!(pod.trouble, Some(Trouble::Crash(_))) && !place.is_left_out;
        match &place.busy {
            Some(why) if !(crashes && touched_at.is_some() && self.is_from_desired(pod)) => {
                Some(Cause::NodeBusy(why.clone()))
            }
            _ => Some(self.unready(place, pod, touched_at, until)),
        }
    }

    /// A place that is NotReady.
    fn away(&self, place: &Place<'_, R>, touched_at: Option<DateTime<Utc>>) -> Cause {
        // Had a user cordoned it while it was Ready, the ledger would have let it go.
        let is_lost = self.inventory.lost.contains_key(place.name);
        if is_lost || self.inventory.memory.touched.away.contains_key(&**place.name) {
            return Cause::NodeLost;
        }
        if let Some(why) = &place.busy {
            return Cause::NodeBusy(why.clone());
        }
        if touched_at.is_some_and(|touched| went_since(place, touched)) { Cause::NodeLost } else { Cause::NodeNotReady }
    }

    /// Since when a place has no agent although Pods came and went. One whose agent we took has its time, unless what
    /// came since ended on its own.
    fn futile(&self, place: &Place<'_, R>, touched_at: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
        let loss = place.loss.filter(|loss| loss.is_futile)?;
        if touched_at.is_none() {
            return Some(loss.since);
        }
        let taken_at = self.inventory.lost.get(place.name).filter(|_| loss.why.is_some())?;
        Some(loss.since.max(*taken_at))
    }

    fn without_pod(
        &self,
        place: &Place<'_, R>,
        ended: Option<String>,
        touched_at: Option<DateTime<Utc>>,
        until: &mut Option<DateTime<Utc>>,
    ) -> Cause {
        if let Some(why) = &place.busy {
            return Cause::NodeBusy(why.clone());
        }
        if let Some(refused) = self.inventory.refused {
            return Cause::Admission(refused.to_owned());
        }
        let missing = self.inventory.missing.get(place.name).copied().unwrap_or(self.now);
        let since = self.futile(place, touched_at).map_or(missing, |since| missing.min(since));
        let since = since.max(self.inventory.in_contact_since);
        let deadline = place.ready_since.map_or(since, |ready| since.max(ready)) + self.policy.wait_ready;
        let seconds = self.policy.wait_ready.num_seconds();
        if deadline <= self.now {
            return ended.map_or(Cause::Overdue(Start::NotMade), |why| Cause::Pulling(seconds, why));
        }
        *until = Some(until.map_or(deadline, |other| other.min(deadline)));
        Cause::Starting(ended.map_or(Start::NotMade, |why| Start::NotReady(seconds, Some(why))))
    }

    fn unready(
        &self,
        place: &Place<'_, R>,
        pod: &Pod<R>,
        touched_at: Option<DateTime<Utc>>,
        until: &mut Option<DateTime<Utc>>,
    ) -> Cause {
        // Before a container is started, what ended the Pod before is the best that is known of this one.
        let ended = place.loss.and_then(|loss| loss.why.clone());
        let is_unstarted = matches!(pod.trouble, Some(Trouble::Unstarted(_) | Trouble::Unbound));
        let ended = ended.filter(|_| is_unstarted).map(Trouble::Ended);
        let trouble = ended.as_ref().or(pod.trouble.as_ref());
        let said = match trouble {
            Some(Trouble::Crash(why)) => return Cause::Crash(why.clone()),
            Some(Trouble::Image(why)) => return Cause::Image(why.clone()),
            Some(Trouble::Config(why)) => return Cause::Config(why.clone()),
            Some(Trouble::Capacity(why)) => return Cause::Capacity(why.clone()),
            Some(Trouble::Start(why) | Trouble::Unstarted(why) | Trouble::Ended(why)) => Some(why.clone()),
            Some(Trouble::Unbound) | None => None,
        };
        let seconds = self.policy.wait_ready.num_seconds();
        let start = match pod.was_ready {
            _ if trouble == Some(&Trouble::Unbound) => Start::NotBound,
            Some(_) => Start::Ceased(seconds, said),
            None => Start::NotReady(seconds, said),
        };
        // An agent that was Ready, that was bound late, or whose node was unreachable, gets its time again; so do all
        // when the API server was unreachable.
        let since = [pod.unready_since, place.ready_since, Some(self.inventory.in_contact_since)];
        let own = since.into_iter().flatten().fold(pod.created, DateTime::max);
        let known = [place.ready_since, Some(self.inventory.in_contact_since)].into_iter().flatten();
        let since = self.futile(place, touched_at).map_or(own, |lost| known.fold(lost, DateTime::max).min(own));
        let deadline = since + self.policy.wait_ready;
        if deadline > self.now {
            *until = Some(deadline);
            return Cause::Starting(start);
        }
        match trouble {
            Some(Trouble::Unstarted(why) | Trouble::Ended(why)) => {
                Cause::Pulling(self.policy.wait_ready.num_seconds(), why.clone())
            }
            _ => Cause::Overdue(start),
        }
    }
}

/// What was touched is heard.
pub(super) fn is_touched<R: Revision>(
    judge: &Judge<'_, '_, R>,
    place: &Place<'_, R>,
) -> Option<(Heard, DateTime<Utc>)> {
    judge.touched_at(place).map(|at| (Heard::Touched, at))
}

/// Where the template is not ours, a place that joined meanwhile with the desired revision is heard: whether it should
/// have it was not asked.
pub(super) fn has_joined<R: Revision>(
    judge: &Judge<'_, '_, R>,
    place: &Place<'_, R>,
) -> Option<(Heard, DateTime<Utc>)> {
    let is_foreign = !judge.inventory.writes_template && judge.inventory.workloads.is_empty();
    let is_heard = is_foreign && judge.rolling && !judge.was_there(place);
    let pod = place.occupant.filter(|_| is_heard)?.pod;
    judge.is_from_desired(pod).then_some((Heard::Joined, pod.created))
}

/// What was touched fills the budget until it is available. Where no agent was available before, none is missing
/// because of us.
pub(super) fn is_ours<R: Revision>(judge: &Judge<'_, '_, R>, cell: &Cell<'_, R>, bucket: Bucket) -> bool {
    cell.touched && bucket != Bucket::NodeBusy && !judge.was_broken(cell.place)
}

/// An agent that has not been Ready for a moment only is said to run: a single probe that fails is no news. One whose
/// Pod is another one is news.
pub(super) fn blinks<R>(judge: &Judge<'_, '_, R>, cell: &mut Cell<'_, R>) {
    if !cell.has_lost() || !cell.cause.as_ref().is_some_and(Cause::has_ceased) {
        return;
    }
    let unready = cell.pod().and_then(|pod| pod.unready_since);
    let since = cell.place.loss.map(|loss| loss.since).or(unready);
    let Some(until) = since.map(|since| since + MOMENT).filter(|until| *until > judge.now) else { return };
    cell.blinks = true;
    cell.until = cell.until.into_iter().chain([until]).min();
}

/// What ended a Pod that never ran, or the one before it.
fn why_ended<R>(place: &Place<'_, R>, pod: &Pod<R>) -> Option<String> {
    let own = match &pod.trouble {
        Some(Trouble::Ended(why)) => Some(why.clone()),
        _ => None,
    };
    let has_run = pod.ready_since.is_some() || pod.was_ready.is_some();
    own.or_else(|| place.loss.and_then(|loss| loss.why.clone())).filter(|_| !has_run)
}
