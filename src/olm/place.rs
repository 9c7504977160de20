//! The position of something in a YAML file, so that an error can name the line.
//!
//! Reads lines, not YAML: what is written in one line, as a person may, is found by its first line alone. Must not
//! judge.

/// The line, counted from 1, of a field of the entry number `at` in the list under a top-level key.
#[must_use]
pub fn line(text: &str, list: &str, at: usize, field: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let Some(head) = lines.iter().position(|line| line.starts_with(&format!("{list}:"))) else { return 1 };
    // As far as the next key.
    let is_below = |line: &&str| line.is_empty() || line.starts_with([' ', '#', '-']);
    let below: Vec<&str> = lines[head + 1..].iter().copied().take_while(is_below).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let Some(first) = below.iter().find(|line| line.trim_start().starts_with("- ")) else { return head + 1 };
    let is_entry = |line: &&str| indent(line) == indent(first) && line.trim_start().starts_with("- ");
    let entries: Vec<usize> = (0..below.len()).filter(|index| is_entry(&below[*index])).collect();
    let Some(&begin) = entries.get(at) else { return head + 1 };
    let end = entries.get(at + 1).copied().unwrap_or(below.len());
    let is_field = |line: &&str| line.trim_start().trim_start_matches("- ").starts_with(&format!("{field}:"));
    let inside = below[begin..end].iter().position(is_field).unwrap_or(0);
    head + begin + inside + 2
}

/// The line of a top-level key, or of a field right below it.
#[must_use]
pub fn key(text: &str, key: &str, field: Option<&str>) -> usize {
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(&format!("{key}:")));
    let Some((head, _)) = lines.next() else { return 1 };
    let mut inside = lines.take_while(|(_, line)| line.starts_with([' ', '#', '-']) || line.is_empty());
    let found = field.and_then(|field| inside.find(|(_, line)| line.trim_start().starts_with(&format!("{field}:"))));
    found.map_or(head, |(at, _)| at) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_fields_are_found_and_of_what_is_missing_the_nearest() {
        let text = "# head\nreleases:\n- version: 0.1.0\n  date: x\n# between\n- date: y\n  skips:\n  - version: no\n  \
            version: 0.2.0\n\
            next: []\nbases:\n  # one\n  opm: x\n";
        let of = |at, field| line(text, "releases", at, field);
        assert_eq!((of(0, "version"), of(0, "date"), of(1, "date"), of(1, "skips")), (3, 4, 6, 7));
        assert_eq!((of(0, "absent"), of(1, "absent"), of(7, "date")), (3, 6, 2), "the nearest");
        assert_eq!(line(text, "absent", 0, "date"), 1);
        assert_eq!(
            (key(text, "bases", Some("opm")), key(text, "bases", Some("no")), key(text, "next", None)),
            (13, 11, 10)
        );
        assert_eq!(key(text, "absent", None), 1);
        let flow = "releases: [{ version: x }]\nnext:\n- One.\n";
        assert_eq!(line(flow, "releases", 0, "version"), 1, "nothing of another list");
    }
}
