//! The reference pages: every field of every kind as the CRDs have it, and every command as the program says it.
//!
//! Must not add a word of its own to what types and commands say of themselves.

use std::fmt::Write as _;

use clap::Command;
use clap_complete::Shell;
use oneagent_operator::api::package::{Kind, Package};
use oneagent_operator::api::schema;
use oneagent_operator::olm::manifests::File;
use serde_json::Value;

/// What Kubernetes itself documents is not opened.
const KUBERNETES: [&str; 4] = ["affinity", "env", "resources", "tolerations"];
const MADE: &str = "<!-- Made by `make generate` from the types and the program; edits are lost. -->";

/// The page of each kind of a package.
pub fn kinds(package: &Package) -> Result<Vec<File>, serde_json::Error> {
    package.kinds.iter().map(page).collect()
}

fn page(kind: &Kind) -> Result<File, serde_json::Error> {
    let crd = schema::crd(kind)?;
    let version = &crd["spec"]["versions"][0];
    let (group, name) = (kind.group, version["name"].as_str().unwrap_or_default());
    let mut text = format!("{MADE}\n\n# {} ({group}/{name})\n\n", kind.name);
    let schema = &version["schema"]["openAPIV3Schema"];
    let _ = writeln!(text, "{}\n", said(schema));
    for (part, title) in [("spec", "Spec"), ("status", "Status")] {
        let _ = writeln!(text, "## {title}\n");
        blocks(&mut text, &format!("{part}."), &schema["properties"][part]);
    }
    Ok(file(&format!("{}.md", kind.name.to_lowercase()), text.as_bytes()))
}

/// A block for each field, those of objects below their own.
fn blocks(text: &mut String, above: &str, schema: &Value) {
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
        let _ = writeln!(text, "{meaning}\n\n- Type: {}", kind_of(field));
        let default = default.map(|default| format!("Default: {}", default.trim_end_matches('.')));
        for fact in default.into_iter().chain(bounds(field)) {
            let _ = writeln!(text, "- {fact}");
        }
        text.push('\n');
        if KUBERNETES.contains(&name.as_str()) {
            continue;
        }
        let (inner, mark) = if field["type"] == "array" { (&field["items"], "[]") } else { (field, "") };
        blocks(text, &format!("{path}{mark}."), inner);
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
            let values: Vec<String> =
                values.iter().filter_map(Value::as_str).map(|value| format!("`{value}`")).collect();
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

/// What variables are set to where this runs is nobody's business.
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
