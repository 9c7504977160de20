//! Holds what people read to docs/style.md: how long sentences are, and which words they do without.
//!
//! It reads every page, the texts in the code that users see, and the comments that the next engineer reads. Must not
//! know what a text is about.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "reads the sources")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

/// Words of the longest sentence.
const LONGEST: usize = 30;
/// Words of a page's sentences in the mean.
const MEAN: usize = 17;

/// Words and turns that no text for users has, and what to write instead.
const FORBIDDEN: [(&str, &str); 19] = [
    (r"(?i)\bwhoever\b", "name the actor"),
    (r"(?i)\bwhom\b", "name the actor"),
    (r"^(Who|What) [^?]*[^?]$", "begin with the actor or the thing"),
    (r"(?i)\bbut for\b", "except for"),
    (r"(?i)\belse\b", "otherwise, or name the other case"),
    (r"(?i)\bbesides\b", "also, in addition"),
    (r"(?i)\banew\b", "again"),
    (r"(?i)\bmend(s|ed|ing)?\b", "fix, repair"),
    (r"(?i)\bshall\b", "must, or the present tense"),
    (r"(?i)\bnobody\b", "no one, or name the actor"),
    (r"(?i)\bby (itself|themselves)\b", "automatically, or leave it out"),
    (r"(?i)\bof before\b", "previous"),
    (r"(?i)\bstands\b", "is"),
    (r"(?i)\bspeaks? against\b", "counts as a failure of"),
    (r"(?i)\bgoes\b", "is deleted, ends, or the verb that says what happens"),
    (r"(?i)\b(is|are|was|were|be) away\b", "unreachable, missing"),
    (r"(?i)\b(is|are) told of\b", "is notified of"),
    (r"(?i)\bto be had\b", "available"),
    (r"(?i)\bcondemn(s|ed)?\b", "reject"),
];

/// Words and turns that no comment has. Fewer than [`FORBIDDEN`]: a comment may be a phrase such as "What it says".
const FORBIDDEN_IN_COMMENTS: [(&str, &str); 12] = [
    (r"(?i)\bwhoever\b", "name the actor"),
    (r"(?i)\b(some|any|no)body\b", "a user, another client, no one; or say that it is unknown"),
    (r"(?i)\bwhom\b", "name the actor"),
    (r"(?i)\bbut for\b", "except for"),
    (r"(?i)\b(anew|besides)\b", "again, also"),
    (r"(?i)\b(mend(s|ed|ing)?|condemn(s|ed)?)\b", "fix, reject"),
    (r"(?i)\bshall\b", "should, must, is to"),
    (r"(?i)\b(of before|to be had)\b", "previous, available"),
    (r"(?i)\b(stands|goes)\b", "the verb that says what happens"),
    (r"(?i)\b(speaks?|spoke) (up |yet )?against\b", "counts as a failure of"),
    (r"(?i)\b(is|are|was|were|be) away\b", "unreachable, missing"),
    (r"(?i)\b(is|are) told of\b", "is notified of"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder with this ending.
fn files(folder: &Path, ending: &str, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, all);
        } else if path.extension().is_some_and(|found| found == ending) {
            all.push(path);
        }
    }
}

/// Every page that people read.
fn pages() -> Vec<PathBuf> {
    let mut all = Vec::new();
    files(&root().join("docs"), "md", &mut all);
    let of_root = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    all.extend(of_root.filter(|path| path.extension().is_some_and(|found| found == "md")));
    files(&root().join("src/api"), "md", &mut all);
    all.sort();
    all
}

/// A text that is read in one go, such as a paragraph.
#[derive(Debug, Default)]
struct Block {
    text: String,
    /// Whether it counts for the mean: a table holds facts, a heading a title.
    is_prose: bool,
}

