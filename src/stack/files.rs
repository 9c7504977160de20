//! The files that a component's programs read: templates, rendered for each of its servers.
//!
//! An undefined variable is an error: a file that lacks an address must not reach a program. Must not know a component,
//! nor where files are kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::k8s::hex::hex;

/// Stands for a server's own address where that must make no difference.
const ANY: &str = "ADDRESS";
/// So many instructions of a template are enough for thousands of servers.
const FUEL: u64 = 200_000;

/// What templates may use.
#[derive(Debug, Clone, Serialize)]
pub struct Context<'c> {
    /// The component.
    pub name: &'c str,
    /// What its service says.
    pub fields: &'c Map<String, Value>,
    /// Addresses of the servers of each kind, those of its own too.
    pub servers: BTreeMap<&'c str, Vec<String>>,
    /// Own address, and which of its component's servers it is, from 1.
    address: &'c str,
    number: usize,
}

impl<'c> Context<'c> {
    #[must_use]
    pub fn new(name: &'c str, fields: &'c Map<String, Value>, servers: BTreeMap<&'c str, Vec<String>>) -> Self {
        Self { name, fields, servers, address: ANY, number: 0 }
    }
}

/// Rendered files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// By name and address.
    pub data: BTreeMap<String, String>,
    /// Another one when a program must read them again: not when only a server comes or goes that no file names.
    pub revision: String,
}

/// What is wrong with templates, whatever they are rendered with.
pub fn check(templates: &BTreeMap<String, String>) -> Result<(), String> {
    environment(templates).map(drop)
}

/// Renders all templates for each of these addresses, or says which cannot be, and why.
pub fn render(
    templates: &BTreeMap<String, String>,
    context: &Context<'_>,
    addresses: &[String],
) -> Result<Files, String> {
    let all = environment(templates)?;
    let one = |name: &str, context: &Context<'_>| -> Result<String, String> {
        let template = all.get_template(name).map_err(|why| said(name, &why))?;
        template.render(Serde(context)).map_err(|why| said(name, &why))
    };
    let mut files = Files::default();
    let mut shared = String::new();
    for name in templates.keys() {
        let _ = writeln!(shared, "{name}\n{}", one(name, context)?);
        for (at, address) in addresses.iter().enumerate() {
            let own = Context { address, number: at + 1, ..context.clone() };
            files.data.insert(format!("{name}.{address}"), one(name, &own)?);
        }
    }
    files.revision = hex(&Sha256::digest(shared.as_bytes())[..8]);
    Ok(files)
}

fn environment(templates: &BTreeMap<String, String>) -> Result<Environment<'_>, String> {
    let mut all = Environment::new();
    all.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    all.set_syntax(syntax.map_err(|why| why.to_string())?);
    // A template may be anybody's.
    all.set_fuel(Some(FUEL));
    for (name, text) in templates {
        all.add_template(name, text).map_err(|why| said(name, &why))?;
    }
    Ok(all)
}

fn said(name: &str, why: &minijinja::Error) -> String {
    format!("template {name}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn owned(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn each_server_has_its_files_and_only_what_all_share_makes_another_revision() {
        let fields = Map::from_iter([("level".to_owned(), Value::from("debug"))]);
        let peers =
            templates(&[("a", "{{ address }} {{ number }} {{ servers.store | join(',') }} {{ fields.level }}\n")]);
        let of = |store: &[&str], own: &[&str]| {
            let context = Context::new("one", &fields, BTreeMap::from([("store", owned(store))]));
            render(&peers, &context, &owned(own)).unwrap()
        };
        let files = of(&["10.0.0.1", "10.0.0.2"], &["10.0.0.3", "10.0.0.4"]);
        assert_eq!(files.data["a.10.0.0.4"], "10.0.0.4 2 10.0.0.1,10.0.0.2 debug\n");
        assert_eq!(files.data.len(), 2);
        assert_eq!(of(&["10.0.0.1", "10.0.0.2"], &["10.0.0.3"]).revision, files.revision, "one server less");
        assert_ne!(of(&["10.0.0.1"], &["10.0.0.3"]).revision, files.revision, "one peer less");
    }

    #[test]
    fn what_is_undefined_is_an_error_that_names_the_template() {
        let fields = Map::new();
        let context = Context::new("one", &fields, BTreeMap::new());
        for (text, said) in
            [("{{ fields.level }}", "undefined"), ("{{ servers.store[0] }}", "undefined"), ("{% if", "")]
        {
            let why = render(&templates(&[("a", text)]), &context, &owned(&["10.0.0.1"])).unwrap_err();
            assert!(why.starts_with("template a: ") && why.contains(said), "{why}");
        }
    }
}
