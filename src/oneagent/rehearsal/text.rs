//! Texts of logs: versions without their dates.
//!
//! Must not know a world.

/// A version without its date.
pub(super) fn short(version: &str) -> String {
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}

/// A sentence, with its versions without their dates.
pub(super) fn shortened(text: &str) -> String {
    text.split(' ')
        .map(|word| if word.matches('.').count() >= 3 { without_date(word) } else { word.to_owned() })
        .collect::<Vec<_>>()
        .join(" ")
}

fn without_date(word: &str) -> String {
    let parts: Vec<&str> = word.splitn(4, '.').collect();
    let is_version = parts[..3].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let date: String = parts[3].chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    if is_version { format!("{}{}", parts[..3].join("."), &parts[3][date.len()..]) } else { word.to_owned() }
}
