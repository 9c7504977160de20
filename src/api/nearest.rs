//! What a misspelt name may have meant.
//!
//! Must not guess where nothing is near.

/// Names that are less alike than this are not worth a guess.
const ALIKE: f64 = 0.6;

/// What may have been meant.
#[must_use]
pub fn nearest<S: AsRef<str>>(name: &str, names: &[S]) -> String {
    let likeness = |other: &&S| strsim::jaro_winkler(name, other.as_ref());
    // Of several that are as near the first by name.
    let by_name = |a: &&S, b: &&S| b.as_ref().cmp(a.as_ref());
    let best = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)).then_with(|| by_name(a, b)));
    let best = best.filter(|best| likeness(best) > ALIKE);
    best.map(|best| format!("; the nearest name is {}", best.as_ref())).unwrap_or_default()
}
