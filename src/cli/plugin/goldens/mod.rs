//! What the plugin says of an object in each situation: `status` at several widths, with colours and in ASCII, what
//! `explain` says of the object and of the nodes that need attention, and the Events. A text for each is beside this
//! file.
//!
//! The situations are the phases of the scenarios that a real control plane is compared with. For tests alone. Must not
//! choose words.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Parser;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ObjectMeta;
use ratatui::text::Line;
use serde_json::Value;

use super::live::Judged;
use super::managed::Managed;
use super::object::Object;
use super::overview::Overview;
use super::paint::{Screen, finding};
use crate::cli::commands::found;
use crate::cli::explain::stopped;
use crate::fleet::finding::Finding;
use crate::oneagent::explain::told;
use crate::oneagent::rehearsal::{Act, Operator};
use crate::sim::{Script, Span, beside, play};

const SCREEN: Screen =
    Screen { width: 100, is_unicode: true, is_terminal: true, has_cursor: true, color: clap::ColorChoice::Always };

/// What is said at the end of a script.
struct Said {
    object: Object,
    overview: Overview,
    explained: Vec<Finding>,
    /// So many of these are about the object; the others about nodes.
    of_object: usize,
    events: Vec<String>,
    now: chrono::DateTime<chrono::Utc>,
}

impl Said {
    /// Of a script, and of a finding that comes before all others.
    fn of(script: &Script<Act>, since: i64, first: Option<Finding>) -> Self {
        let mut operator = Operator::new(script, None, true).unwrap();
        play(&mut operator, script).unwrap();
        let now = script.begins + script.until.0;
        let (cluster, mut all) = operator.into_parts();
        let (agent, record) = all.swap_remove(0);
        let whole = serde_json::from_value(serde_json::to_value(&agent).unwrap()).unwrap();
        let object = Object::of(Managed::Oneagent, whole);
        let judged = Judged::Agents(Box::new((cluster, agent.clone())));
        let looks = judged.looks(now);
        let overview = Overview::of(&object, &looks, |node| judged.remedy(node, now), first);
        let nodes: Vec<Finding> = overview.worst().filter_map(|node| judged.node(node, now)).collect();
        let mut explained = told(&agent).findings();
        let of_object = explained.len();
        explained.extend(nodes);
        let told = record.told.iter().filter(|told| told.at >= since);
        let events = told.map(|told| format!("{}: {}", told.what.reason, told.what.message)).collect();
        Self { object, overview, explained, of_object, events, now }
    }

    fn status(&self, screen: Screen) -> String {
        screen.text(self.overview.lines(screen, self.now, (40, None)))
    }

    /// All of it.
    fn text(&self) -> String {
        let plain = |text: &str| anstream::adapter::strip_str(text).to_string();
        let as_usual = self.status(SCREEN);
        let whole = commands(&plain(&self.status(Screen { width: u16::MAX, ..SCREEN })));
        let mut all = format!("exit code {}\n{}", self.object.code(), plain(&as_usual));
        for (what, screen) in [
            ("60 columns", Screen { width: 60, ..SCREEN }),
            ("200 columns", Screen { width: 200, ..SCREEN }),
            ("ASCII", Screen { is_unicode: false, ..SCREEN }),
        ] {
            let text = plain(&self.status(screen));
            let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("kubectl "));
            let wide = lines.find(|line| Line::raw(*line).width() > usize::from(screen.width));
            assert_eq!(wide, None, "wider than the screen");
            assert!(screen.is_unicode || text.is_ascii(), "{text}");
            assert_eq!(commands(&text), whole, "a command is broken\n{text}");
            if text != plain(&as_usual) {
                let _ = write!(all, "-- {what}\n{text}");
            }
        }
        let _ = write!(all, "-- colours\n{}", as_usual.replace('\u{1b}', ""));
        let wide = Screen { width: 200, ..SCREEN };
        let _ = write!(all, "-- explain\n{}", plain(&wide.text(self.explained.iter().flat_map(finding))));
        if !self.events.is_empty() {
            let _ = write!(all, "-- Events\n{}\n", self.events.join("\n"));
        }
        let of_object = self.explained.iter().take(self.of_object).map(|said| said.what.as_str());
        is_said_once(&of_object.collect::<Vec<_>>().join("\n"));
        is_said_once(&plain(&self.status(Screen { width: u16::MAX, ..SCREEN })));
        all
    }
}

/// The commands of a text, as lines have them.
fn commands(text: &str) -> Vec<String> {
    text.lines().flat_map(|line| found(line).into_iter().map(|range| line[range].to_owned())).collect()
}

