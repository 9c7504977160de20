//! Commands within the texts that are printed: where each begins and ends, and for which cluster it is.
//!
//! Every text passes here on its way out: a command without the flags that the user typed would steer another cluster.
//! Must not choose words.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use serde::Serialize;
use serde_yaml::Value;

const KUBECTL: &str = "kubectl";
const PLUGIN: &str = "kubectl oneagent";

/// What the user typed of the cluster: a process asks about one.
static CLUSTER: OnceLock<String> = OnceLock::new();

/// From now on every command is printed with what was typed of the cluster.
pub(super) fn are_for(access: String) {
    let _ = CLUSTER.set(access);
}

/// A text, with its commands as they are to be typed.
pub(super) fn typed(text: &str) -> Cow<'_, str> {
    CLUSTER.get().map_or(Cow::Borrowed(text), |access| for_cluster(access, text))
}

/// Data, with the commands of its texts as they are to be typed.
pub(super) fn data<T: Serialize + ?Sized>(value: &T) -> Result<Value, String> {
    let mut data = serde_yaml::to_value(value).map_err(|error| error.to_string())?;
    if let Some(access) = CLUSTER.get() {
        all_for_cluster(access, &mut data);
    }
    Ok(data)
}

/// The same as JSON. Where nothing was typed, it is written as it is: the page sends thousands of nodes.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    let is_plain = CLUSTER.get().is_none_or(String::is_empty);
    let written = if is_plain { serde_json::to_string(value) } else { serde_json::to_string(&data(value)?) };
    written.map_err(|error| error.to_string())
}

fn all_for_cluster(access: &str, data: &mut Value) {
    match data {
        Value::String(text) => *text = for_cluster(access, text).into_owned(),
        Value::Sequence(items) => items.iter_mut().for_each(|item| all_for_cluster(access, item)),
        Value::Mapping(fields) => fields.values_mut().for_each(|field| all_for_cluster(access, field)),
        _ => {}
    }
}

/// A text, with `access` in each command that lacks it.
fn for_cluster<'t>(access: &str, text: &'t str) -> Cow<'t, str> {
    if access.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut whole, mut done) = (String::new(), 0);
    for Range { start, end } in found(text) {
        let program = if text[start..end].starts_with(PLUGIN) { PLUGIN } else { KUBECTL };
        let at = start + program.len();
        if !text[at..].starts_with(access) {
            whole.push_str(&text[done..at]);
            whole.push_str(access);
            done = at;
        }
    }
    whole.push_str(&text[done..]);
    Cow::Owned(whole)
}

/// Where the commands of a text are.
pub(super) fn found(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = text[from..].find("kubectl ") {
        let start = from + at;
        let end = start + length(&text[start..]);
        let is_part = text[..start].ends_with(|c: char| c.is_alphanumeric() || "-_./".contains(c));
        if !is_part && is_command(&text[start..end]) {
            found.push(start..end);
            from = end;
        } else {
            from = start + KUBECTL.len();
        }
    }
    found
}

/// Whether a verb or a flag follows the program: messages also begin with its name.
fn is_command(text: &str) -> bool {
    let arguments = text.strip_prefix(PLUGIN).or_else(|| text.strip_prefix(KUBECTL)).unwrap_or_default();
    arguments.trim_start().starts_with(|c: char| c.is_ascii_lowercase() || c == '-')
}

/// How long the command is that a text begins with: until its sentence, a remark or another command takes over.
fn length(text: &str) -> usize {
    let (mut quote, mut chars) = (None, text.char_indices());
    while let Some((at, c)) = chars.next() {
        let rest = chars.as_str();
        let is_last = rest.is_empty() || rest.starts_with(char::is_whitespace);
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '\\' => drop(chars.next()),
            '\'' | '"' if rest.contains(c) => quote = Some(c),
            ';' | ')' | '`' | '\n' => return at,
            ',' | '.' | ':' | '?' if is_last => return at,
            '(' | '&' | '|' if text[..at].ends_with(' ') => return text[..at].trim_end().len(),
            _ => {}
        }
    }
    text.trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCESS: &str = r" --kubeconfig /a/b --context 'it'\''s prod'";

    fn commands(text: &str) -> Vec<&str> {
        found(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_command_ends_where_its_sentence_goes_on() {
        let retry = "kubectl oneagent -n n retry a";
        for text in [
            format!("to try it again: {retry} (spec.rollout.retry: 1); a newer version is taken"),
            format!("{retry}, or remove it"),
            format!("see the docs ({retry})"),
            format!("{retry}. If it does not end, ask"),
            format!("{retry}\nnext line"),
        ] {
            assert_eq!(commands(&text), [retry], "{text}");
        }
        let patch = r#"kubectl -n n patch oneagent a --type=merge -p '{"spec":{"rollout":{"reject":"1, 2; 3"}}}'"#;
        assert_eq!(commands(&format!("others follow: {patch}; or: {patch}.")), [patch, patch]);
        let list = "kubectl -n n get daemonsets,pods -l a=b,oneagent=x";
        assert_eq!(commands(&format!("see {list}")), [list]);
        assert_eq!(
            commands("lift it: kubectl annotate x y- && kubectl -n n delete pod z"),
            ["kubectl annotate x y-", "kubectl -n n delete pod z"]
        );
    }

    #[test]
    fn a_name_is_no_command() {
        for text in ["kubectl oneagent: no answer", "exec kubectl-oneagent status", "see kubectl", "/a/b.kubectl get x"]
        {
            assert_eq!(commands(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn each_command_is_for_the_cluster_that_was_asked_about_and_once() {
        let text = "correct it: kubectl oneagent -n n retry a (why); or: kubectl -n n logs p && kubectl get nodes";
        let typed = for_cluster(ACCESS, text);
        let expected = format!(
            "correct it: kubectl oneagent{ACCESS} -n n retry a (why); or: kubectl{ACCESS} -n n logs p && \
            kubectl{ACCESS} get nodes"
        );
        assert_eq!(typed, expected);
        assert_eq!(for_cluster(ACCESS, &typed), expected, "it is there already");
        assert_eq!(for_cluster(ACCESS, "delete the Pod"), "delete the Pod");
        assert_eq!(for_cluster("", text), text);
    }

    #[test]
    fn data_keeps_its_order_and_has_the_cluster_in_each_text() {
        let mut data = serde_yaml::from_str("z: [{message: 'try kubectl get nodes'}]\na: 1\n").unwrap();
        all_for_cluster(" --context x", &mut data);
        let json = serde_json::to_string(&data).unwrap();
        assert_eq!(json, r#"{"z":[{"message":"try kubectl --context x get nodes"}],"a":1}"#);
    }
}
