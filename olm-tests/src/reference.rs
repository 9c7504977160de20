//! The reference pages: every field of every kind as the CRDs have it, with a value from a sample and the release in
//! which it came; and every command as the program says it.
//!
//! Must not add a word of its own to what types and commands say of themselves.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::Command;
use clap_complete::Shell;
use oneagent_operator::api::package::{Kind, Package};
use oneagent_operator::api::schema;
use oneagent_operator::olm::manifests::File;
use oneagent_operator::olm::release::Released;
use serde::Deserialize;
use serde_json::Value;

/// Objects with values of fields that no sample has.
const EXAMPLES: [(&str, &str); 5] = [
    ("OneAgent", include_str!("../../docs/examples/oneagent.yaml")),
    ("ConfigWatcher", include_str!("../../docs/examples/configwatcher.yaml")),
    ("PrometheusJmxExporter", include_str!("../../docs/examples/prometheusjmxexporter.yaml")),
    ("Manager", include_str!("../../docs/examples/manager.yaml")),
    ("DaemonSetRollout", include_str!("../../docs/examples/daemonsetrollout.yaml")),
];
/// What Kubernetes itself documents is not opened.
const KUBERNETES: [&str; 4] = ["affinity", "env", "resources", "tolerations"];
const MADE: &str = "<!-- Made by `make generate` from the types and the program; edits are lost. -->";

/// Where the pages of the kinds of a package come from.
pub struct Pages<'a> {
    pub package: &'a Package,
    /// Its releases, oldest first.
    pub releases: &'a [Released],
    /// The version of the present code.
    pub version: &'a str,
}

/// What a page takes from elsewhere than its schema.
struct Known<'a> {
    /// The fields of each release, oldest first.
    releases: Vec<(&'a str, BTreeSet<String>)>,
    /// The release in which the kind came.
    since: &'a str,
    version: &'a str,
    /// Objects of the kind.
    examples: Vec<Value>,
    /// Fields of which none of these has a value.
    missing: Vec<String>,
    /// What was opened, with its path: what is the same elsewhere refers to it.
    opened: Vec<(&'a Value, String)>,
}

impl Pages<'_> {
    /// The page of each kind.
    pub fn kinds(&self) -> Result<Vec<File>, String> {
        self.package.kinds.iter().map(|kind| self.page(kind)).collect()
    }

    fn page(&self, kind: &Kind) -> Result<File, String> {
        let crd = schema::crd(kind).map_err(|error| format!("cannot make the CRD of {}: {error}", kind.name))?;
        let version = &crd["spec"]["versions"][0];
        let (group, name) = (kind.group, version["name"].as_str().unwrap_or_default());
        let schema = &version["schema"]["openAPIV3Schema"];
        let fields = |released: &Released| {
            let crds = released.manifests("CustomResourceDefinition").into_iter();
            let mut found = BTreeSet::new();
            for crd in crds.filter(|crd| crd["spec"]["names"]["kind"] == kind.name) {
                paths("", &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut found);
            }
            found
        };
        let releases = self.releases.iter().map(|one| (one.release.version.as_str(), fields(one)));
        let releases: Vec<(&str, BTreeSet<String>)> = releases.filter(|(_, fields)| !fields.is_empty()).collect();
        let since = releases.first().map_or(self.version, |(version, _)| *version);
        let examples = self.examples(kind)?;
        let mut known =
            Known { releases, since, version: self.version, examples, missing: Vec::new(), opened: Vec::new() };
        let mut text = format!("{MADE}\n\n# {} ({group}/{name})\n\n{}\n\n", kind.name, said(schema));
        let _ = writeln!(text, "Available since release {since}. Fields of a later release name it.\n");
        for (part, title) in [("spec", "Spec"), ("status", "Status")] {
            let _ = writeln!(text, "## {title}\n");
            blocks(&mut text, &format!("{part}."), &schema["properties"][part], &mut known);
        }
        let name = kind.name.to_lowercase();
        if known.missing.is_empty() {
            Ok(file(&format!("{name}.md"), text.as_bytes()))
        } else {
            Err(format!("no sample, nor docs/examples/{name}.yaml, has a value of {}", known.missing.join(", ")))
        }
    }

    /// The samples of a kind, and the objects that have what these do not.
    fn examples(&self, kind: &Kind) -> Result<Vec<Value>, String> {
        let more = EXAMPLES.iter().filter(|(name, _)| *name == kind.name).map(|(_, text)| *text);
        let mut found = Vec::new();
        for text in self.package.samples.iter().map(|sample| sample.yaml).chain(more) {
            for document in serde_yaml::Deserializer::from_str(text) {
                let object =
                    Value::deserialize(document).map_err(|error| format!("an example of {}: {error}", kind.name))?;
                found.extend((object["kind"] == kind.name).then_some(object));
            }
        }
        Ok(found)
    }
}

/// Every field of a schema by its path, with `[]` behind one that is a list.
fn paths(above: &str, schema: &Value, found: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{above}{name}");
        let (inner, mark) = inner(field);
        paths(&format!("{path}{mark}."), inner, found);
        found.insert(path);
    }
}

/// The anchor of a heading, as Markdown has it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    kept.collect::<String>().to_lowercase()
}

/// What is within a field, and what its path has behind it.
fn inner(field: &Value) -> (&Value, &'static str) {
    if field["type"] == "array" { (&field["items"], "[]") } else { (field, "") }
}

/// The first value of a path.
fn value<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let at = object.get(first.trim_end_matches("[]")).filter(|value| !value.is_null())?;
    match (rest, at) {
        (None, _) => Some(at),
        (Some(rest), Value::Array(items)) => items.iter().find_map(|item| value(item, rest)),
        (Some(rest), _) => value(at, rest),
    }
}

