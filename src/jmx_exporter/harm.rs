//! Harm: what a container of ours did to the JVM that it joined, as its Pod shows it.
//!
//! Pure. Must not judge what follows.

use chrono::{DateTime, TimeDelta, Utc};

use super::run::{Came, Joined, Refused, Run, Times, Why};
use super::target::Target;
use crate::api::jmx_exporter::obstacle::Obstacle;
use crate::attach::PASSING;

/// A kubelet says in whole seconds when containers ended, one after the other, and on a node under load late.
const TOGETHER: TimeDelta = TimeDelta::seconds(10);

/// What a run did to its JVM, in words.
#[must_use]
pub fn harm_of(target: &Target, run: &Run) -> Option<String> {
    if matches!(run.joined, Joined::Ended { is_done: true, .. }) {
        // A load never ends a JVM with exit code 0: it was done with its own work.
        return None;
    }
    match &run.came {
        Came::Refused(_, refused) if refused.why == Why::Obstacle(Obstacle::Harmed) => Some(refused.message.clone()),
        Came::Refused(times, refused) if was_at_work(times, refused) && ended_with(run, times.to) => {
            let said = match refused.why {
                Why::Silent => "could say nothing any more".to_owned(),
                _ => format!("said: {}", refused.message),
            };
            Some(format!("container {} ended while {} was at work in it, which {said}", run.asked.target, run.name))
        }
        // It watched the JVM for ten seconds after the load, and then ended.
        Came::Exports(Times { loaded, to }) | Came::Refused(Times { loaded, to }, _) => {
            let loaded = loaded.as_ref()?;
            let went = target.unready_since.filter(|at| at >= loaded && at <= to)?;
            Some(format!("the Pod ceased to be Ready at {}, when its JVM loaded the exporter", went.format("%TZ")))
        }
        Came::Awaited(_) => None,
    }
}

/// Whether a run had touched the JVM, or may have.
fn was_at_work(times: &Times, refused: &Refused) -> bool {
    refused.why == Why::Silent || times.loaded.is_some()
}

/// Whether the container that a run joined ended with it. One that began a moment before has not been touched: a JVM
/// must have lived for a while.
fn ended_with(run: &Run, at: DateTime<Utc>) -> bool {
    let Joined::Ended { from, to, .. } = run.joined else { return false };
    (to - at).abs() <= TOGETHER && (to - from).to_std().is_ok_and(|lived| lived >= PASSING)
}
