//! Terms of node affinity: alternatives, each with all of its requirements. Negates and multiplies them.
//!
//! Pure. A product of alternatives grows exponentially with its factors, and users write the factors. So every step
//! first proves that its result stays within bounds, and gives up otherwise. Simplifies only where that is exact for
//! every node. Must not know whose terms these are.

use std::collections::HashSet;

use super::placement::{Must, Of, Requirement};

/// Requirements that must all hold.
pub type Term = Vec<Requirement>;

/// So many terms at most.
pub const TERMS: usize = 128;
/// So many requirements in one term at most.
const REQUIREMENTS: usize = 64;
/// So many bytes at most, of all terms together.
pub const BYTES: usize = 64 * 1024;
/// So many pairs of terms are multiplied at most, with so many bytes, before anything is simplified: this bounds the
/// work.
const PAIRS: (usize, usize) = (1024, 256 * 1024);

/// About how many bytes a requirement takes when it is written.
fn bytes(requirement: &Requirement) -> usize {
    const WRITTEN: usize = 40;
    let key = match &requirement.of {
        Of::Label(key) => key.len(),
        Of::Name => 0,
    };
    let values = match &requirement.must {
        Must::In(values) | Must::NotIn(values) => values.iter().map(|value| value.len() + 16).sum(),
        Must::Exist | Must::NotExist | Must::Exceed(_) | Must::FallBelow(_) => 0,
    };
    WRITTEN + key + values
}

/// About how many bytes terms take when they are written.
#[must_use]
pub fn size<'a>(terms: impl IntoIterator<Item = &'a Term>) -> usize {
    terms.into_iter().flatten().map(bytes).sum()
}

/// What two requirements of one label are together.
enum Together {
    One(Must),
    Both,
    Never,
}

fn together(of: &Of, a: &Must, b: &Must) -> Together {
    use Must::{Exceed, Exist, FallBelow, In, NotExist, NotIn};
    let some = |values: &[String], others: &[String], is_listed: bool| {
        let others: HashSet<&String> = others.iter().collect();
        let left: Vec<String> = values.iter().filter(|value| others.contains(value) == is_listed).cloned().collect();
        if left.is_empty() { Together::Never } else { Together::One(In(left)) }
    };
    match (a, b) {
        (a, b) if a == b => Together::One(a.clone()),
        (In(values), In(others)) => some(values, others, true),
        (In(values), NotIn(others)) | (NotIn(others), In(values)) => some(values, others, false),
        // A requirement of the node's name takes one value.
        (NotIn(_), NotIn(_)) if *of == Of::Name => Together::Both,
        (NotIn(values), NotIn(others)) => {
            let mut all = [values.as_slice(), others.as_slice()].concat();
            all.sort_unstable();
            all.dedup();
            Together::One(NotIn(all))
        }
        (In(values), Exist) | (Exist, In(values)) => Together::One(In(values.clone())),
        (NotExist, NotIn(_)) | (NotIn(_), NotExist) => Together::One(NotExist),
        (Exceed(bound), Exist) | (Exist, Exceed(bound)) => Together::One(Exceed(*bound)),
        (FallBelow(bound), Exist) | (Exist, FallBelow(bound)) => Together::One(FallBelow(*bound)),
        (NotExist, In(_) | Exist | Exceed(_) | FallBelow(_)) | (In(_) | Exist | Exceed(_) | FallBelow(_), NotExist) => {
            Together::Never
        }
        _ => Together::Both,
    }
}

/// A term with one more requirement; `None`: no node meets both.
fn with(mut term: Term, mut requirement: Requirement) -> Option<Term> {
    let mut at = 0;
    while let Some(other) = term.get(at) {
        if other.of == requirement.of {
            match together(&other.of, &other.must, &requirement.must) {
                Together::Never => return None,
                Together::Both => {}
                Together::One(must) => {
                    // Stronger than either: what was passed over may fit it now.
                    requirement.must = must;
                    term.remove(at);
                    at = 0;
                    continue;
                }
            }
        }
        at += 1;
    }
    term.push(requirement);
    Some(term)
}

