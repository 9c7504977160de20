//! `kubectl oneagent`: what can be typed, and what each verb is.
//!
//! One file per verb. Readers send reads alone; a verb that writes prints the kubectl command that does the same. Must
//! not judge anything: that is the operator's own code.

mod bundle;
mod complete;
mod dashboard;
mod earlier;
mod goal;
#[cfg(test)]
mod goldens;
mod history;
mod lint;
mod live;
mod managed;
mod object;
mod overview;
mod paint;
mod planned;
mod redact;
mod simulate;
mod status;
mod steer;
mod stop;
mod version;
mod view;
mod wait;
mod watched;
mod wording;

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{CommandFactory, Parser, Subcommand};
use serde::Serialize;

use super::asked::Subject;
use super::duration::time;
use super::oneagent::check;
use super::{commands, plan, put_data};
use crate::clock::Clock;
use crate::fleet::finding::Kind;
use crate::kernel::{self, Access, Reached};
use managed::Managed;
use paint::Screen;

/// As it should be.
const WELL: u8 = 0;
/// A person must act; for `plan`: Pods would be replaced.
const ACT: u8 = 1;
/// There is no answer.
const NO_ANSWER: u8 = 2;
/// Still under way.
const UNDER_WAY: u8 = 3;

/// See and steer the rollouts of OneAgents, DaemonSetRollouts and ConfigWatchers.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-oneagent",
    bin_name = "kubectl oneagent",
    version,
    long_about = None,
    after_help = "Exit codes: 0, as it should be; 1, somebody must act (plan: Pods would be replaced); 2, no answer, \
        also where the command line is wrong; 3, still under way."
)]
struct Line {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    verb: Verb,
}

/// What may stand before or after a verb.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Flags of every verb")]
struct Flags {
    /// Namespace. Default: the one of the kubeconfig's context, or dynatrace if it names none.
    #[arg(short, long, global = true)]
    namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Kind of the objects. Default: OneAgents. For verbs that only read: OneAgents and DaemonSetRollouts.
    #[arg(long, value_enum, global = true)]
    kind: Option<Managed>,
    /// Kubeconfig file.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, global = true)]
    context: Option<String>,
    /// User to act as. You need the right to impersonate that user.
    #[arg(long = "as", global = true, value_name = "USER")]
    user: Option<String>,
    /// Format of the output. svg is for plan.
    #[arg(short, long, value_enum, default_value_t, global = true)]
    output: Output,
    /// Whether to use colours. Variable NO_COLOR switches them off, too.
    #[arg(long, value_enum, default_value_t, global = true, value_name = "WHEN")]
    color: clap::ColorChoice,
}

/// Format of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
    Yaml,
    Svg,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the state of a rollout: zones, counts, failures, and when it finishes. -w follows it.
    Status(status::Args),
    /// Say why a node has no Pod, has an old one, or waits (node NODE), or what an object waits for (NAME).
    Explain {
        /// Word `node` and the name of a node, or the name of an object.
        #[arg(num_args = 0..=2)]
        what: Vec<String>,
    },
    /// Try the environment of a OneAgent as the operator would.
    Check {
        /// Name of a OneAgent.
        name: Option<String>,
        /// File with a OneAgent, or - for standard input.
        #[arg(short, long, conflicts_with = "name")]
        file: Option<PathBuf>,
    },
    /// List the rollouts that ended.
    History {
        /// Name of an object. Default: all of the namespace.
        name: Option<String>,
    },
    /// Say which Pods an edit would replace, when, and in which order.
    Plan {
        /// Name of an object. Default: the objects of the file, or without a file all of the namespace.
        name: Option<String>,
        /// File with the edited objects. - is standard input.
        #[arg(short, long)]
        file: Option<PathBuf>,
        /// Plan as of this time, such as 2026-12-20T02:00:00Z, or 2026-12-20 for its midnight in UTC. Default: now.
        #[arg(long, value_name = "TIME", value_parser = time)]
        at: Option<DateTime<Utc>>,
    },
    /// Say what the API server would reject in files, and what looks wrong in them. Needs no cluster.
    Lint {
        /// Files, folders, or - for standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Stop replacing Pods of an object, or with --all of every object.
    Pause(steer::Target),
    /// Continue after a pause.
    Resume(steer::Target),
    /// Try again what failed.
    Retry(steer::Again),
    /// Set exactly this version.
    Pin(steer::Pin),
    /// Follow the newest version again.
    Unpin(steer::One),
    /// Go back to the last good version.
    Rollback(steer::One),
    /// Collect data for support, without Secrets, environment variables, arguments and annotations.
    SupportBundle(bundle::Args),
    /// Print the versions of this program and of the operator.
    Version,
    /// Say what a policy does to a fleet in memory. Needs no cluster.
    Simulate(simulate::Args),
    /// Show the fleet as it changes on a page in your own browser. It reads only.
    Dashboard,
    /// Print the completion script of a shell, or the one for kubectl.
    Completion {
        /// bash, zsh or fish for kubectl-oneagent, kubectl for `kubectl oneagent`.
        #[arg(value_enum)]
        shell: complete::For,
    },
}

