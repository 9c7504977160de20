//! The state of a JVM, and what a run that came to nothing makes of it.
//!
//! Pure. Must not judge a Pod.

use super::run::{Came, Held, Refused, Run, Why};
use crate::api::jmx_exporter::obstacle::Obstacle;

/// The state of a JVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// No container of its Pod runs yet.
    Starting,
    /// It exports as desired.
    Exporting,
    /// Its turn will come.
    Waiting,
    /// A container of ours is at work.
    Changing,
    /// It is left alone.
    Refused(Obstacle, String),
    /// It failed with what it was to export, which counts against that.
    Failed(Obstacle, String),
}

/// The state of a JVM whose run never began, while its kubelet says why and keeps trying: another one would fare no
/// better, and would stay in the Pod, too.
#[must_use]
pub fn held(run: &Run) -> Option<State> {
    let Came::Awaited(Some(Held { is_image, why })) = &run.came else { return None };
    Some(State::Refused(if *is_image { Obstacle::HelperImage } else { Obstacle::HelperFailed }, why.clone()))
}

/// The state of a JVM whose run ended so.
#[must_use]
pub fn refused_for(refused: &Refused) -> State {
    match refused.why {
        Why::Obstacle(obstacle) => State::Refused(obstacle, refused.message.clone()),
        Why::NotTaken => State::Refused(Obstacle::ConfigRejected, refused.message.clone()),
        Why::Void => State::Waiting,
        Why::Silent => State::Refused(Obstacle::HelperFailed, refused.message.clone()),
    }
}
