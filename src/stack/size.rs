//! How many servers a component has, and on which nodes.
//!
//! A number that was chosen stays: nothing becomes fewer by itself. Must not know what a server does.

/// A number of servers of which more than half is more than half of one less.
#[must_use]
pub fn odd(count: usize) -> usize {
    if count == 0 { 0 } else { count - 1 + count % 2 }
}

/// The nodes of a component's servers. `recorded`: those it has, in order; `open`: those on which it may be placed, by
/// name; `exists`: all there are; `asked`: how many servers the spec asks for. `keeps`: servers whose data is on their
/// nodes are not placed elsewhere, and get no company.
#[must_use]
pub fn nodes(
    recorded: &[String],
    (open, exists): (&[String], impl Fn(&str) -> bool),
    asked: Option<usize>,
    keeps: bool,
) -> Vec<String> {
    if keeps && !recorded.is_empty() {
        return recorded.to_vec();
    }
    let mut chosen: Vec<String> = recorded.iter().filter(|node| exists(node)).cloned().collect();
    let possible = chosen.iter().chain(open.iter().filter(|node| !chosen.contains(node))).count();
    let wanted = asked.unwrap_or_else(|| odd(possible)).max(if asked.is_some() { 0 } else { recorded.len() });
    for node in open {
        if chosen.len() < wanted && !chosen.contains(node) {
            chosen.push(node.clone());
        }
    }
    if asked.is_some() {
        chosen.truncate(wanted);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(recorded: &[&str], open: &[&str], gone: &[&str], asked: Option<usize>, keeps: bool) -> String {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        nodes(&owned(recorded), (&owned(open), |node: &str| !gone.contains(&node)), asked, keeps).join(" ")
    }

    #[test]
    fn as_many_as_there_are_nodes_and_an_odd_number() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(odd), [0, 1, 1, 3, 3, 5]);
        assert_eq!(of(&[], &[], &[], None, false), "");
        assert_eq!(of(&[], &["a", "b"], &[], None, false), "a");
        assert_eq!(of(&[], &["a", "b", "c", "d"], &[], None, true), "a b c");
        assert_eq!(of(&[], &["a", "b", "c"], &[], Some(2), false), "a b", "what is asked for is not made odd");
    }

    #[test]
    fn what_was_chosen_stays_and_only_what_keeps_nothing_follows_the_nodes() {
        assert_eq!(of(&["b"], &["a", "b", "c"], &[], None, false), "b a c");
        assert_eq!(of(&["b"], &["a", "b", "c"], &[], None, true), "b");
        assert_eq!(of(&["a", "b", "c"], &["a"], &[], None, false), "a b c", "cordoned ones stay");
        assert_eq!(
            of(&["a", "b", "c"], &["a", "b", "d"], &["c"], None, false),
            "a b d",
            "one that is gone is replaced"
        );
        assert_eq!(of(&["a", "b", "c"], &["a", "b"], &["c"], None, true), "a b c");
        assert_eq!(of(&["a", "b", "c"], &["a", "b", "c"], &[], Some(1), false), "a");
    }
}
