//! The servers of a store: which number each has, and on which node its data is.
//!
//! A number is never given to a second server, and no server is dropped while its node exists: its data may be the last
//! copy. One server at a time joins or is replaced. Must not know what a store does with numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::size::odd;

/// A server of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub number: u32,
    pub node: String,
}

/// All servers of a store, in the order in which they joined. As text: a line for each, number and node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members(pub Vec<Member>);

/// How the first servers of a store start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Starts {
    /// All at once: they find each other.
    #[default]
    Together,
    /// Each joins those that serve: together they might form two clusters.
    OneByOne,
}

/// What is known of the nodes and servers of a store.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Nodes for further servers, by name.
    pub open: &'a [String],
    /// How many servers the spec asks for; `None`: as many as there are nodes, made odd.
    pub asked: Option<usize>,
    /// Nodes that do not exist any more.
    pub gone: &'a [String],
    /// Nodes whose server serves.
    pub serving: &'a [String],
}

/// What is next for the servers of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// They are as asked for.
    Stay,
    /// They become these.
    Become(Members),
    /// A server joins, or replaces one whose node is gone, once all others serve: so many more are wanted.
    Wait(usize),
}

impl Members {
    /// The nodes of all servers.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        self.0.iter().map(|one| one.node.clone()).collect()
    }

    /// How many servers are asked for, as far as there are nodes.
    #[must_use]
    pub fn wanted(&self, around: Around<'_>) -> usize {
        let staying = self.0.iter().filter(|one| !around.gone.contains(&one.node)).count();
        let possible = staying + self.free(around).count();
        around.asked.map_or_else(|| odd(possible), |asked| asked.min(possible)).max(self.0.len())
    }

    /// What is next.
    #[must_use]
    pub fn next(&self, starts: Starts, around: Around<'_>) -> Next {
        let wanted = self.wanted(around);
        let mut free = self.free(around);
        let mut all = self.0.clone();
        if all.is_empty() {
            let first = if starts == Starts::Together { wanted } else { wanted.min(1) };
            let numbers = 1..;
            all.extend(numbers.zip(free.take(first)).map(|(number, node)| Member { number, node: node.clone() }));
            return if all.is_empty() { Next::Stay } else { Next::Become(Self(all)) };
        }
        let lost = all.iter().position(|one| around.gone.contains(&one.node));
        if lost.is_none() && wanted <= all.len() {
            return Next::Stay;
        }
        let Some(node) = free.next() else { return Next::Stay };
        let others = all.iter().enumerate().filter(|(at, _)| Some(*at) != lost);
        if !others.into_iter().all(|(_, one)| around.serving.contains(&one.node)) {
            return Next::Wait((wanted - all.len()).max(1));
        }
        let number = all.iter().map(|one| one.number).max().unwrap_or_default() + 1;
        let joins = Member { number, node: node.clone() };
        match lost {
            Some(at) => all[at] = joins,
            None => all.push(joins),
        }
        Next::Become(Self(all))
    }

    fn free<'a>(&'a self, around: Around<'a>) -> impl Iterator<Item = &'a String> {
        around.open.iter().filter(|node| !self.0.iter().any(|one| one.node == **node))
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|one| writeln!(f, "{} {}", one.number, one.node))
    }
}

impl FromStr for Members {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |line: &str| {
            let (number, node) = line.trim().split_once(' ')?;
            Some(Member { number: number.parse().ok()?, node: node.trim().to_owned() })
        };
        let read = |line| one(line).ok_or_else(|| format!("{line:?} is no number and node"));
        let all: Vec<Member> =
            text.lines().filter(|line| !line.trim().is_empty()).map(read).collect::<Result<_, _>>()?;
        for (at, Member { number, node }) in all.iter().enumerate() {
            if all[..at].iter().any(|other| other.number == *number || other.node == *node) {
                return Err(format!("\"{number} {node}\" repeats a number or a node"));
            }
        }
        if all.is_empty() { Err("it names no server".to_owned()) } else { Ok(Self(all)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(all: &str) -> Vec<String> {
        all.split_whitespace().map(str::to_owned).collect()
    }

    /// What is next for members `1 a, 2 b, …`: in the same words, or what it waits for.
    fn next(members: &str, starts: Starts, open: &str, gone: &str, serving: &str, asked: Option<usize>) -> String {
        let members = if members.is_empty() {
            Members::default()
        } else {
            members.replace(", ", "\n").parse::<Members>().unwrap()
        };
        let (open, gone, serving) = (owned(open), owned(gone), owned(serving));
        match members.next(starts, Around { open: &open, asked, gone: &gone, serving: &serving }) {
            Next::Stay => "stay".to_owned(),
            Next::Wait(more) => format!("wait {more}"),
            Next::Become(members) => members.to_string().trim_end().replace('\n', ", "),
        }
    }

    #[test]
    fn the_first_ones_start_together_or_one_by_one() {
        let first = |starts, open, asked| next("", starts, open, "", "", asked);
        assert_eq!(first(Starts::Together, "a b c d", None), "1 a, 2 b, 3 c");
        assert_eq!(first(Starts::Together, "a b c", Some(2)), "1 a, 2 b");
        assert_eq!(first(Starts::Together, "a", Some(3)), "1 a", "as many as there are nodes");
        assert_eq!(first(Starts::OneByOne, "a b c", None), "1 a");
        assert_eq!(first(Starts::Together, "", None), "stay");
    }

    #[test]
    fn one_joins_at_a_time_and_only_while_all_serve() {
        let of = |members, open, serving, asked| next(members, Starts::Together, open, "", serving, asked);
        assert_eq!(of("1 a", "a b c", "a", None), "1 a, 2 b");
        assert_eq!(of("1 a", "a b c", "", None), "wait 2");
        assert_eq!(of("1 a, 2 b", "a b c", "a", None), "wait 1");
        assert_eq!(of("1 a, 2 b", "a b c", "a b", None), "1 a, 2 b, 3 c");
        assert_eq!(of("1 a", "a b", "a", None), "stay", "two are no better than one");
        assert_eq!(of("1 a", "a b", "a", Some(2)), "1 a, 2 b");
        assert_eq!(of("1 a, 2 b, 3 c", "a b c", "a b c", Some(1)), "stay", "never fewer");
        assert_eq!(of("1 a, 2 b, 3 c", "a", "a b c", None), "stay", "nodes that are cordoned keep theirs");
    }

    #[test]
    fn one_whose_node_is_gone_is_replaced_by_another_number() {
        let of = |members, open, gone, serving| next(members, Starts::Together, open, gone, serving, None);
        assert_eq!(of("1 a, 2 b, 3 c", "a b d", "c", "a b"), "1 a, 2 b, 4 d");
        assert_eq!(of("1 a, 4 d, 3 c", "a c e", "d", "a c"), "1 a, 5 e, 3 c");
        assert_eq!(of("1 a, 2 b, 3 c", "a b d", "c", "a"), "wait 1", "not while another one is away");
        assert_eq!(of("1 a, 2 b, 3 c", "a b", "c", "a b"), "stay", "no node for it");
        assert_eq!(of("1 a, 2 b, 3 c", "a d e", "b c", "a"), "wait 1", "two that are gone are no quorum");
    }

    #[test]
    fn what_is_written_is_read_again_and_a_mistake_is_said() {
        let text = "1 a\n4 d\n";
        assert_eq!(text.parse::<Members>().unwrap().to_string(), text);
        for (text, said) in [("", "no server"), ("1", "no number"), ("1 a\n1 b", "repeats"), ("1 a\n2 a", "repeats")] {
            let why = text.parse::<Members>().unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }
}
