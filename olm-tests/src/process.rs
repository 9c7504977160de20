//! Processes that end with us: on a normal end, a panic, Ctrl-C, even `kill -9` of the test.
//!
//! The kernel does it (`setpriv --pdeathsig`), so no code of ours has to run at the end. It watches the thread that
//! started the child, hence one thread that starts all and never ends. Must not know what it starts.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

type Job = (Command, Sender<std::io::Result<Child>>);

fn starter() -> &'static std::sync::Mutex<Sender<Job>> {
    static STARTER: OnceLock<std::sync::Mutex<Sender<Job>>> = OnceLock::new();
    STARTER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::Builder::new()
            .name("starter".into())
            .spawn(move || {
                for (mut command, answer) in queue {
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("a thread");
        std::sync::Mutex::new(jobs)
    })
}

/// Below the ports that the kernel gives to outgoing connections, so that none takes one before its server does.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A port of 127.0.0.1 that has no listener, and that no other test of this process gets.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    for _ in 0..count {
        // Another process of tests begins elsewhere.
        let next = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(97));
        let port = PORTS.start + u16::try_from(next % count).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port on 127.0.0.1");
}

/// How much memory a program in Go may take before it collects garbage more often: a twenty-fourth of the machine's,
/// for some dozen run at a time, and few of them large.
fn memory_limit() -> &'static str {
    static LIMIT: OnceLock<String> = OnceLock::new();
    LIMIT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
        let kibibytes: u64 = total.and_then(|total| total.parse().ok()).unwrap_or(8 << 20);
        format!("{}MiB", (kibibytes >> 10) / 24)
    })
}

/// A number that the kernel says of a process, in MiB: VmRSS now, VmHWM at most so far. `None`: it has ended.
#[must_use]
pub fn memory(id: u32, field: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

/// CPU time that a process has used, in steps of 10 ms; none once it has ended.
#[must_use]
pub fn cpu(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    // utime and stime, 100 a second; the state is the first of these fields.
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    /// Whether this process ended it.
    told: AtomicBool,
}

impl Process {
    /// Starts `program`; what it prints is written to `log`.
    #[must_use]
    pub fn start(name: &str, program: &Path, args: &[String], env: &[(String, String)], log: &Path) -> Self {
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap_or_else(|e| panic!("cannot write {}: {e}", log.display()));
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(args).envs(env.iter().cloned());
        // With CI set, OLM's controllers are stricter than the ones that users run.
        command.env_remove("CI");
        // Kubernetes' programs spend a good part of their time on collecting garbage; memory is cheaper here.
        command.envs([("GOGC", "1000"), ("GOMEMLIMIT", memory_limit())]);
        // A group of its own: Ctrl-C is for us, and we decide the order of ending.
        command.stdin(Stdio::null()).stderr(out.try_clone().expect("a file")).stdout(out).process_group(0);
        let (answer, child) = channel();
        starter().lock().expect("the starter").send((command, answer)).expect("the starter");
        let child = child
            .recv()
            .expect("the starter")
            .unwrap_or_else(|e| panic!("cannot start {name}: {e}; is setpriv (util-linux) installed?"));
        Self { name: name.to_owned(), child, told: AtomicBool::new(false) }
    }

    /// Its process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| format!("{} ended: {status}", self.name))
    }

    /// Its exit code, if it ended; of one that was killed 128 and the signal.
    pub fn code(&mut self) -> Option<i32> {
        let status = self.child.try_wait().ok().flatten()?;
        status.code().or_else(|| status.signal().map(|signal| 128 + signal))
    }

    /// How it ended, if it did so on its own.
    pub fn died(&mut self) -> Option<String> {
        self.ended().filter(|_| !self.told.load(Ordering::Relaxed))
    }

    /// Sends a signal by name, such as TERM.
    pub fn signal(&self, signal: &str) {
        self.told.store(true, Ordering::Relaxed);
        let _ = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status();
    }

    /// `kill -9`, and waits for the end.
    pub fn kill(&mut self) {
        self.told.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
