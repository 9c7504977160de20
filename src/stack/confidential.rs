//! Which templates may show a secret, whatever they are rendered with.
//!
//! Who may write a template need not be allowed to read the secrets: so no transformation of one, and no message about
//! one, may reach what everyone reads. Pure. Must not render anything.

use std::collections::BTreeMap;

/// What templates call the secrets.
const SECRETS: &str = "secrets";
/// A function that prints them all.
const PRINTS_ALL: &str = "debug";
/// What no one gets back from a whole secret.
const DIGEST: &str = "sha1";

/// Whether a template, or what it includes, may show a secret or a part of one. Where that is not certain it may.
#[must_use]
pub fn may_show(text: &str, snippets: &BTreeMap<String, String>) -> bool {
    // A snippet includes no other; what is included by a name that is computed may be anything.
    let is_open = |text: &String| blocks(text).any(|block| shows(block) || included(block).is_some());
    blocks(text).any(|block| match included(block) {
        Some(name) => literal(name).and_then(|name| snippets.get(name)).is_none_or(is_open),
        None => shows(block),
    })
}

/// The inner part of each expression and statement.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let opened = text.match_indices(['{']).filter(|(at, _)| text[at + 1..].starts_with(['{', '%']));
    opened.map(|(at, _)| {
        let block = &text[at + 2..];
        let closed = if text[at + 1..].starts_with('{') { "}}" } else { "%}" };
        block.split(closed).next().unwrap_or(block).trim_matches(['-', '+', ' ', '\n'])
    })
}

/// What a statement names that it includes, if it includes something.
fn included(block: &str) -> Option<&str> {
    let (keyword, name) = block.split_once(char::is_whitespace)?;
    ["include", "import", "from", "extends"].contains(&keyword).then_some(name.trim())
}

/// The text in quotes, if that is all.
fn literal(name: &str) -> Option<&str> {
    let quoted = ['"', '\''].into_iter().find_map(|quote| name.strip_prefix(quote)?.strip_suffix(quote));
    quoted.filter(|name| !name.contains(['"', '\'']))
}

/// Whether it mentions a secret other than as part of a digest: of one that is whole.
fn shows(block: &str) -> bool {
    let digested = block.strip_suffix(DIGEST).and_then(|rest| rest.trim_end().strip_suffix('|'));
    let is_whole = |text: &str| !text.contains(['|', '[', '%']) && !text.contains(" if ");
    block.contains(PRINTS_ALL) || block.contains(SECRETS) && !digested.is_some_and(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_show_a_secret_or_a_part_of_one_is_known_by_its_text() {
        let snippets = BTreeMap::from([
            ("password".to_owned(), "p = {{ secrets.own.password }}".to_owned()),
            ("port".to_owned(), "80".to_owned()),
        ]);
        for (text, wanted) in [
            ("{{ name }} secrets", false),
            ("{{ secrets.own.password }}", true),
            ("{{- secrets.own.password | upper -}}", true),
            ("{{ secrets.own.password[:1] | sha1 }}", true),
            ("{{ (secrets.own.password if number == 1) | sha1 }}", true),
            ("{% set all = secrets %}{{ all }}", true),
            ("{% if secrets.own.password > \"m\" %}x{% endif %}", true),
            ("{{ debug() | upper }}", true),
            ("{% include secrets.own.password %}", true),
            ("{% include \"pass\" ~ \"word\" %}", true),
            ("{% include 'password' %}", true),
            ("{% include 'port' %}", false),
            ("{% include 'unknown' %}", true),
            ("{{ secrets.own.password | sha1 }}", false),
            ("{{ (\"super:\" ~ secrets.own.password) | sha1 }}", false),
            ("{{ secrets.own", true),
        ] {
            assert_eq!(may_show(text, &snippets), wanted, "{text}");
        }
    }
}
