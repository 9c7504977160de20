//! When a run that came to nothing is followed by another one.
//!
//! Pure. Must not judge a JVM.

use chrono::{DateTime, TimeDelta, Utc};

use super::run::{Came, Held, Run, Why};
use crate::api::jmx_exporter::obstacle::Obstacle;

/// What may have changed is looked at again after so long, and four times as long each time.
const AGAIN: TimeDelta = TimeDelta::seconds(30);
/// The kubelet's copy of a ConfigMap follows soon.
pub const SOON: TimeDelta = TimeDelta::seconds(5);

/// When what kept a run from its aim may have changed; `None`: not while this container runs. `to`: when it ended;
/// `runs`: how many joined the container.
#[must_use]
pub fn again_at(why: Why, to: DateTime<Utc>, runs: usize, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let first = match why {
        Why::Void => SOON,
        Why::Silent
        | Why::Obstacle(
            Obstacle::NoJvm
            | Obstacle::ScrapeFailed
            | Obstacle::SeveralJvms
            | Obstacle::LowMemory
            | Obstacle::PortInUse
            | Obstacle::LoadedBefore
            | Obstacle::NotReachable,
        ) => AGAIN,
        Why::Obstacle(_) | Why::NotTaken => return None,
    };
    let times_before = u32::try_from(runs.saturating_sub(1)).unwrap_or(u32::MAX).min(8);
    // A kubelet's clock that is ahead ends no wait.
    Some(to.min(now) + first * 4_i32.saturating_pow(times_before))
}

/// The same of a run that only brings another configuration: a full disk may be better the next time.
#[must_use]
pub fn rewritten_again_at(why: Why, to: DateTime<Utc>, runs: usize, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let is_passing = matches!(why, Why::Obstacle(Obstacle::ReadOnlyTmp));
    again_at(if is_passing { Why::Silent } else { why }, to, runs, now)
}

/// Whether a run that never began is waited for. Past its time it comes to nothing; another one would fare no better
/// only while its image cannot be pulled. `image`: what another one would run.
#[must_use]
pub fn may_begin(run: &Run, image: &str, now: DateTime<Utc>) -> bool {
    let waits_for_image = matches!(&run.came, Came::Awaited(Some(Held { is_image: true, .. })));
    let is_current = image.is_empty() || *run.asked.image == *image;
    (waits_for_image && is_current) || now < run.ends_by()
}