/// Whether every node that meets `a` meets `b`. Says no where it cannot tell.
fn implies(a: &Term, b: &Term) -> bool {
    let is_met = |of: &Of, wanted: &Must| {
        let mut same = a.iter().filter(|requirement| requirement.of == *of);
        same.any(|has| matches!(together(of, &has.must, wanted), Together::One(must) if must == has.must))
    };
    b.iter().all(|wanted| is_met(&wanted.of, &wanted.must))
}

/// Alternatives, none of which another one makes superfluous.
#[derive(Default)]
struct Alternatives(Vec<Term>);

impl Alternatives {
    /// Takes one more; `None`: they are too many, or too large.
    fn add(&mut self, term: Term) -> Option<()> {
        if self.0.iter().any(|other| implies(&term, other)) {
            return Some(());
        }
        self.0.retain(|other| !implies(other, &term));
        let is_small = term.len() <= REQUIREMENTS && self.0.len() < TERMS && size(&self.0) + size([&term]) <= BYTES;
        self.0.push(term);
        is_small.then_some(())
    }
}

/// Whether the product of `a` and of `b` other terms, of so many bytes, may be made.
fn is_affordable(a: &[Term], (b, bytes): (usize, usize)) -> bool {
    let all = a.len().saturating_mul(bytes).saturating_add(size(a).saturating_mul(b));
    a.len().saturating_mul(b) <= PAIRS.0 && all <= PAIRS.1
}

/// One of `a` and one of `b` together, as alternatives; `None`: they are too many, or too large.
#[must_use]
pub fn both(a: &[Term], b: &[Term]) -> Option<Vec<Term>> {
    if !is_affordable(a, (b.len(), size(b))) {
        return None;
    }
    let mut found = Alternatives::default();
    for (one, other) in a.iter().flat_map(|one| b.iter().map(move |other| (one, other))) {
        if let Some(term) = other.iter().cloned().try_fold(one.clone(), with) {
            found.add(term)?;
        }
    }
    Some(found.0)
}

/// Whether the terms of a user stay within bounds with each of these alternatives; none is one without requirements.
#[must_use]
pub fn fit(users: &[Term], alternatives: &[Term]) -> bool {
    let count = users.len().max(1);
    let bytes = size(users).saturating_mul(alternatives.len()).saturating_add(size(alternatives).saturating_mul(count));
    count.saturating_mul(alternatives.len()) <= 2 * TERMS && bytes <= 2 * BYTES
}

/// What holds of a node where none of these terms does, as alternatives; `None`: they are too many, or too large.
#[must_use]
pub fn none_of(terms: &[Term]) -> Option<Vec<Term>> {
    terms.iter().try_fold(vec![Term::new()], |so_far, term| {
        // A number is missed in two ways.
        if !is_affordable(&so_far, (term.len().saturating_mul(2), size([term]).saturating_mul(2))) {
            return None;
        }
        let broken: Vec<Term> = term.iter().flat_map(opposites).map(|requirement| vec![requirement]).collect();
        both(&so_far, &broken)
    })
}

