//! The process table, as `/proc` shows it.
//!
//! Must not judge a process.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// More of one file of `/proc` than any process has.
const LONGEST: u64 = 4 << 20;

/// The process table.
#[derive(Debug, Clone)]
pub(super) struct Proc {
    root: PathBuf,
}

impl Proc {
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Numbers of all processes.
    pub(super) fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    /// Where a file of a process is.
    pub(super) fn path(&self, pid: u32, file: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(file)
    }

    /// A file of a process.
    pub(super) fn read(&self, pid: u32, file: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(self.path(pid, file))?.take(LONGEST).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Words of a file in which each ends with NUL.
    pub(super) fn words(&self, pid: u32, file: &str) -> Vec<String> {
        let text = self.read(pid, file).unwrap_or_default();
        text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    /// When a process started, in ticks since the machine did. One that ended, of which its parent took no note yet,
    /// is none any more.
    pub(super) fn started(&self, pid: u32) -> Option<u64> {
        // The name may have spaces and brackets.
        let stat = self.read(pid, "stat").ok()?;
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        words.next().filter(|state| !matches!(*state, "Z" | "X" | "x"))?;
        words.nth(18)?.parse().ok()
    }

    /// How many seconds the machine runs.
    pub(super) fn uptime(&self) -> Option<f64> {
        let mut text = String::new();
        File::open(self.root.join("uptime")).ok()?.read_to_string(&mut text).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// Inodes of the sockets that listen on a port in a process's network.
    pub(super) fn listening(&self, pid: u32, port: u16) -> Vec<u64> {
        let ending = format!(":{port:04X}");
        let rows = ["net/tcp", "net/tcp6"].map(|file| self.read(pid, file).unwrap_or_default());
        let inode = |row: &str| {
            let columns: Vec<&str> = row.split_whitespace().collect();
            let is_listening = columns.get(3) == Some(&"0A");
            let is_it = is_listening && columns.get(1).is_some_and(|local| local.ends_with(&ending));
            columns.get(9).filter(|_| is_it)?.parse().ok()
        };
        rows.iter().flat_map(|text| text.lines()).filter_map(inode).collect()
    }

    /// What a process has open: the path of each descriptor in `/proc`, and what it points to.
    pub(super) fn open(&self, pid: u32) -> Vec<(PathBuf, PathBuf)> {
        let entries = fs::read_dir(self.path(pid, "fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter_map(|path| fs::read_link(&path).ok().map(|target| (path, target))).collect()
    }
}
