//! Which templates may show a secret, whatever they are rendered with.
//!
//! Who may write a template need not be allowed to read the secrets: so no transformation of one, and no message about
//! one, may reach what everyone reads. Nothing is parsed: what is not known to be harmless may show one. Must not
//! render anything.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// What may show a secret: the secrets themselves, and a function that prints everything.
const SHOWS: [&str; 2] = ["secrets", "debug"];
/// What takes another template in.
const INCLUDES: [&str; 3] = ["include", "import", "extends"];

/// The digest of a secret that is whole: no one gets it back from that.
static DIGEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let path = r"secrets(\.[A-Za-z_]+){2}";
    Regex::new(&format!(r"\{{\{{-? ?({path}|\(\x22[A-Za-z0-9:_-]*\x22 ~ {path}\)) \| sha1 ?-?\}}\}}")).ok()
});
/// A snippet that is included by its name.
static INCLUDE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\{%-? ?include [\x22']([A-Za-z0-9_]+)[\x22'] ?-?%\}").ok());

/// Whether a template, or what it includes, may show a secret or a part of one.
#[must_use]
pub fn may_show(text: &str, snippets: &BTreeMap<String, String>) -> bool {
    let (Some(digest), Some(include)) = (&*DIGEST, &*INCLUDE) else { return true };
    let shows = |text: &str| SHOWS.iter().chain(&INCLUDES).any(|word| text.contains(word));
    let text = digest.replace_all(text, "");
    let mut included = include.captures_iter(&text).map(|found| found[1].to_owned());
    // A snippet includes no other.
    let is_open = |name: String| snippets.get(&name).is_none_or(|text| shows(&digest.replace_all(text, "")));
    included.any(is_open) || shows(&include.replace_all(&text, ""))
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
            ("{{ name }}", false),
            ("{{ secrets.own.password }}", true),
            ("{{- secrets.own.password | upper -}}", true),
            ("{{ \"}}\" ~ secrets.own.password | upper }}", true),
            ("{{ secrets.own.password[:1] | sha1 }}", true),
            ("{{ (secrets.own.password < \"m\") | sha1 }}", true),
            ("{{ secrets.own.password < \"m\" | sha1 }}", true),
            ("{{ (secrets.own.password if number == 1) | sha1 }}", true),
            ("{{ \"{{ (\" ~ secrets.own.password | upper ~ \" ~ secrets.a.b) | sha1 }}\" }}", true),
            ("{% set all = secrets %}{{ all }}", true),
            ("{{ debug() | upper }}", true),
            ("{% include secrets.own.password %}", true),
            ("{% include \"pass\" ~ \"word\" %}", true),
            ("{%include\"password\"%}", true),
            ("{%\tinclude \"password\" %}", true),
            ("{% include \"password\" %}", true),
            ("{% include \"unknown\" %}", true),
            ("{% include \"port\" %}", false),
            ("{%- include 'port' -%}", false),
            ("{{ secrets.own.password | sha1 }}", false),
            ("{{ (\"super:\" ~ secrets.own.password) | sha1 }}", false),
        ] {
            assert_eq!(may_show(text, &snippets), wanted, "{text}");
        }
    }
}
