//! docs/tutorial.md, typed: the demo is left running, each command of the page runs, and prints what the page shows.
//!
//! In the page `…` matches anything. Must not prepare anything that a reader would not.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use olm_tests::cluster::repository;
use regex::Regex;

/// Ends the demo, and with it everything that it started.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the demo; the file that a second shell takes in.
fn demo() -> (Demo, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    let mut child = command.arg("--keep").stdout(Stdio::piped()).spawn().expect("the demo");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut seen = Vec::new();
    let source = loop {
        let Some(Ok(line)) = lines.next() else { panic!("the demo ended early:\n{}", seen.join("\n")) };
        if let Some(source) = line.trim().strip_prefix("source ") {
            break source.to_owned();
        }
        seen.push(line);
    };
    // Its further output is read, so that it can.
    std::thread::spawn(move || lines.for_each(drop));
    (Demo(child), source)
}

/// The blocks of the page: commands, and what the page shows of their output.
fn steps() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(repository("docs/tutorial.md")).expect("the page");
    let block = Regex::new(r"(?s)```(sh|text)\n(.*?)```").expect("a pattern");
    let mut steps: Vec<(String, String)> = Vec::new();
    for found in block.captures_iter(&page) {
        match &found[1] {
            "sh" => steps.push((found[2].to_owned(), String::new())),
            _ => found[2].clone_into(&mut steps.last_mut().expect("commands before their output").1),
        }
    }
    steps
}

/// What the output must look like.
fn shape(shown: &str) -> Regex {
    let line = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(|word| regex::escape(word).replace('…', ".*")).collect();
        if line.trim() == "…" { r"(?:.*\n)*?".to_owned() } else { format!("{}[^\\n]*\n", words.join("[ ]+")) }
    };
    let all: String = shown.lines().map(line).collect();
    Regex::new(&format!("^{all}$")).expect("a pattern")
}

#[test]
fn a_reader_who_types_the_tutorial_sees_what_it_shows() {
    let (_demo, source) = demo();
    let steps = steps();
    assert!(steps.len() > 7 && steps.iter().all(|(_, shown)| !shown.is_empty()), "{steps:#?}");
    for (commands, shown) in steps {
        let script = format!("source {source}\nset -e -o pipefail\n{commands}");
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{commands}\n{said}\n{told}");
        assert!(
            shape(&shown).is_match(&said),
            "{commands}printed\n{said}and beside it\n{told}but the page shows\n{shown}"
        );
    }
}

#[test]
fn the_shape_of_an_output_leaves_open_what_the_page_leaves_open() {
    let shape = shape("NAME   …\n…\nend of … lines\n");
    assert!(shape.is_match("NAME READY\na\nb\nend of 2 lines\n") && shape.is_match("NAME x\nend of 0 lines\n"));
    assert!(!shape.is_match("a\nend of 2 lines\n") && !shape.is_match("NAME x\nend of it\n"));
}
