//! A program in a terminal: what its screen shows, keys that are pressed, and how it leaves the terminal.
//!
//! A real pseudo-terminal; the screen is read by a library that knows what terminals do. Must not know the program.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::process::cpu;

/// A program in its terminal.
pub struct Terminal {
    child: Child,
    keys: File,
    /// The terminal's other side, which stays open so that its settings can be read when the program has ended.
    side: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    /// Starts a program in a terminal of this size.
    #[must_use]
    pub fn start(mut command: Command, (rows, columns): (u16, u16)) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&main).expect("its rights");
        unlockpt(&main).expect("its lock");
        let name = ptsname(&main, Vec::new()).expect("its name").into_string().expect("a path");
        let side = File::options().read(true).write(true).open(&name).expect("its other side");
        let main = File::from(main);
        tcsetwinsize(&main, size(rows, columns)).expect("a size");
        let copy = || side.try_clone().expect("a file");
        command.stdin(copy()).stdout(copy()).stderr(copy()).env("TERM", "xterm-256color");
        // Its signals come from here: it leads no session, so no Ctrl-C of ours reaches it but as a key.
        let child = command.spawn().expect("the program");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (mut printed, shown) = (main.try_clone().expect("a file"), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = printed.read(&mut bytes) {
                shown.lock().expect("the screen").process(&bytes[..count]);
            }
        });
        Self { child, keys: main, side, screen }
    }

    /// What it shows.
    #[must_use]
    pub fn shows(&self) -> String {
        self.screen.lock().expect("the screen").screen().contents()
    }

    /// Whether a whole screen of its own is shown.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        self.screen.lock().expect("the screen").screen().alternate_screen()
    }

    /// Whether what is typed is echoed, as it is before a program takes the terminal.
    #[must_use]
    pub fn echoes(&self) -> bool {
        let settings = tcgetattr(self.side.as_fd()).expect("settings");
        settings.local_modes.contains(rustix::termios::LocalModes::ECHO)
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys");
    }

    /// Makes it another size.
    pub fn resize(&self, (rows, columns): (u16, u16)) {
        self.screen.lock().expect("the screen").screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.keys, size(rows, columns)).expect("a size");
        // Who has no controlling terminal is not told by it.
        self.signal("WINCH");
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let _ = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
    }

    /// Its exit code, if it has ended.
    pub fn code(&mut self) -> Option<i32> {
        self.child.try_wait().expect("a program").and_then(|status| status.code())
    }

    /// CPU time that it has used.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        cpu(self.child.id())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
