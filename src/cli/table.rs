//! `table`: reads the table of a stack, says what is wrong with it, and prints what it says. Needs no cluster.
//!
//! Must not change anything.

use std::path::{Path, PathBuf};

use crate::stack::table::{Row, Table};

/// Arguments of `table`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File with the table. Default: the one in the program.
    file: Option<PathBuf>,
}

/// Says what is wrong with a table, or what it says.
pub(super) fn table(args: &Args) -> Result<(), String> {
    choose(args.file.as_deref())?;
    for row in &Table::own().rows {
        say!("{}", line(row));
    }
    Ok(())
}

/// From now on this table holds.
#[expect(clippy::disallowed_methods, reason = "the command line names the file")]
pub(super) fn choose(file: Option<&Path>) -> Result<(), String> {
    let Some(file) = file else { return Table::choose(None) };
    let text = std::fs::read_to_string(file).map_err(|why| format!("{}: {why}", file.display()))?;
    Table::choose(Some(&text)).map_err(|why| format!("{}: {why}", file.display()))
}

fn line(row: &Row) -> String {
    let needs = if row.needs.is_empty() { "nothing".to_owned() } else { row.needs.join(", ") };
    let form = if row.many { "list" } else { "one" };
    let store = if row.store.is_some() { ", a store" } else { "" };
    format!("{} ({}, {form}): {}{store}; needs {needs}", row.kind, row.key, row.workload)
}
