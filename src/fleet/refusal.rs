//! Refusals: what the API server says when it refuses a DaemonSet's Pods, in a sentence, with the command that fixes
//! it.
//!
//! Pure. The part that matters often comes last in a long message: what is known is recognised, the rest is quoted and
//! cut at a word. Must not send requests.

/// How much of an unknown message is quoted.
const QUOTED: usize = 600;

/// A refusal in two lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Whether the ServiceAccount is missing.
    pub account_missing: bool,
    /// For a list of nodes.
    pub short: &'static str,
    /// Cause and remedy.
    pub full: String,
}

/// What is said of a refusal without an explanation, because Events cannot be read.
pub const UNREAD: &str = "why cannot be read: the operator needs the right to list Events of this namespace";

/// Whether it is OpenShift's SecurityContextConstraints that refuse; `None`: unknown.
#[must_use]
pub fn is_by_scc(message: &str) -> Option<bool> {
    let says = |words| message.contains(words);
    (message != UNREAD).then(|| says("security context constraint") || says("required scc"))
}

/// Reads a message of the API server, of Pods that an object of a kind asks for under a ServiceAccount.
#[must_use]
pub fn read(message: &str, kind: &str, namespace: &str, account: &str) -> Refusal {
    let grant = format!("oc -n {namespace} adm policy add-scc-to-user privileged -z {account}");
    let message = message.strip_prefix("Error creating: ").unwrap_or(message);
    let known = |short, full: String| Refusal { account_missing: false, short, full };
    if message.contains("security context constraint") {
        return known(
            "no SecurityContextConstraints admit the Pod",
            format!(
                "ServiceAccount {namespace}/{account} may not use SecurityContextConstraints that admit them: run \
                {grant}"
            ),
        );
    }
    if message.contains("serviceaccount") && message.contains("not found") {
        let full = format!(
            "ServiceAccount {account} is missing in namespace {namespace}: move this {kind} to the operator's \
            namespace, or run: oc -n {namespace} create serviceaccount {account} && {grant}"
        );
        return Refusal { account_missing: true, short: "the ServiceAccount is missing", full };
    }
    if message.contains("violates PodSecurity") {
        let label =
            format!("kubectl label namespace {namespace} --overwrite pod-security.kubernetes.io/enforce=privileged");
        return known(
            "PodSecurity refuses the Pod",
            format!("{}; they need level privileged: run {label}", quote(message)),
        );
    }
    if message.contains("exceeded quota") {
        return known(
            "a quota refuses the Pod",
            format!("{}; raise the quota, or remove what uses it", quote(message)),
        );
    }
    if message.contains("admission webhook") || message.contains("failed calling webhook") {
        return known(
            "an admission webhook refuses the Pod",
            format!("{}; fix that webhook or its policy", quote(message)),
        );
    }
    known("the API server refuses the Pod", quote(message))
}

/// The beginning of a message, cut at a word.
fn quote(message: &str) -> String {
    if message.chars().count() <= QUOTED {
        return message.to_owned();
    }
    let cut: String = message.chars().take(QUOTED).collect();
    format!("{} …", cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_openshift_says_at_length_becomes_the_command_that_mends_it() {
        let provider = "provider restricted-v2: .spec.securityContext.hostPID: Invalid value: true: Host PID is not \
            allowed to be used, ";
        let long = format!(
            "Error creating: pods \"agent-\" is forbidden: unable to validate against any security context \
            constraint: [{}provider \"privileged\": Forbidden: not usable by user or serviceaccount]",
            provider.repeat(20)
        );
        let refusal = read(&long, "Agent", "dynatrace", "dynatrace-oneagent-unprivileged");
        assert!(
            refusal.full.ends_with(
                "run oc -n dynatrace adm policy add-scc-to-user privileged -z dynatrace-oneagent-unprivileged"
            ),
            "{}",
            refusal.full
        );
        assert!(refusal.full.len() < 300 && refusal.short.len() < 60);
    }

    #[test]
    fn an_scc_is_told_from_whatever_else_refuses() {
        assert_eq!(is_by_scc("pods \"a-\" is forbidden: required scc/privileged not found"), Some(true));
        assert_eq!(is_by_scc("unable to validate against any security context constraint: []"), Some(true));
        assert_eq!(is_by_scc("pods \"a-\" is forbidden: exceeded quota: project"), Some(false));
        assert_eq!(is_by_scc(UNREAD), None);
    }

    #[test]
    fn what_is_not_known_is_quoted_and_cut_at_a_word() {
        let long = "word ".repeat(500);
        let refusal = read(&long, "Agent", "n", "a");
        assert!(refusal.full.ends_with("word …") && refusal.full.len() < 610, "{}", refusal.full);
        assert!(
            read("pods \"a-\" is forbidden: exceeded quota: project", "Agent", "n", "a")
                .full
                .contains("exceeded quota: project; raise")
        );
        assert!(
            read("pods \"a-\" is forbidden: violates PodSecurity \"baseline:latest\"", "Agent", "n", "a")
                .full
                .contains("enforce=privileged")
        );
        assert!(read("serviceaccount \"a\" not found", "Agent", "n", "a").account_missing);
    }
}
