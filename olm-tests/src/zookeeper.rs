//! What ZooKeeper servers of a stack answer.
//!
//! Asked of the servers, from the network of their nodes. Must not judge an answer.

use crate::eventually;
use crate::jvm::ask_zookeeper;
use crate::lab::LONG;
use crate::sandbox::on_machine;

/// What a server answers, once it does.
pub async fn answers(server: &str, words: &[&str]) -> String {
    eventually(&format!("{server} answers {words:?}"), LONG, || async {
        let (server, words) = (format!("{server}:2181"), words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        let asked = tokio::task::spawn_blocking(move || {
            ask_zookeeper(&server, &words.iter().map(String::as_str).collect::<Vec<_>>())
        });
        asked.await.expect("an answer")
    })
    .await
}

/// What a server says of its configuration.
pub async fn configuration(server: &str) -> String {
    let ask = format!("exec 3<>/dev/tcp/{server}/2181; printf conf >&3; cat <&3");
    let asked = tokio::task::spawn_blocking(move || on_machine(&["timeout", "5", "bash", "-c", &ask])).await;
    asked.expect("an answer").unwrap_or_default()
}

/// The servers of its ensemble, as it knows them: numbers and addresses.
pub async fn members(server: &str) -> Vec<String> {
    let said = configuration(server).await;
    let members = said.lines().filter_map(|line| line.strip_prefix("server.")?.split(':').next());
    let mut members: Vec<String> = members.map(str::to_owned).collect();
    members.sort();
    members
}