/// A field with its value, as a line of YAML has it.
fn written(name: &str, value: &Value) -> String {
    // Other readers take digits with a colon for a number.
    let is_number =
        |text: &&str| text.starts_with(|c: char| c.is_ascii_digit()) && text.len() < 9 && text.contains(':');
    let is_plain = |text: &&str| serde_yaml::from_str::<Value>(text).is_ok_and(|read| read == *value);
    let plain = value.as_str().filter(|text| !is_number(text)).filter(is_plain);
    plain.map_or_else(|| format!("{name}: {value}"), |plain| format!("{name}: {plain}"))
}

/// A block for each field, those of objects below their own.
fn blocks<'v>(text: &mut String, above: &str, schema: &'v Value, known: &mut Known<'v>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{above}{name}");
        let _ = writeln!(text, "### {path}\n");
        // The default is a sentence of its own; where more than it follows, it stays where it is.
        let said = said(field);
        let (meaning, default) = match said.rsplit_once("Default: ") {
            Some((meaning, default)) if !default.trim_end_matches('.').contains(". ") => {
                (meaning.trim(), Some(default))
            }
            _ => (said.as_str(), None),
        };
        let meaning = if meaning.is_empty() { String::new() } else { format!("{meaning}\n\n") };
        let _ = writeln!(text, "{meaning}- Type: {}", kind_of(field));
        let default = default.map(|default| format!("Default: {}", default.trim_end_matches('.')));
        let (inner, mark) = inner(field);
        let is_whole = KUBERNETES.contains(&name.as_str()) || !inner["properties"].is_object();
        let found = if is_whole { known.examples.iter().find_map(|object| value(object, &path)) } else { None };
        let example = found.map(|value| format!("Example: `{}`", written(name, value)));
        let has = |(_, fields): &&(&str, BTreeSet<String>)| fields.contains(&path);
        let since = known.releases.iter().find(has).map_or(known.version, |(version, _)| *version);
        let since = (since != known.since).then(|| format!("Since: {since}"));
        let fields = inner["properties"].is_object().then_some(&inner["properties"]).filter(|_| !is_whole);
        let opened = fields.and_then(|fields| known.opened.iter().find(|(known, _)| *known == fields));
        let fields_of = opened.map(|(_, path)| format!("Fields: as those of [{path}](#{})", anchor(path)));
        let is_opened = opened.is_some();
        for fact in default.into_iter().chain(bounds(field)).chain(fields_of).chain(example).chain(since) {
            let _ = writeln!(text, "- {fact}");
        }
        text.push('\n');
        if is_whole {
            let is_missing = found.is_none() && path.starts_with("spec.");
            known.missing.extend(is_missing.then_some(path));
        } else if !is_opened {
            known.opened.extend(fields.map(|fields| (fields, path.clone())));
            blocks(text, &format!("{path}{mark}."), inner, known);
        }
    }
}

/// What the API server holds a field to.
fn bounds(field: &Value) -> Vec<String> {
    let known = [
        ("minimum", "At least"),
        ("maximum", "At most"),
        ("minLength", "Shortest length"),
        ("maxLength", "Longest length"),
        ("minItems", "Entries, at least"),
        ("maxItems", "Entries, at most"),
        ("pattern", "Pattern"),
        ("format", "Format"),
    ];
    let said = |(key, what): &(&str, &str)| match &field[*key] {
        Value::Null => None,
        Value::String(text) => Some(format!("{what}: `{text}`")),
        number => Some(format!("{what}: {number}")),
    };
    known.iter().filter_map(said).collect()
}

fn kind_of(field: &Value) -> String {
    let of = |value: &Value| match value["type"].as_str() {
        _ if value["x-kubernetes-int-or-string"] == true => "number or text".to_owned(),
        known => known.unwrap_or("any").to_owned(),
    };
    let written = match field["type"].as_str() {
        Some("array") => format!("list of {}", of(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => {
            format!("map of {}", of(&field["additionalProperties"]))
        }
        _ => of(field),
    };
    match field["enum"].as_array() {
        Some(values) => {
            let values: Vec<String> = values
                .iter()
                .map(|value| format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
                .collect();
            values.join(", ")
        }
        None => written,
    }
}

fn said(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}

/// The page of the command line, its manual page, and completions for shells.
pub fn commands(command: Command) -> std::io::Result<Vec<File>> {
    let command = without_values(command);
    let name = command.get_name().to_owned();
    let mut files = Vec::new();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), &name, &mut script);
        files.push(file(&format!("completions/{name}.{shell}"), &script));
    }
    let mut manual = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut manual)?;
    files.push(file(&format!("{name}.1"), &manual));
    files.push(page_of("commands.md", command));
    Ok(files)
}

/// The page of a command line.
#[must_use]
pub fn page_of(path: &str, command: Command) -> File {
    let mut command = without_values(command);
    command.build();
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let mut text = format!("{MADE}\n\n# Commands of {name}\n\n");
    help(&mut text, &command, &name);
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        help(&mut text, inner, &format!("{name} {}", inner.get_name()));
    }
    file(path, text.as_bytes())
}

/// What variables are set to where this runs must not matter.
fn without_values(command: Command) -> Command {
    let command = command.mut_args(|argument| argument.hide_env_values(true));
    command.mut_subcommands(without_values)
}

fn file(name: &str, content: &[u8]) -> File {
    let content = String::from_utf8_lossy(content).trim_end().to_owned() + "\n";
    File { path: format!("docs/reference/{name}"), content }
}

fn help(text: &mut String, command: &Command, name: &str) {
    let shown = command.clone().term_width(120).render_long_help().to_string();
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    let _ = writeln!(text, "## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
}
