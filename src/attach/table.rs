//! A process table that a test writes.
//!
//! Must not know what is looked for in it.

use std::fs;
use std::path::PathBuf;

use super::proc::Proc;

/// A folder that is a process table. A process's root is a folder in it, too.
pub(super) struct Table {
    folder: PathBuf,
}

impl Table {
    /// With the folders of process 7.
    pub(super) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("attach-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let table = Self { folder };
        for folder in ["7/root/tmp", "7/fd", "7/net"] {
            fs::create_dir_all(table.path(folder)).unwrap();
        }
        table
    }

    pub(super) fn proc(&self) -> Proc {
        Proc::at(&self.folder)
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own folder")]
    pub(super) fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
