//! What pages tell people to type, run as it is printed.
//!
//! Commands run in a copy of `config/`, for some change files there. `oc` is kubectl here: what only `oc` can do is not
//! run. Must not know what a page is for.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::cluster::{Cluster, repository};
use crate::images::said;
use crate::tools::tool;

/// The part of a page below a heading.
fn below(page: &str, heading: &str) -> String {
    let text = text_of(page);
    let below = text.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading} on {page}"));
    below.split("\n## ").next().unwrap_or_default().to_owned()
}

/// The blocks of code of a language on a page, below a heading.
#[must_use]
pub fn blocks(page: &str, heading: &str, language: &str) -> Vec<String> {
    fenced(&below(page, heading), language)
}

/// All blocks of code of a language on a page.
#[must_use]
pub fn all_blocks(page: &str, language: &str) -> Vec<String> {
    fenced(&text_of(page), language)
}

fn text_of(page: &str) -> String {
    std::fs::read_to_string(repository(page)).expect(page)
}

fn fenced(text: &str, language: &str) -> Vec<String> {
    let text = format!("\n{text}");
    let fence = format!("\n```{language}\n");
    text.split(&fence).skip(1).map(|block| block.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

/// The command in a sentence of a page, below a heading.
#[must_use]
pub fn command(page: &str, heading: &str, begins: &str) -> String {
    let text = below(page, heading);
    let found = text.split('`').skip(1).step_by(2).find(|code| code.starts_with(begins));
    found.unwrap_or_else(|| panic!("no {begins} below {heading} on {page}")).replace('\n', " ")
}

/// The shell of a cluster's administrator.
pub struct Shell {
    folder: TempDir,
    kubeconfig: String,
}

impl Shell {
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        said(Command::new("cp").arg("-r").arg(repository("config")).arg(folder.path()));
        std::fs::create_dir(folder.path().join("bin")).expect("a folder");
        for (name, program) in [("kubectl", "kubectl"), ("oc", "kubectl"), ("helm", "helm")] {
            symlink(tool(program), folder.path().join("bin").join(name)).expect("a link");
        }
        let operator = crate::operator::binary();
        symlink(operator, folder.path().join("bin/oneagent-operator")).expect("a link");
        Self { folder, kubeconfig: cluster.kubeconfig().display().to_string() }
    }

    /// A file of this copy.
    #[must_use]
    pub fn file(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    /// Edits a file of this copy.
    pub fn edit(&self, path: impl AsRef<Path>, from: &str, to: &str) {
        let path = self.folder.path().join(path);
        let text = std::fs::read_to_string(&path).expect("a file");
        assert!(text.contains(from), "{from}\n{text}");
        std::fs::write(path, text.replace(from, to)).expect("a file is written");
    }

    /// Runs a block; what a person has to put in is put in.
    pub fn run(&self, block: &str, with: &[(&str, &str)]) {
        let _ = self.told(block, with, "");
    }

    /// The same with something to type. Returns what was printed.
    #[must_use]
    pub fn told(&self, block: &str, with: &[(&str, &str)], typed: &str) -> String {
        let mut script = block.to_owned();
        for (placeholder, value) in with {
            assert!(script.contains(placeholder), "{placeholder}\n{script}");
            script = script.replace(placeholder, value);
        }
        assert!(!script.contains('…'), "something is left to be put in:\n{script}");
        std::fs::write(self.file("typed"), typed).expect("a file");
        let typed = std::fs::File::open(self.file("typed")).expect("a file");
        let path = format!("{}:{}", self.file("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &script]).current_dir(self.folder.path()).stdin(Stdio::from(typed));
        shell.env("PATH", path).env("KUBECONFIG", &self.kubeconfig).env("HOME", self.folder.path());
        let output = shell.output().expect("bash");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "{script}\n{said}");
        said
    }
}
