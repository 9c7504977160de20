//! The files that a component's programs read: templates, rendered for each of its servers.
//!
//! An undefined variable is an error: a file that lacks an address must not reach a program. Must not know a component,
//! nor where files are kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::{Map, Value};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::confidential::{may_show, may_show_part};
use crate::k8s::hex::hex;

/// So many instructions of a template are enough for thousands of servers.
const FUEL: u64 = 200_000;

/// What templates may use.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Context<'c> {
    /// The component.
    pub name: &'c str,
    /// What its service says.
    pub fields: Map<String, Value>,
    /// Addresses of the servers of each kind, those of its own too.
    pub servers: BTreeMap<&'c str, Vec<String>>,
    /// Its own servers.
    pub peers: Vec<Peer>,
    /// Where certificates are, if it has some.
    pub certificates: Option<&'c str>,
    /// Its own secrets, and those of the components that it needs, by kind and name.
    pub secrets: BTreeMap<&'c str, BTreeMap<String, String>>,
    /// The tag of its image.
    pub version: &'c str,
    /// Its kind.
    #[serde(skip)]
    pub kind: &'c str,
    /// Files that its programs reload on their own.
    #[serde(skip)]
    pub rereads: &'c [String],
    /// Whether its servers discover further ones on their own: their files change for that, and nothing must restart.
    #[serde(skip)]
    pub learns: bool,
}

/// A server of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Peer {
    pub number: u32,
    pub address: String,
}

impl Peer {
    /// Placeholder of one whose number and address must make no difference.
    fn any() -> Self {
        Self { number: 0, address: "ADDRESS".to_owned() }
    }
}

/// What a template is rendered with: the context, and the server whose file it is.
#[derive(Serialize)]
struct Own<'o> {
    #[serde(flatten)]
    server: &'o Peer,
    #[serde(flatten)]
    context: &'o Context<'o>,
}

/// Rendered files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// By name and address.
    pub data: BTreeMap<String, String>,
    /// Those of templates that may show a secret.
    pub secret: BTreeMap<String, String>,
    /// Another one when a program must read them again: not when only a server joins or leaves that no file names.
    pub revision: String,
}

/// What files are rendered from.
#[derive(Debug, Clone, Copy)]
pub struct Templates<'t> {
    /// What templates include, by name.
    pub snippets: &'t BTreeMap<String, String>,
    /// A template for each file, by name.
    pub files: &'t BTreeMap<String, String>,
}

/// What is wrong with templates, whatever they are rendered with.
pub fn check(templates: &Templates<'_>) -> Result<(), String> {
    environment(templates).map(drop)
}

/// Renders all templates for each server, or says which cannot be, and why.
pub fn render(templates: &Templates<'_>, context: &Context<'_>) -> Result<Files, String> {
    let all = environment(templates)?;
    let one = |name: &str, server: &Peer, context: &Context<'_>| {
        all.get_template(name)?.render(Serde(Own { server, context }))
    };
    let any = Peer::any();
    let mut for_any = context.clone();
    if context.learns {
        for_any.servers.insert(context.kind, vec![any.address.clone()]);
        for_any.peers = vec![any.clone()];
    }
    let mut files = Files::default();
    let mut shared = String::new();
    for (name, template) in templates.files {
        let may_show = may_show(template, templates.snippets);
        let one = |server: &Peer, context: &Context<'_>| {
            one(name, server, context)
                .map_err(|why| if may_show { said_in_short(name, &why) } else { said(name, &why) })
        };
        let text = one(&any, &for_any)?;
        if !context.rereads.contains(name) {
            let _ = writeln!(shared, "{name}\n{text}");
            if may_show_part(template, templates.snippets) {
                // The author of a template may read the revision. Two templates that show parts of a secret must never
                // have the same revision, nor one that can be computed from these parts.
                let _ = writeln!(shared, "{template}\n{:?}\n{:?}", templates.snippets, context.secrets);
            }
        }
        let own = context.peers.iter().map(|server| Ok((server, one(server, context)?)));
        let own: Vec<(&Peer, String)> = own.collect::<Result<_, String>>()?;
        // The user may have written one down.
        let has_any = |text: &String| context.secrets.values().flat_map(BTreeMap::values).any(|one| text.contains(one));
        let is_secret = may_show || has_any(&text) || own.iter().any(|(_, text)| has_any(text));
        let into = if is_secret { &mut files.secret } else { &mut files.data };
        into.extend(own.into_iter().map(|(server, text)| (format!("{name}.{}", server.address), text)));
    }
    files.revision = hex(&Sha256::digest(shared.as_bytes())[..8]);
    Ok(files)
}

