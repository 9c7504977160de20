//! Completion, as each shell asks for it with the script that the plugin prints.
//!
//! The shells are real; what zsh does with the words that it gets is not tried.

use std::process::Command;

use olm_tests::debian::{FISH, ZSH};
use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::operator::beside;
use serde_json::json;

use super::Person;

/// What each shell runs, to complete what variable TYPED has.
const SHELLS: [(&str, &str); 3] = [
    (
        "bash",
        "source <(kubectl-oneagent completion bash); read -ra COMP_WORDS <<< \"kubectl-oneagent $TYPED\"; \
        [[ $TYPED == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kubectl_oneagent; \
        printf '%s\\n' \"${COMPREPLY[@]}\"",
    ),
    (
        "zsh",
        "compdef() {}; compadd() { print -rl -- ${(P)2} }; source <(kubectl-oneagent completion zsh); \
        words=(kubectl-oneagent ${=TYPED}); [[ $TYPED == *' ' ]] && words+=(''); CURRENT=$#words; _kubectl_oneagent",
    ),
    ("fish", "kubectl-oneagent completion fish | source; complete -C \"kubectl-oneagent $TYPED\""),
];

#[test]
fn each_shell_completes_verbs_objects_nodes_and_values() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-shells", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let person = Person::who_observes(&lab).await;
        let plugin = beside("kubectl-oneagent");
        let path = format!("{}:{}", plugin.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let asks = |shell: &str, script: &str, typed: &str| {
            let mut command = match shell {
                "zsh" => ZSH.command(shell).unwrap(),
                "fish" => FISH.command(shell).unwrap(),
                _ => Command::new(shell),
            };
            let flags: &[&str] = if shell == "zsh" { &["-f"] } else { &[] };
            command.args(flags).args(["-c", script]).env("PATH", &path).env("TYPED", typed);
            command.env("KUBECONFIG", &person.kubeconfig).env("HOME", lab.cluster.path("")).env("LANG", "C.UTF-8");
            let output = command.output().unwrap();
            let mut words: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
            words.sort_unstable();
            assert!(!words.is_empty(), "{shell} {typed}: {}", String::from_utf8_lossy(&output.stderr));
            words
        };
        for (shell, script) in SHELLS {
            let asks = |typed: &str| asks(shell, script, typed);
            assert_eq!(asks("stat"), ["status"], "{shell}: a verb");
            assert_eq!(asks("status --for "), ["canaries", "done", "paused"], "{shell}: a value");
            let in_namespace = format!("-n {}", lab.name);
            assert_eq!(asks(&format!("status {in_namespace} age")), ["agent"], "{shell}: an object");
            assert_eq!(asks(&format!("explain {in_namespace} node plugin-shells-")), lab.nodes, "{shell}: nodes");
        }
        lab.end().await;
    });
}