/// One run.
struct Cx {
    flags: Flags,
    clock: Clock,
    screen: Screen,
}

impl Cx {
    fn access(&self) -> Access {
        let Flags { kubeconfig, context, user, .. } = &self.flags;
        Access { kubeconfig: kubeconfig.clone(), context: context.clone(), user: user.clone() }
    }

    async fn reach(&self) -> Result<Reached, String> {
        kernel::reach(&self.access(), &self.clock).await
    }

    /// The namespace that is asked about; `None`: all.
    fn namespace(&self, reached: &Reached) -> Option<String> {
        let named = || self.flags.namespace.clone().or_else(|| reached.namespace.clone());
        (!self.flags.all_namespaces).then(|| named().unwrap_or_else(|| "dynatrace".to_owned()))
    }

    /// What was typed of the cluster.
    fn typed(&self) -> String {
        let Flags { kubeconfig, context, user, .. } = &self.flags;
        let kubeconfig =
            kubeconfig.as_ref().map(|file| format!(" --kubeconfig {}", quoted(&file.display().to_string())));
        let context = context.as_ref().map(|context| format!(" --context {}", quoted(context)));
        let user = user.as_ref().map(|user| format!(" --as {}", quoted(user)));
        [kubeconfig, context, user].into_iter().flatten().collect()
    }

