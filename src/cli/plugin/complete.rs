//! Completion: what a shell offers where verbs, objects and nodes are typed; by kubectl's own protocol, too.
//!
//! Reads only, and says nothing where it cannot. Must not print an error into the user's prompt.

use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

use super::managed::Managed;
use super::object::objects;
use super::paint::Screen;
use super::{Cx, Flags, Line, NO_ANSWER, WELL, command};
use crate::cli::read::Reader;
use crate::clock::Clock;
use crate::k8s::facts::NodeFacts;

/// The name under which kubectl asks.
const ASKED: &str = "kubectl_complete-oneagent";
/// The word with which scripts ask.
const WORD: &str = "__complete";
/// No user waits longer for a completion.
const LONGEST: Duration = Duration::from_secs(3);
/// To kubectl: complete no file names.
const NO_FILES: &str = ":4";

/// Who completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum For {
    Bash,
    Zsh,
    Fish,
    /// To be saved as kubectl_complete-oneagent on the PATH.
    Kubectl,
}

/// What is to be completed, if that is what this was called for.
pub(super) fn asked(words: &[String]) -> Option<&[String]> {
    let (program, rest) = words.split_first()?;
    let name = std::path::Path::new(program).file_name()?.to_string_lossy().into_owned();
    if name == ASKED {
        return Some(rest);
    }
    let (first, rest) = rest.split_first()?;
    (first == WORD).then_some(rest)
}

/// Prints what the last word may become.
pub(super) async fn complete(words: &[String]) -> u8 {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let found = tokio::time::timeout(LONGEST, candidates(last, before)).await.unwrap_or_default();
    for word in found.iter().filter(|word| word.starts_with(last)) {
        say!("{word}");
    }
    say!("{NO_FILES}");
    if found.is_empty() { NO_ANSWER } else { WELL }
}

/// The words without flags, and what flags say of the cluster.
fn parsed(before: &[String]) -> (Vec<&str>, Vec<String>) {
    let takes = ["-n", "--namespace", "--kind", "--kubeconfig", "--context", "--as", "-o", "--output", "--color", "-f"];
    let (mut plain, mut flags, mut words) = (Vec::new(), Vec::new(), before.iter());
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            plain.push(word.as_str());
            continue;
        }
        let value = takes.contains(&word.as_str()).then(|| words.next()).flatten();
        // Flags of a single verb say nothing of the cluster.
        let is_of_all = ["-n", "--namespace", "-A", "--all-namespaces", "--kind", "--kubeconfig", "--context", "--as"];
        if is_of_all.contains(&word.split('=').next().unwrap_or_default()) {
            flags.push(word.clone());
            flags.extend(value.cloned());
        }
    }
    (plain, flags)
}