/// The blocks of a page; code counts as one word.
fn blocks(markdown: &str) -> Vec<Block> {
    let mut all = Vec::new();
    let mut now = Block { is_prose: true, ..Block::default() };
    let mut in_code = false;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        let ends = match &event {
            Event::Start(Tag::CodeBlock(_)) => {
                in_code = true;
                true
            }
            Event::End(TagEnd::CodeBlock) => {
                in_code = false;
                true
            }
            Event::Start(Tag::Paragraph | Tag::Item | Tag::TableCell | Tag::Heading { .. })
            | Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell | TagEnd::Heading(_)) => true,
            _ => false,
        };
        if ends {
            let before = std::mem::replace(&mut now, Block { is_prose: true, ..Block::default() });
            all.extend(Some(before).filter(|block| !block.text.trim().is_empty()));
        }
        match event {
            Event::Start(Tag::TableCell | Tag::Heading { .. }) => now.is_prose = false,
            Event::Text(text) if !in_code => now.text.push_str(&text),
            Event::Code(_) => now.text.push_str("CODE"),
            Event::SoftBreak | Event::HardBreak => now.text.push(' '),
            _ => {}
        }
    }
    all.extend(Some(now).filter(|block| !block.text.trim().is_empty()));
    all
}

/// The sentences of a text.
fn sentences(text: &str) -> Vec<&str> {
    let end = Regex::new(r#"[.!?][)"”]?\s+"#).unwrap();
    let mut all = Vec::new();
    let mut from = 0;
    for found in end.find_iter(text) {
        all.push(text[from..found.end()].trim());
        from = found.end();
    }
    all.push(text[from..].trim());
    all.retain(|sentence| words(sentence) > 0);
    all
}

fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// What is wrong with a text, without its mean.
fn offences(text: &str, forbidden: &[(Regex, &str)]) -> Vec<String> {
    let mut all = Vec::new();
    for sentence in sentences(text) {
        let count = words(sentence);
        if count > LONGEST {
            all.push(format!("{count} words in one sentence: {sentence}"));
        }
        for (pattern, instead) in forbidden {
            if let Some(found) = pattern.find(sentence) {
                let word: String = found.as_str().chars().take(20).collect();
                all.push(format!("{word:?} (write: {instead}): {sentence}"));
            }
        }
    }
    all
}

fn forbidden() -> Vec<(Regex, &'static str)> {
    compiled(&FORBIDDEN)
}

fn compiled(table: &'static [(&str, &str)]) -> Vec<(Regex, &'static str)> {
    table.iter().map(|(pattern, instead)| (Regex::new(pattern).unwrap(), *instead)).collect()
}

/// What is wrong with a page.
fn of_page(markdown: &str) -> Vec<String> {
    let forbidden = forbidden();
    let blocks = blocks(markdown);
    let mut all: Vec<String> = blocks.iter().flat_map(|block| offences(&block.text, &forbidden)).collect();
    let prose = blocks.iter().filter(|block| block.is_prose);
    let counts: Vec<usize> = prose.flat_map(|block| sentences(&block.text)).map(words).collect();
    let sum: usize = counts.iter().sum();
    if sum > MEAN * counts.len() {
        let mean = sum as f64 / counts.len() as f64;
        all.push(format!("{mean:.1} words in the mean of {} sentences", counts.len()));
    }
    all
}

#[test]
fn pages_keep_to_the_style() {
    let mut wrong = String::new();
    for path in pages() {
        let name = path.strip_prefix(root()).unwrap().display();
        for offence in of_page(&std::fs::read_to_string(&path).unwrap()) {
            writeln!(wrong, "{name}: {offence}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "docs/style.md says how to write:\n{wrong}");
}

/// The texts in the code that users may see: what a string holds of more than two words, outside of tests.
fn texts(source: &str) -> Vec<String> {
    let before_tests = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: Vec<&str> = before_tests.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let literal = Regex::new(r#""(?:[^"\\]|\\(?s:.))*""#).unwrap();
    let folded = Regex::new(r"\\\n\s*").unwrap();
    let all =
        literal.find_iter(&code).map(|found| folded.replace_all(found.as_str().trim_matches('"'), "").into_owned());
    all.filter(|text| words(text) > 2).collect()
}

#[test]
fn messages_keep_to_the_words_of_the_field() {
    let forbidden = forbidden();
    let mut sources = Vec::new();
    files(&root().join("src"), "rs", &mut sources);
    sources.retain(|path| {
        !path.components().any(|part| ["tests", "tests.rs", "goldens"].iter().any(|name| part.as_os_str() == *name))
    });
    sources.sort();
    let mut wrong = String::new();
    for path in sources {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        for text in texts(&std::fs::read_to_string(&path).unwrap()) {
            for offence in offences(&text, &forbidden) {
                // Its parts come from elsewhere: how long a message is, its source does not say.
                if !offence.contains("words in one sentence") {
                    writeln!(wrong, "{name}: {offence}").unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "docs/style.md says how to write:\n{wrong}");
}

/// The comments of a source. Lines that follow one another are one.
fn comments(source: &str) -> Vec<String> {
    let comment = Regex::new(r"^\s*//[/!]?\s?(.*)$").unwrap();
    let mut all = vec![String::new()];
    for line in source.lines() {
        match comment.captures(line) {
            Some(found) if !found[1].trim().is_empty() => {
                let last = all.last_mut().unwrap();
                last.push(' ');
                last.push_str(found[1].trim());
            }
            _ => all.push(String::new()),
        }
    }
    all.retain(|text| !text.is_empty());
    all
}

#[test]
fn comments_keep_to_the_words_of_the_field() {
    let forbidden = compiled(&FORBIDDEN_IN_COMMENTS);
    let mut sources = Vec::new();
    for folder in ["src", "olm-tests/src", "olm-tests/tests", "tests"] {
        files(&root().join(folder), "rs", &mut sources);
    }
    sources.sort();
    let mut wrong = String::new();
    for path in sources {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        for text in comments(&std::fs::read_to_string(&path).unwrap()) {
            for offence in offences(&text, &forbidden).iter().filter(|found| !found.contains("words in one sentence")) {
                writeln!(wrong, "{name}: {offence}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "docs/style.md says how to write:\n{wrong}");
}

#[test]
fn one_planted_offence_of_each_kind_is_caught() {
    let forbidden = forbidden();
    let planted = [
        "Whoever edits it may do so.",
        "The user by whom it was edited is named.",
        "What is held is said.",
        "All run but for one.",
        "Name it, or else it fails.",
        "A label is set besides.",
        "The operator begins anew.",
        "The command mends it.",
        "It shall run.",
        "It is known to nobody.",
        "The rollout goes on by itself.",
        "It has the version of before.",
        "The template stands.",
        "A crash speaks against the version.",
        "The Pod goes.",
        "The registry is away.",
        "The user is told of it.",
        "The image is not to be had.",
        "The version was condemned.",
    ];
    for (text, (pattern, _)) in planted.iter().zip(&forbidden) {
        assert!(pattern.is_match(text), "{pattern} does not catch {text:?}");
        assert!(!offences(text, &forbidden).is_empty());
    }
    assert_eq!(planted.len(), forbidden.len());
    assert!(offences("What is held?", &forbidden).is_empty());
    let long = ["word"; LONGEST + 1].join(" ");
    assert_eq!(offences(&long, &forbidden).len(), 1);
    let page =
        format!("# A title\n\n{}.\n\n| a table | counts |\n|---|---|\n| not | so |\n", ["word"; MEAN + 1].join(" "));
    assert_eq!(of_page(&page), ["18.0 words in the mean of 1 sentences"]);
    assert!(of_page("`code of one two three four five` is one word. So is a [link](of.md).\n").is_empty());
    let comments =
        comments("fn f() {}\n    // The Pod\n    // goes.\n\n/// Somebody cordons it.\nlet x = 1; // shall\n");
    assert_eq!(comments, [" The Pod goes.", " Somebody cordons it."]);
    let in_comments = compiled(&FORBIDDEN_IN_COMMENTS);
    assert!(comments.iter().all(|text| offences(text, &in_comments).len() == 1));
    assert_eq!(texts("let x = \"It shall \\\n    run.\"; // \"shall be\"\n"), ["It shall run."]);
}
