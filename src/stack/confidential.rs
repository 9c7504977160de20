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
/// Where each Pod finds its token: a path that is no secret.
const TOKEN: &str = "/run/secrets/kubernetes.io/";
/// What takes another template in.
const INCLUDES: [&str; 3] = ["include", "import", "extends"];

/// The digest of a secret that is whole: no one gets it back from that.
static DIGEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let path = r"secrets(\.[A-Za-z_]+){2}";
    Regex::new(&format!(r"\{{\{{-? ?({path}|\(\x22[A-Za-z0-9:_-]*\x22 ~ {path}\)) \| sha1 ?-?\}}\}}")).ok()
});
/// A secret that is whole: who knows all else of a file cannot guess it.
static WHOLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\{\{-? ?secrets(\.[A-Za-z_]+){2} ?-?\}\}").ok());
/// A snippet that is included by its name.
static INCLUDE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\{%-? ?include [\x22']([A-Za-z0-9_]+)[\x22'] ?-?%\}").ok());

/// Whether a template, or what it includes, may show a secret or a part of one.
#[must_use]
pub fn may_show(text: &str, snippets: &BTreeMap<String, String>) -> bool {
    shows(text, snippets, &[&DIGEST])
}

/// Whether a template, or what it includes, may show a part of a secret without the rest: a digest of its file then
/// tells that part.
#[must_use]
pub fn may_show_part(text: &str, snippets: &BTreeMap<String, String>) -> bool {
    shows(text, snippets, &[&DIGEST, &WHOLE])
}

/// Whether a template may show a secret in another way than these.
fn shows(text: &str, snippets: &BTreeMap<String, String>, harmless: &[&LazyLock<Option<Regex>>]) -> bool {
    let Some(include) = &*INCLUDE else { return true };
    let less = |text: &str| {
        let text = text.replace(TOKEN, "");
        harmless.iter().filter_map(|one| one.as_ref()).fold(text, |text, one| one.replace_all(&text, "").into())
    };
    let shows = |text: &str| SHOWS.iter().chain(&INCLUDES).any(|word| text.contains(word));
    let text = less(text);
    let mut included = include.captures_iter(&text).map(|found| found[1].to_owned());
    // A snippet includes no other.
    let is_open = |name: String| snippets.get(&name).is_none_or(|text| shows(&less(text)));
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

    #[test]
    fn a_secret_that_is_whole_tells_no_part_of_itself() {
        let snippets = BTreeMap::from([("password".to_owned(), "p = {{ secrets.own.password }}".to_owned())]);
        for (text, wanted) in [
            ("{{ secrets.own.password }} {{- secrets.own.cookie -}} {% include \"password\" %}", false),
            ("{{ secrets.own.password | sha1 }}", false),
            ("{{ secrets.own.password[:1] }}", true),
            ("{{ secrets.own.password | upper }}", true),
            ("{% if secrets.own.password < \"m\" %}{{ secrets.own.password }}{% endif %}", true),
        ] {
            assert_eq!(may_show_part(text, &snippets), wanted, "{text}");
        }
    }

    #[test]
    fn no_template_of_the_table_shows_a_part_of_a_secret() {
        let table = crate::stack::table::Table::own();
        for row in &table.rows {
            let all = table.templates(&row.files);
            for (name, text) in all.files {
                assert!(!may_show_part(text, all.snippets), "{}: {name}", row.kind);
            }
        }
    }
}