/// What of a text cannot be typed as it is printed.
fn untypable(text: &str) -> Vec<String> {
    let of = |line: &str| {
        // Without the end of a colour.
        let line = line.trim_end_matches("[0m");
        let is_broken = line.ends_with("kubectl") || line.ends_with("kubectl oneagent");
        let mut wrong: Vec<String> = is_broken.then(|| format!("broken: {line}")).into_iter().collect();
        for command in commands(line) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let is_placeholder = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
            if words.iter().any(is_placeholder) {
                wrong.push(format!("a placeholder: {command}"));
            }
            if words[1] == "oneagent"
                && let Err(why) = super::Line::try_parse_from(&words[1..])
            {
                wrong.push(format!("{command}: {why}"));
            }
        }
        wrong
    };
    text.lines().flat_map(of).collect()
}

/// No clause is twice in one answer.
fn is_said_once(text: &str) {
    let clauses = text.lines().flat_map(|line| line.split("; ")).flat_map(|part| part.split(": "));
    let mut clauses: Vec<&str> = clauses.flat_map(|part| part.split([',', '(', ')'])).map(str::trim).collect();
    clauses.retain(|clause| clause.len() > 20);
    clauses.sort_unstable();
    let twice: Vec<_> = clauses.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert!(twice.is_empty(), "said twice: {twice:?}\n{text}");
}

#[allow(clippy::disallowed_methods, reason = "a test reads its own files")]
fn scenarios() -> Vec<(String, Value)> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "olm-tests/tests/it/rehearsed"].iter().collect();
    let files = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let mut all: Vec<(String, Value)> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), serde_yaml::from_str(&text).unwrap())
        })
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// The script until each of its phases is over, and when that began.
fn phases(whole: &Value) -> Vec<(Script<Act>, i64)> {
    let script: Script<Act> = Script::read(whole.clone()).unwrap();
    let mut times: Vec<i64> = script.timeline.iter().map(|entry| entry.at.0.num_seconds()).collect();
    times.dedup();
    let last = times.last().copied().unwrap_or_default();
    let ends: Vec<i64> = times.iter().skip(1).map(|at| at - 1).chain([last + 3600]).collect();
    let of = |(began, end): (&i64, i64)| {
        let mut script = script.clone();
        script.timeline.retain(|entry| entry.at.0.num_seconds() <= end);
        script.until = Span::seconds(end);
        (script, *began)
    };
    times.iter().zip(ends).map(of).collect()
}

fn settled() -> insta::Settings {
    beside(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/plugin/goldens")))
}

#[test]
fn each_situation_is_told_as_its_text_has_it() {
    let mut settings = settled();
    for (name, whole) in scenarios() {
        let mut all = String::new();
        // Of the first phase, in which the agents come, there is nothing to say.
        for (script, since) in phases(&whole).iter().skip(1) {
            let acts: Vec<String> = script
                .timeline
                .iter()
                .filter(|entry| entry.at.0.num_seconds() == *since)
                .map(|entry| format!("{:?}", entry.act))
                .collect();
            let _ = write!(
                all,
                "==== after {}: {}\n{}\n",
                Span::seconds(*since),
                acts.join(", "),
                Said::of(script, *since, None).text()
            );
        }
        settings.set_description(whole["about"].as_str().unwrap_or_default());
        settings.bind(|| insta::assert_snapshot!(name, all));
    }
}

#[test]
fn an_operator_that_does_not_run_comes_first() {
    let (_, whole) = scenarios().into_iter().find(|(name, _)| name == "a_canary_crashes").unwrap();
    let (script, since) = phases(&whole).pop().unwrap();
    let metadata = ObjectMeta { namespace: Some("dynatrace".to_owned()), ..ObjectMeta::default() };
    let first = stopped("oneagent-operator", &Lease { metadata, spec: None }, None);
    settled().bind(|| insta::assert_snapshot!("no_operator", Said::of(&script, since, Some(first)).text()));
}

#[allow(clippy::disallowed_methods, reason = "a test reads its own files")]
fn texts(folder: &Path, all: &mut Vec<(PathBuf, String)>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            texts(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "snap") {
            let text = std::fs::read_to_string(&path).unwrap();
            all.push((path, text));
        }
    }
}

#[test]
fn each_command_of_each_golden_text_can_be_typed_as_it_is_printed() {
    let mut all = Vec::new();
    texts(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut all);
    let count: usize = all.iter().map(|(_, text)| commands(text).len()).sum();
    assert!(count > 300, "the test sees the commands: {count}");
    let wrong = |(path, text): &(PathBuf, String)| {
        untypable(text).into_iter().map(|wrong| format!("{}: {wrong}", path.display())).collect::<Vec<_>>()
    };
    let wrong: Vec<String> = all.iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
