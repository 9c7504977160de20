//! Waiting: what is asked again and again until it is so.
//!
//! Must not know what is waited for.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// How long a test waits for what should take a moment, on a machine that has several times its work to do.
pub const SOON: Duration = Duration::from_secs(240);
/// How long it waits for a rollout.
pub const LONG: Duration = Duration::from_secs(600);

/// Whether a Pod is Ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Asks again and again until there is an answer, and returns it; on time-out fails with what was waited for and the
/// last answer.
pub async fn eventually<F, Fut, T>(what: &str, within: Duration, mut ask: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, String>>,
{
    let end = tokio::time::Instant::now() + within;
    let mut pause = Duration::from_millis(30);
    loop {
        let answer = ask().await;
        match answer {
            Ok(answer) => return answer,
            Err(last) if tokio::time::Instant::now() >= end => {
                panic!("not within {within:?}: {what}; last seen: {last}")
            }
            Err(_) => {
                tokio::time::sleep(pause).await;
                // What takes long is asked for less often: the cores belong to what is tested.
                pause = (pause * 5 / 4).min(Duration::from_millis(200));
            }
        }
    }
}
