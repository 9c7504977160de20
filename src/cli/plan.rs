//! `plan`: what an edit of an object would do, or what is still to come without one.
//!
//! Here is what every kind has in common. Reads only, with the caller's rights. Must not judge anything itself: that is
//! the operator's own code.

use chrono::{DateTime, Utc};

use super::asked::{PodKind, Subject};
use super::duration::time;
use super::read::Edited;
use super::read::Reader;
use super::{daemonset_rollout, oneagent};
use crate::clock::Clock;
use crate::fleet::preview::Preview;
use crate::kernel::{self, Access, Reached};

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It runs the operator's own decisions on the present state of your cluster, as if every new Pod \
        became available in the time that Pods take there. It reads OneAgents, nodes, Pods, DaemonSets, the namespace \
        and a ConfigMap with versions with your rights, and writes nothing. With --kind daemonsetrollout it reads \
        DaemonSetRollouts and ControllerRevisions.\nIt takes the newest version from the status, and sends the \
        environment no request.\nIt sends a DaemonSet of the file to the API server as a dry run, for which you need \
        the right to patch and update DaemonSets.\nExit code: 0 when no Pod would be replaced, 1 when one would, 2 \
        when there is no answer."
)]
pub(super) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// Kind of the object.
    #[arg(long, value_enum, default_value_t)]
    kind: PodKind,
    /// Plan as of this time, such as 2026-12-20T02:00:00Z, or 2026-12-20 for its midnight in UTC. Default: now.
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<DateTime<Utc>>,
    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Format of the output.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Text,
    /// A list with one entry per object.
    Json,
}

/// What would become of the Pods of the objects that are asked about, with these edits.
pub(super) async fn previews(
    reached: &Reached,
    kind: PodKind,
    (subject, edited): (&Subject, Option<Edited>),
    now: DateTime<Utc>,
) -> Result<Vec<Preview>, String> {
    let reader = Reader::of(reached, kind.operator());
    match kind {
        PodKind::Oneagent => oneagent::plan::plan(reader, subject, edited, now).await,
        PodKind::Daemonsetrollout => daemonset_rollout::plan::plan(reader, subject, edited, now).await,
    }
}

/// Returns whether a Pod would be replaced.
pub(super) async fn plan(args: &Args) -> Result<bool, String> {
    let clock = Clock::default();
    let reached = kernel::reach(&Access::default(), &clock).await?;
    let now = args.at.unwrap_or_else(|| clock.now());
    let edited = args.subject.edited()?;
    let previews = previews(&reached, args.kind, (&args.subject, edited), now).await?;
    match args.output {
        Output::Text => {
            let text: Vec<String> = previews.iter().map(ToString::to_string).collect();
            crate::cli::put(format_args!("{}", text.join("\n")));
        }
        Output::Json => say!("{}", serde_json::to_string_pretty(&previews).map_err(|error| error.to_string())?),
    }
    Ok(previews.iter().any(|preview| preview.restarts > 0))
}