/// One of these holds where a requirement does not.
fn opposites(requirement: &Requirement) -> Vec<Requirement> {
    let of = |must: Must| Requirement { of: requirement.of.clone(), must };
    match &requirement.must {
        Must::In(values) => vec![of(Must::NotIn(values.clone()))],
        Must::NotIn(values) => vec![of(Must::In(values.clone()))],
        Must::Exist => vec![of(Must::NotExist)],
        Must::NotExist => vec![of(Must::Exist)],
        Must::Exceed(bound) => vec![of(Must::FallBelow(bound.saturating_add(1))), of(Must::NotExist)],
        Must::FallBelow(bound) => vec![of(Must::Exceed(bound.saturating_sub(1))), of(Must::NotExist)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::node::Node;
    use crate::k8s::placement::any_holds;
    use proptest::prelude::*;

    fn is(key: &str, must: Must) -> Requirement {
        Requirement { of: Of::Label(key.to_owned()), must }
    }

    fn one_of(key: &str, values: &[&str]) -> Requirement {
        is(key, Must::In(values.iter().map(|value| (*value).to_owned()).collect()))
    }

    fn none(key: &str, values: &[&str]) -> Requirement {
        is(key, Must::NotIn(values.iter().map(|value| (*value).to_owned()).collect()))
    }

    fn all_outside(pools: impl IntoIterator<Item = Term>) -> Option<Vec<Term>> {
        pools.into_iter().try_fold(vec![Term::new()], |so_far, pool| both(&so_far, &none_of(&[pool])?))
    }

    #[test]
    fn pools_of_one_environment_take_two_terms_however_many_they_are() {
        let names: Vec<String> = (0..40).map(|number| format!("p{number:02}")).collect();
        let pools = names.iter().map(|name| vec![one_of("env", &["prod"]), one_of("pool", &[name])]);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(all_outside(pools).unwrap(), [vec![none("env", &["prod"])], vec![none("pool", &names)]]);
        let hosts = (0..300).map(|number| vec![one_of("host", &[&format!("h{number:03}")])]);
        let outside = none_of(&hosts.collect::<Vec<_>>()).unwrap();
        assert!(matches!(&outside[..], [term] if term.len() == 1), "{outside:?}");
    }

    #[test]
    fn what_would_grow_too_large_is_given_up_before_it_is_made() {
        let unlike = |number: usize| vec![one_of(&format!("a{number}"), &["x"]), one_of(&format!("b{number}"), &["y"])];
        assert_eq!(all_outside((0..7).map(unlike)).unwrap().len(), TERMS);
        assert_eq!(all_outside((0..8).map(unlike)), None);
        assert_eq!(all_outside((0..10_000).map(unlike)), None);
        let wide = |count: usize| (0..count).map(|number| is(&format!("k{number}"), Must::Exist)).collect::<Term>();
        assert_eq!(none_of(&[wide(64), wide(40_000)]), None);
        assert_eq!(none_of(&[wide(40_000)]), None);
        let narrow = |count: usize| (0..count).map(|number| vec![is(&format!("k{number}"), Must::Exist)]);
        assert_eq!(none_of(&narrow(REQUIREMENTS).collect::<Vec<_>>()).unwrap()[0].len(), REQUIREMENTS);
        assert_eq!(none_of(&narrow(REQUIREMENTS + 1).collect::<Vec<_>>()), None);
        assert_eq!(none_of(&[vec![one_of("k", &vec!["value"; 40_000])]]), None);
    }

    fn requirement() -> impl Strategy<Value = Requirement> {
        let values = || proptest::sample::subsequence(vec!["1", "2", "3"], 1..3);
        let owned = |values: Vec<&str>| values.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let must = prop_oneof![
            values().prop_map(move |values| Must::In(owned(values))),
            values().prop_map(move |values| Must::NotIn(owned(values))),
            Just(Must::Exist),
            Just(Must::NotExist),
            (0_i64..4).prop_map(Must::Exceed),
            (0_i64..4).prop_map(Must::FallBelow),
        ];
        let of = prop_oneof![Just(Of::Label("a".into())), Just(Of::Label("b".into())), Just(Of::Name)];
        (of, must).prop_map(|(of, must)| Requirement { of, must })
    }

    fn terms() -> impl Strategy<Value = Vec<Term>> {
        proptest::collection::vec(proptest::collection::vec(requirement(), 1..4), 0..4)
    }

    fn nodes() -> Vec<Node> {
        let values = [None, Some("1"), Some("2"), Some("3")];
        let node = |name: &str, a: Option<&str>, b: Option<&str>| {
            let label = |key: &str, value: Option<&str>| value.map(|value| (key.to_owned(), value.to_owned()));
            let labels = [label("a", a), label("b", b)].into_iter().flatten().collect();
            Node { labels, ..Node::named(name) }
        };
        let of = |name: &'static str| {
            values.into_iter().flat_map(move |a| values.into_iter().map(move |b| node(name, a, b)))
        };
        ["1", "2", "9"].into_iter().flat_map(of).collect()
    }

    proptest! {
        #[test]
        fn a_product_and_a_negation_hold_of_the_very_nodes_that_they_should(a in terms(), b in terms()) {
            let (product, outside) = (both(&a, &b), none_of(&a));
            for node in nodes() {
                if let Some(product) = &product {
                    prop_assert_eq!(any_holds(product, &node), any_holds(&a, &node) && any_holds(&b, &node));
                }
                if let Some(outside) = &outside {
                    prop_assert_eq!(any_holds(outside, &node), !any_holds(&a, &node));
                }
            }
            prop_assert!(product.is_some() && outside.is_some(), "small ones are never given up");
        }
    }
}