fn environment<'t>(templates: &Templates<'t>) -> Result<Environment<'t>, String> {
    let mut all = Environment::new();
    all.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    all.set_syntax(syntax.map_err(|why| why.to_string())?);
    // A template may be anyone's.
    all.set_fuel(Some(FUEL));
    all.add_filter("sha1", |text: String| STANDARD.encode(Sha1::digest(text.as_bytes())));
    all.add_filter("at", |addresses: Vec<String>, port: u16| -> Vec<String> {
        addresses.iter().map(|address| at(address, port)).collect()
    });
    for (name, text) in templates.snippets.iter().chain(templates.files) {
        all.add_template(name, text).map_err(|why| said(name, &why))?;
    }
    Ok(all)
}

/// Where a server listens.
fn at(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn said(name: &str, why: &minijinja::Error) -> String {
    format!("template {name}: {why}")
}

/// The same of a template that may show a secret: what is wrong may quote it.
fn said_in_short(name: &str, why: &minijinja::Error) -> String {
    let line = why.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    format!("template {name}: {}{line}; it uses secrets, so the cause is not quoted", why.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn rendered(files: &BTreeMap<String, String>, context: &Context<'_>) -> Result<Files, String> {
        render(&Templates { snippets: &templates(&[("port", "80")]), files }, context)
    }

    /// A component of these servers, with a store of those.
    fn context(own: &[(u32, &str)], store: &[&str]) -> Context<'static> {
        let address = |address: &&str| (*address).to_owned();
        let peers: Vec<Peer> =
            own.iter().map(|(number, address)| Peer { number: *number, address: (*address).to_owned() }).collect();
        let servers = BTreeMap::from([
            ("store", store.iter().map(address).collect()),
            ("own", peers.iter().map(|peer| peer.address.clone()).collect()),
        ]);
        let fields = Map::from_iter([("level".to_owned(), Value::from("debug"))]);
        let secrets = BTreeMap::from([("own", BTreeMap::from([("password".to_owned(), "hidden".to_owned())]))]);
        let (version, certificates) = ("3.7", None);
        let (kind, rereads) = ("own", &[]);
        Context { name: "one", fields, servers, peers, certificates, secrets, version, kind, rereads, learns: false }
    }

    #[test]
    fn what_shows_a_secret_to_one_server_alone_is_confidential_for_all() {
        for text in [
            "{% if number == 1 %}{{ secrets.own.password }}{% endif %}",
            "{{ secrets.own.password }}",
            "{{ secrets.own.password | upper }}",
        ] {
            let files = rendered(&templates(&[("a", text)]), &context(&[(1, "10.0.0.3"), (4, "10.0.0.4")], &[]));
            let files = files.unwrap();
            assert_eq!((files.data.len(), files.secret.len()), (0, 2), "{text}");
        }
    }

    #[test]
    fn a_revision_tells_no_part_of_a_secret_to_the_author_of_a_template() {
        let with = |text: &str, password: &str| {
            let mut context = context(&[(1, "10.0.0.3")], &[]);
            context.secrets.insert("own", BTreeMap::from([("password".to_owned(), password.to_owned())]));
            rendered(&templates(&[("a", text)]), &context).unwrap().revision
        };
        let first = "{{ secrets.own.password[:1] }}";
        assert_eq!(with(first, "hidden"), with(first, "hidden"));
        assert_ne!(with(first, "hidden"), with(first, "hazard"), "a guess of the part is no guess of the whole");
        assert_ne!(
            with(first, "hidden"),
            with("{% if secrets %}h{% endif %}", "hidden"),
            "nor is one template another"
        );
    }

    #[test]
    fn each_server_has_its_files_and_only_what_all_share_makes_another_revision() {
        let templates =
            templates(&[("a", "{{ address }} {{ number }} {{ servers.store | join(',') }} {{ fields.level }}\n")]);
        let of = |own: &[(u32, &str)], store: &[&str]| rendered(&templates, &context(own, store)).unwrap();
        let files = of(&[(1, "10.0.0.3"), (4, "10.0.0.4")], &["10.0.0.1", "10.0.0.2"]);
        assert_eq!(files.data["a.10.0.0.4"], "10.0.0.4 4 10.0.0.1,10.0.0.2 debug\n");
        assert_eq!((files.data.len(), files.secret.len()), (2, 0));
        assert_eq!(of(&[(1, "10.0.0.3")], &["10.0.0.1", "10.0.0.2"]).revision, files.revision, "one server less");
        assert_ne!(of(&[(1, "10.0.0.3")], &["10.0.0.1"]).revision, files.revision, "one peer less");
    }

    #[test]
    fn those_that_learn_of_each_other_need_not_restart_when_another_one_joins() {
        let templates = templates(&[("a", "{% for peer in peers %}{{ peer.number }}={{ peer.address }} {% endfor %}")]);
        for (learns, is_same) in [(true, true), (false, false)] {
            let of = |own: &[(u32, &str)]| rendered(&templates, &Context { learns, ..context(own, &[]) }).unwrap();
            let (one, two) = (of(&[(1, "10.0.0.3")]), of(&[(1, "10.0.0.3"), (2, "10.0.0.4")]));
            assert_eq!(one.revision == two.revision, is_same);
            assert_eq!(two.data["a.10.0.0.3"], "1=10.0.0.3 2=10.0.0.4 ");
        }
    }

    #[test]
    fn a_file_that_is_read_again_makes_no_other_revision_and_a_snippet_is_part_of_one() {
        let templates = templates(&[("a", "{% include 'port' %} {{ servers.store | at(80) | join(' ') }}")]);
        for (rereads, is_same) in [(vec!["a".to_owned()], true), (vec![], false)] {
            let of = |store: &[&str]| {
                rendered(&templates, &Context { rereads: &rereads, ..context(&[(1, "10.0.0.3")], store) }).unwrap()
            };
            let (one, two) = (of(&["10.0.0.1"]), of(&["10.0.0.1", "fd00::2"]));
            assert_eq!(one.revision == two.revision, is_same);
            assert_eq!(two.data["a.10.0.0.3"], "80 10.0.0.1:80 [fd00::2]:80");
        }
    }

    #[test]
    fn a_file_with_a_secret_is_none_for_everybody() {
        let all = templates(&[("a", "{{ secrets.own.password }}"), ("b", "{{ secrets.own.password | sha1 }}")]);
        let files = rendered(&all, &context(&[(1, "10.0.0.3")], &[])).unwrap();
        assert_eq!(files.secret.keys().collect::<Vec<_>>(), ["a.10.0.0.3"]);
        assert_eq!(files.data["b.10.0.0.3"], "mdcsf8Pi4UWHC+qzfAtw40PqnDs=");
    }

    #[test]
    fn what_is_undefined_is_an_error_that_names_the_template() {
        for (text, said) in [
            ("{{ fields.size }}", "undefined"),
            ("{{ servers.store[0] }}", "undefined"),
            ("{{ secrets.own.cookie }}", "undefined"),
            ("{{ secrets.store.password }}", "undefined"),
            ("{% if", ""),
            ("{% include secrets.own.password %}", "template not found in line 1"),
        ] {
            let why = rendered(&templates(&[("a", text)]), &context(&[(1, "10.0.0.1")], &[])).unwrap_err();
            assert!(why.starts_with("template a: ") && why.contains(said) && !why.contains("hidden"), "{why}");
        }
    }
}
