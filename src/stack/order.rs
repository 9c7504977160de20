//! The order in which a stack starts: a component is created once all that it needs serves.
//!
//! A gate holds back creation only: what exists stays, whatever became of what it needs. Must not know why a component
//! does not serve.

use super::table::Table;

/// A component's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'s> {
    /// Its row of the table.
    pub row: usize,
    pub name: &'s str,
    pub serves: bool,
    pub exists: bool,
}

/// What a component waits for before it is created: names of components, or of kinds of which there is none. `named`:
/// which component it means, where its spec says so of a kind.
#[must_use]
pub fn waits_for<'s>(
    table: &'s Table,
    of: usize,
    all: &[Standing<'s>],
    named: impl Fn(&str) -> Option<&'s str>,
) -> Vec<&'s str> {
    let mut waits = Vec::new();
    for need in &table.rows[of].needs {
        let is_it = |one: &&Standing<'_>| table.rows[one.row].kind == *need;
        let is_meant = |one: &&Standing<'_>| named(need).is_none_or(|name| name == one.name);
        let meant: Vec<_> = all.iter().filter(is_it).filter(is_meant).collect();
        if meant.is_empty() {
            waits.push(named(need).unwrap_or(need));
        }
        waits.extend(meant.iter().filter(|one| !one.serves).map(|one| one.name));
    }
    waits
}

/// Components that exist and need this one, which does not serve.
#[must_use]
pub fn left_without<'s>(
    table: &Table,
    lost: Standing<'_>,
    all: &[Standing<'s>],
    needs: impl Fn(&Standing<'_>, Standing<'_>) -> bool,
) -> Vec<&'s str> {
    let kind = &table.rows[lost.row].kind;
    let is_left = |one: &&Standing<'_>| one.exists && table.rows[one.row].needs.contains(kind) && needs(one, lost);
    all.iter().filter(is_left).map(|one| one.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |kind: &str, needs: &str| {
            format!("{{ kind: {kind}, key: {kind}s, workload: StatefulSet, containers: [c], needs: [{needs}] }}")
        };
        let rows = [row("store", ""), row("queue", ""), row("app", "store, queue")].join(", ");
        Table::read(&format!(
            "labels: {{ kind: k }}\nstorageClass: s\nserviceAccount: a\nfilesPath: /f\nrows: [{rows}]"
        ))
        .unwrap()
    }

    fn standing(row: usize, name: &str, serves: bool) -> Standing<'_> {
        Standing { row, name, serves, exists: true }
    }

    #[test]
    fn one_waits_for_all_that_it_needs_and_for_what_there_is_none_of() {
        let table = table();
        let all = [standing(0, "s1", true), standing(0, "s2", false)];
        assert_eq!(waits_for(&table, 2, &all, |_| None), ["s2", "queue"]);
        assert_eq!(waits_for(&table, 2, &all, |kind| (kind == "store").then_some("s1")), ["queue"]);
        assert_eq!(waits_for(&table, 2, &all, |kind| (kind == "store").then_some("s3")), ["s3", "queue"]);
        assert_eq!(waits_for(&table, 0, &all, |_| None), [] as [&str; 0]);
        let all = [standing(0, "s1", true), standing(1, "q", true)];
        assert_eq!(waits_for(&table, 2, &all, |_| None), [] as [&str; 0]);
    }

    #[test]
    fn those_that_exist_are_named_when_what_they_need_is_lost() {
        let table = table();
        let app = Standing { exists: false, ..standing(2, "later", false) };
        let all = [standing(0, "s1", false), standing(2, "a", true), app];
        assert_eq!(left_without(&table, all[0], &all, |_, _| true), ["a"]);
        assert_eq!(left_without(&table, all[0], &all, |_, _| false), [] as [&str; 0]);
    }
}
