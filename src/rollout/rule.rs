//! The engine's rules by name, so that a test can break one and see who notices.
//!
//! Outside of tests every rule holds, and the compiler leaves the question out. Must not be asked by anything but the
//! engine.

/// A rule, as docs and design number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumIter)]
pub enum Rule {
    /// 0: when a rollout stops for failure the template is put back.
    GoesBack,
    /// 0: while canaries prove themselves the template is the last good one.
    Apart,
    /// 1: nothing is replaced before the workload's controller has seen the template.
    Settled,
    /// 2: nothing is replaced in a pause, or while everything is stopped.
    Hold,
    /// 3: nothing is replaced outside of windows, or in a blackout.
    Calendar,
    /// 3: no running agent is replaced while a third of the places is unreachable.
    MassOutage,
    /// 4: what was touched fills the budget until it is available.
    Budget,
    /// 5: broken ones are at most the budget at a time, too.
    Broken,
    /// 5: what starts is not replaced.
    Starting,
    /// 6: a new revision is seen by canaries first.
    Canary,
    /// 6: where a person promotes, the others wait for that.
    Promotion,
    /// 7: zone by zone.
    Zones,
    /// 7: as many of a zone as it allows.
    PerZone,
    /// 8: a place that is being worked on is left alone.
    Courtesy,
    /// 9: as many failures as are allowed stop a rollout.
    Failure,
    /// 9: where the template is not ours, places that joined are heard.
    Joined,
    /// 9: what a person rejects has failed.
    Rejection,
    /// 9: one that crashes again and again counts as failed in between, too.
    Sticky,
    /// 9: a rollout in which nothing moves but what fails has failed.
    Standstill,
    /// 9: external trouble rejects nothing.
    World,
    /// 9: an outage of nodes is no verdict.
    Outage,
    /// 9: a running agent does not go back while the verdict may yet be withdrawn.
    Patience,
    /// 9: trouble of a few places does not hold the others for good.
    Others,
    /// 9: a verdict is withdrawn when those that failed recover.
    Withdrawal,
    /// 9: going back is tried on one first.
    Trial,
    /// An up-to-date, available Pod is never replaced.
    UpToDate,
}

/// Whether a rule holds.
#[cfg(not(test))]
#[inline]
pub(super) const fn holds(_rule: Rule) -> bool {
    true
}

#[cfg(test)]
pub(super) use broken::holds;

#[cfg(test)]
pub mod broken {
    //! One rule at a time, in one thread.

    use std::cell::Cell;

    use super::Rule;

    thread_local! {
        static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    #[must_use]
    pub fn holds(rule: Rule) -> bool {
        BROKEN.get() != Some(rule)
    }

    /// Whether all do.
    #[must_use]
    pub fn none() -> bool {
        BROKEN.get().is_none()
    }

    /// Whether a test notices that a rule is broken.
    pub fn is_noticed(rule: Rule, by: fn()) -> bool {
        BROKEN.set(Some(rule));
        let told = std::panic::catch_unwind(by);
        BROKEN.set(None);
        told.is_err()
    }
}