async fn candidates(last: &str, before: &[String]) -> Vec<String> {
    let grammar = command();
    let (plain, flags) = parsed(before);
    let verb = plain.first().and_then(|verb| grammar.find_subcommand(verb));
    let of_verb = verb.into_iter().flat_map(clap::Command::get_arguments);
    let arguments: Vec<&clap::Arg> = grammar.get_arguments().chain(of_verb).collect();
    let asked = before.last().and_then(|flag| arguments.iter().find(|argument| takes(argument, flag)));
    if let Some(argument) = asked {
        return values(argument, &flags).await;
    }
    if last.starts_with('-') {
        return arguments.iter().filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect();
    }
    let Some(verb) = verb else {
        return grammar.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    };
    let takes_name = ["name", "what"].iter().any(|id| verb.get_arguments().any(|argument| argument.get_id() == id));
    let Some(flags) = of_cluster(&flags) else { return Vec::new() };
    match plain[1..] {
        [] if takes_name => {
            let more = (verb.get_name() == "explain").then(|| "node".to_owned());
            names(flags).await.unwrap_or_default().into_iter().chain(more).collect()
        }
        ["node"] => nodes(flags).await.unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Whether this flag, as it is typed, is followed by a value of the argument.
fn takes(argument: &clap::Arg, flag: &str) -> bool {
    let is_long = argument.get_long().is_some_and(|long| flag == format!("--{long}"));
    let is_it = is_long || argument.get_short().is_some_and(|short| flag == format!("-{short}"));
    is_it && argument.get_action().takes_values()
}

/// What a flag may be followed by.
async fn values(argument: &clap::Arg, flags: &[String]) -> Vec<String> {
    if argument.get_id() == "namespace" {
        // The flag itself has no value yet.
        let given = flags.split_last().and_then(|(_, given)| of_cluster(given));
        return match given {
            Some(given) => namespaces(given).await.unwrap_or_default(),
            None => Vec::new(),
        };
    }
    argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// What these words say of the cluster.
fn of_cluster(words: &[String]) -> Option<Flags> {
    let line = ["kubectl-oneagent"].into_iter().chain(words.iter().map(String::as_str)).chain(["version"]);
    Line::try_parse_from(line).ok().map(|line| line.flags)
}

fn cx(flags: Flags) -> Cx {
    Cx { screen: Screen::of(flags.color), clock: Clock::default(), flags }
}

async fn names(flags: Flags) -> Result<Vec<String>, String> {
    let cx = cx(flags);
    let found = objects(&cx, &cx.reach().await?, None).await?;
    Ok(found.iter().map(super::object::Object::name).collect())
}

async fn nodes(flags: Flags) -> Result<Vec<String>, String> {
    let reached = cx(flags).reach().await?;
    let nodes = Reader::of(&reached, Managed::Oneagent.operator()).all::<NodeFacts>("nodes").await?;
    Ok(nodes.iter().map(ResourceExt::name_any).collect())
}

async fn namespaces(flags: Flags) -> Result<Vec<String>, String> {
    let reached = cx(flags).reach().await?;
    let all = Reader::of(&reached, Managed::Oneagent.operator()).all::<Namespace>("namespaces").await?;
    Ok(all.iter().map(ResourceExt::name_any).collect())
}

/// Prints the script of a shell.
pub(super) fn script(shell: For) {
    let text = match shell {
        For::Kubectl => "#!/bin/sh\nexec kubectl-oneagent __complete \"$@\"\n",
        For::Bash => {
            "_kubectl_oneagent() {\n  local IFS=$'\\n'\n  COMPREPLY=($(kubectl-oneagent __complete \
            \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null | grep -v '^:'))\n}\n\
            complete -F _kubectl_oneagent kubectl-oneagent\n"
        }
        For::Zsh => {
            "#compdef kubectl-oneagent\n_kubectl_oneagent() {\n  local -a found\n  \
            found=(${(f)\"$(kubectl-oneagent __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null | grep -v '^:')\"})\n  \
            compadd -a found\n}\ncompdef _kubectl_oneagent kubectl-oneagent\n"
        }
        For::Fish => {
            "complete -c kubectl-oneagent -f -a '(kubectl-oneagent __complete (commandline -opc)[2..] \
            (commandline -ct) 2>/dev/null | string match -v \":*\")'\n"
        }
    };
    crate::cli::put(format_args!("{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn verbs_and_flags_are_offered_without_a_cluster() {
        let offered = async |last: &str, before: &[&str]| {
            candidates(last, &before.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).await
        };
        let verbs = offered("st", &[]).await;
        assert!(verbs.contains(&"status".to_owned()) && verbs.contains(&"support-bundle".to_owned()));
        assert!(offered("st", &["-n", "status"]).await.contains(&"status".to_owned()), "that was a namespace");
        let flags = offered("--", &["status"]).await;
        assert!(flags.contains(&"--watch".to_owned()) && flags.contains(&"--namespace".to_owned()));
        assert!(offered("x", &["lint"]).await.is_empty());
        assert!(offered("", &["status", "--kind"]).await.contains(&"daemonsetrollout".to_owned()));
        assert!(offered("", &["-o"]).await.contains(&"json".to_owned()));
        assert!(offered("", &["lint", "-A"]).await.is_empty(), "it takes no value");
        assert!(offered("", &["status", "a", "--wait", "--for"]).await.contains(&"canaries".to_owned()));
    }

    #[test]
    fn a_link_of_kubectls_name_and_a_word_ask() {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(asked(&words(&["/b/kubectl_complete-oneagent", "st"])), Some(&words(&["st"])[..]));
        assert_eq!(asked(&words(&["kubectl-oneagent", "__complete", ""])), Some(&words(&[""])[..]));
        assert_eq!(asked(&words(&["kubectl-oneagent", "status"])), None);
    }
}
