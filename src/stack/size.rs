//! How many servers a component that keeps nothing has, and on which nodes.
//!
//! A number that was chosen stays: no number falls unless a user asks. Must not know what a server does.

/// A number of servers of which more than half is more than half of one less.
#[must_use]
pub fn odd(count: usize) -> usize {
    if count == 0 { 0 } else { count - 1 + count % 2 }
}

/// The nodes of a component's servers. `recorded`: those it has, in order; `open`: those on which it may be placed, by
/// name; `exists`: all there are; `asked`: how many servers the spec asks for.
#[must_use]
pub fn nodes(
    recorded: &[String],
    (open, exists): (&[String], impl Fn(&str) -> bool),
    asked: Option<usize>,
) -> Vec<String> {
    let mut free: Vec<&String> = open.iter().filter(|node| !recorded.contains(node)).rev().collect();
    // One that is gone stays until there is another one for its server: fewer servers might be others than its own.
    let stays = |node: &String| if exists(node) { node.clone() } else { free.pop().unwrap_or(node).clone() };
    let mut chosen: Vec<String> = recorded.iter().map(stays).collect();
    let wanted = asked.unwrap_or_else(|| odd(chosen.len() + free.len()).max(chosen.len()));
    let further = wanted.saturating_sub(chosen.len());
    chosen.extend(free.into_iter().rev().take(further).cloned());
    if chosen.len() > wanted {
        chosen.sort_by_key(|node| !exists(node));
        chosen.truncate(wanted);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(recorded: &[&str], open: &[&str], gone: &[&str], asked: Option<usize>) -> String {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        nodes(&owned(recorded), (&owned(open), |node: &str| !gone.contains(&node)), asked).join(" ")
    }

    #[test]
    fn as_many_as_there_are_nodes_and_an_odd_number() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(odd), [0, 1, 1, 3, 3, 5]);
        assert_eq!(of(&[], &[], &[], None), "");
        assert_eq!(of(&[], &["a", "b"], &[], None), "a");
        assert_eq!(of(&[], &["a", "b", "c", "d"], &[], None), "a b c");
        assert_eq!(of(&[], &["a", "b", "c"], &[], Some(2)), "a b", "what is asked for is not made odd");
    }

    #[test]
    fn what_was_chosen_stays_and_follows_the_nodes() {
        assert_eq!(of(&["b"], &["a", "b", "c"], &[], None), "b a c");
        assert_eq!(of(&["a", "b", "c"], &["a"], &[], None), "a b c", "cordoned ones stay");
        assert_eq!(of(&["a", "b", "c"], &["a", "b", "d"], &["c"], None), "a b d", "one that is gone is replaced");
        assert_eq!(of(&["a", "b", "c"], &["a", "b"], &["c"], None), "a b c", "one that is not stays");
        assert_eq!(of(&["a", "b", "c"], &["b", "c"], &["a"], Some(2)), "b c");
        assert_eq!(of(&["a", "b", "c"], &["a", "b", "c"], &[], Some(1)), "a");
    }
}