    /// Prints data, if that is what was asked for; returns whether it was.
    fn data<T: Serialize + ?Sized>(&self, value: &T) -> Result<bool, String> {
        let data = || commands::data(value);
        let text = match self.flags.output {
            Output::Text => return Ok(false),
            Output::Json => {
                serde_json::to_string_pretty(&data()?).map(|text| text + "\n").map_err(|why| why.to_string())
            }
            Output::Yaml => serde_yaml::to_string(&data()?).map_err(|error| error.to_string()),
            Output::Svg => Err("only plan can be drawn: use -o text, json or yaml".to_owned()),
        };
        put_data(&text?);
        Ok(true)
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:@=-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { in_quotes(word) }
}

/// A text between single quotes, as a shell takes it.
fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// All that can be typed, for its reference page.
#[must_use]
pub fn command() -> clap::Command {
    Line::command()
}

/// Parses the command line and does what it says; returns the exit code.
pub async fn main() -> u8 {
    let words: Vec<String> = std::env::args().collect();
    if let Some(words) = complete::asked(&words) {
        return complete::complete(words).await;
    }
    let Line { flags, verb } = Line::parse();
    let cx = Cx { screen: Screen::of(flags.color), clock: Clock::default(), flags };
    commands::are_for(cx.typed());
    match Box::pin(run(&cx, verb)).await {
        Ok(code) => code,
        Err(sentence) => {
            paint::note(&format!("kubectl oneagent: {sentence}"));
            NO_ANSWER
        }
    }
}

/// Whether a verb changes an object. Such a verb prints text alone.
fn steers(verb: &Verb) -> bool {
    use Verb::{Pause, Pin, Resume, Retry, Rollback, Unpin};
    matches!(verb, Pause(_) | Resume(_) | Retry(_) | Pin(_) | Unpin(_) | Rollback(_))
}

async fn run(cx: &Cx, verb: Verb) -> Result<u8, String> {
    if steers(&verb) && cx.flags.output != Output::Text {
        return Err("this verb prints text alone: leave out -o".to_owned());
    }
    match verb {
        Verb::Status(args) => Box::pin(status::status(cx, &args)).await,
        Verb::Explain { what } => Box::pin(explain(cx, &what)).await,
        Verb::Check { name, file } => Box::pin(check(cx, name, file)).await,
        Verb::History { name } => history::history(cx, name.as_deref()).await,
        Verb::Plan { name, file, at } => Box::pin(plan(cx, name, file, at)).await,
        Verb::Lint { files } => lint::lint(cx, &files),
        Verb::Pause(target) if target.all => Box::pin(stop::stop(cx, &target.how, true)).await,
        Verb::Resume(target) if target.all => Box::pin(stop::stop(cx, &target.how, false)).await,
        Verb::Pause(target) => Box::pin(steer::pause(cx, &target, true)).await,
        Verb::Resume(target) => Box::pin(steer::pause(cx, &target, false)).await,
        Verb::Retry(again) => Box::pin(steer::retry(cx, &again)).await,
        Verb::Pin(pin) => Box::pin(steer::pin(cx, &pin)).await,
        Verb::Unpin(one) => Box::pin(steer::unpin(cx, &one)).await,
        Verb::Rollback(one) => Box::pin(steer::rollback(cx, &one)).await,
        Verb::SupportBundle(args) => Box::pin(bundle::bundle(cx, &args)).await,
        Verb::Dashboard => Box::pin(dashboard::dashboard(cx)).await,
        Verb::Simulate(args) => Box::pin(simulate::run(cx, &args)).await,
        Verb::Version => version::version(cx).await,
        Verb::Completion { shell } => {
            complete::script(shell);
            Ok(WELL)
        }
    }
}

async fn explain(cx: &Cx, what: &[String]) -> Result<u8, String> {
    if what == ["node"] {
        return Err("name a node: explain node NODE".to_owned());
    }
    let reached = cx.reach().await?;
    // A node is asked about beside every object, if no namespace is named.
    let is_node = what.first().is_some_and(|word| word == "node") && what.len() == 2;
    let namespace = cx.namespace(&reached).filter(|_| !is_node || cx.flags.namespace.is_some());
    let kind = cx.flags.kind.map(Managed::of_nodes).transpose()?;
    let found = super::explain::findings(&reached, &cx.clock, (what, kind), namespace.as_deref()).await?;
    let must_act = found.iter().any(|finding| finding.kind == Kind::Act);
    if !cx.data(&found)? {
        cx.screen.print(found.iter().flat_map(|finding| paint::finding(finding)));
    }
    if must_act || is_node {
        return Ok(if must_act { ACT } else { WELL });
    }
    // What the findings say in words; an object that they are not about is no reason to say anything.
    let about = object::objects(cx, &reached, what.first().map(String::as_str)).await;
    Ok(about.map_or(WELL, |objects| object::code(&objects)))
}

async fn check(cx: &Cx, name: Option<String>, file: Option<PathBuf>) -> Result<u8, String> {
    if name.is_none() && file.is_none() {
        return Err("name a OneAgent, or a file with -f".to_owned());
    }
    if cx.flags.output != Output::Text {
        return Err("check prints text alone".to_owned());
    }
    let namespace = match &file {
        Some(_) => None,
        None => cx.namespace(&cx.reach().await?),
    };
    let namespace = namespace.or_else(|| cx.flags.namespace.clone()).unwrap_or_else(|| "dynatrace".to_owned());
    let args = check::Args { name, namespace, file, api_url: None, trusted_cas: None };
    let (failed, all) = check::check(&args, &cx.access()).await?;
    if failed > 0 {
        say!("{failed} of {all} checks failed");
    }
    Ok(if failed > 0 { ACT } else { WELL })
}

async fn plan(cx: &Cx, name: Option<String>, file: Option<PathBuf>, at: Option<DateTime<Utc>>) -> Result<u8, String> {
    let reached = cx.reach().await?;
    let all = cx.flags.all_namespaces;
    let subject = Subject { name, namespace: cx.namespace(&reached), file, all };
    let edited = subject.edited()?;
    let kind = cx.flags.kind.map_or(Ok(super::asked::PodKind::Oneagent), Managed::of_nodes)?;
    let now = at.unwrap_or_else(|| cx.clock.now());
    let previews = plan::previews(&reached, kind, (&subject, edited), now).await?;
    let would = previews.iter().any(|preview| preview.restarts > 0);
    if cx.flags.output == Output::Svg {
        crate::cli::put(format_args!("{}", planned::drawing(&previews)));
    } else if !cx.data(&previews)? {
        for preview in &previews {
            cx.screen.print(planned::planned(preview, cx.clock.now(), cx.screen));
        }
    }
    Ok(if would { ACT } else { WELL })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_of_the_cluster_is_as_a_shell_takes_it() {
        let Line { flags, .. } = Line::parse_from(["x", "--context", "it's prod", "--kubeconfig", "/a/b", "version"]);
        let cx = Cx { screen: Screen::of(flags.color), clock: Clock::default(), flags };
        assert_eq!(cx.typed(), r" --kubeconfig /a/b --context 'it'\''s prod'");
    }
}
