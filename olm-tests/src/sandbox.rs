//! Containers as processes: each Pod has a network of its own with an address on a bridge, each container processes,
//! `/tmp` and `/dev` of its own. No image is pulled: what one holds is a folder.
//!
//! Needs `unshare`, `nsenter` and `ip`; as another user than root, user namespaces. Must not know Kubernetes.

use std::collections::HashMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use tempfile::TempDir;

use crate::control_plane::scratch;
use crate::images::said;
use crate::process::Process;

const SCRIPT: &str = include_str!("container.sh");
/// In a container's `/tmp`: it is not Ready. In an image's folder: it is not when it starts, either.
pub const UNREADY: &str = "unready";
const BRIDGE: &str = "ip link set lo up; ip link add bridge0 type bridge; ip addr add 10.77.0.1/16 dev bridge0; \
    ip link set bridge0 up; exec sleep infinity";

/// The machine that all containers of this process run on.
struct Machine {
    /// Holds its network.
    holder: Process,
    folder: TempDir,
}

/// Whether containers run as the users that their Pods name. Without root there is one user, who is all of them.
#[must_use]
pub fn has_users() -> bool {
    is_root()
}

fn is_root() -> bool {
    static ROOT: OnceLock<bool> = OnceLock::new();
    *ROOT.get_or_init(|| said(Command::new("id").arg("-u")).trim() == "0")
}

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let folder = scratch();
        let own = if is_root() { "-nm" } else { "-rnm" };
        let holder = start(&folder.path().join("machine.log"), &["unshare", own, "sh", "-c", BRIDGE]);
        let machine = Machine { holder, folder };
        while !inside(&machine, &["ip", "addr", "show", "bridge0"]).status.success() {
            std::thread::sleep(Duration::from_millis(20));
        }
        machine
    })
}

fn start(log: &Path, words: &[&str]) -> Process {
    let program = Path::new("/usr/bin").join(words[0]);
    let arguments: Vec<String> = words[1..].iter().map(|&word| word.to_owned()).collect();
    Process::start(words[0], &program, &arguments, &[], log)
}

/// How a process gets onto the machine.
fn way(machine: &Machine) -> Vec<String> {
    let holder = machine.holder.id().to_string();
    let mut words = vec!["nsenter", "-t", &holder, "-n", "-m"];
    if !is_root() {
        words.extend(["-U", "--preserve-credentials"]);
    }
    words.into_iter().map(str::to_owned).collect()
}

fn inside(machine: &Machine, words: &[&str]) -> std::process::Output {
    let way = way(machine);
    let mut command = Command::new(&way[0]);
    command.args(&way[1..]).args(words).output().expect("nsenter (util-linux)")
}

/// What an address of the machine's network answers, as Prometheus would ask it; the error says what came instead.
/// A busy machine may take its time: the limit only ends a wait for what never answers.
pub fn scrape(address: &str, port: u16, path: &str) -> Result<String, String> {
    let ask = format!(
        "exec 3<>/dev/tcp/{address}/{port}; printf 'GET {path} HTTP/1.0\\r\\nHost: {address}\\r\\n\\r\\n' >&3; cat <&3"
    );
    let output = inside(machine(), &["timeout", "120", "bash", "-c", &ask]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.starts_with("HTTP/1.1 200") {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{address}:{port}{path}: {}; {:.300}; {error:.300}", output.status, text))
}

/// What a program prints that runs on the machine, outside of any Pod, if it succeeds.
pub fn on_machine(words: &[&str]) -> Result<String, String> {
    let output = inside(machine(), words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// What a container runs.
#[derive(Debug, Clone)]
pub struct Program {
    /// The folder with the files of its image.
    pub image: PathBuf,
    pub words: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// User and group.
    pub user: (u32, u32),
    /// Whether its own files, those in `/tmp` here, cannot be written.
    pub is_read_only: bool,
    /// Its volumes: a folder, and a folder of this machine that it takes the place of.
    pub mounts: Vec<(PathBuf, String)>,
}

/// The network of a Pod, or of a node, with the files of a Pod.
pub struct Sandbox {
    holder: Arc<Process>,
    pub address: Ipv4Addr,
    folder: PathBuf,
}

/// What holds a network, and its address.
type Network = (Arc<Process>, Ipv4Addr);

/// Networks of nodes, by name: Pods run in them that ask for it.
static NODES: LazyLock<Mutex<HashMap<String, Network>>> = LazyLock::new(Mutex::default);

/// The folder of a volume that outlives Pods.
#[must_use]
pub fn persistent(name: &str) -> PathBuf {
    public(machine().folder.path().join("persistent").join(name))
}

fn public(folder: PathBuf) -> PathBuf {
    fs::create_dir_all(&folder).expect("a folder");
    let public = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&folder, public).expect("permissions");
    folder
}

static NUMBERS: AtomicU32 = AtomicU32::new(2);

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// One with an address that no other has.
    #[must_use]
    pub fn new() -> Self {
        let machine = machine();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 77, 0, 0).to_bits() + number);
        let folder = machine.folder.path().join(number.to_string());
        fs::create_dir_all(&folder).expect("a folder");
        let mut words = way(machine);
        words.extend(["unshare", "-n", "sleep", "infinity"].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let holder = start(&folder.join("sandbox.log"), &words);
        let own = format!("/proc/{}/ns/net", holder.id());
        let machines = format!("/proc/{}/ns/net", machine.holder.id());
        let differs = || fs::read_link(&own).ok().zip(fs::read_link(&machines).ok()).is_some_and(|(a, b)| a != b);
        let comm = || fs::read_to_string(format!("/proc/{}/comm", holder.id())).unwrap_or_default();
        while !differs() || comm().trim() != "sleep" {
            std::thread::sleep(Duration::from_millis(2));
        }
        let (id, outer) = (holder.id(), format!("pod{number}"));
        let setup = format!(
            "ip link add {outer} type veth peer name eth0 netns {id} && ip link set {outer} master bridge0 up && \
            nsenter --net={own} sh -c 'ip link set lo up; ip addr add {address}/16 dev eth0; ip link set eth0 up'"
        );
        let output = inside(machine, &["sh", "-c", &setup]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { holder: Arc::new(holder), address, folder }
    }

    /// One in the network of a node, which is made with its first.
    #[must_use]
    pub fn on_node(name: &str) -> Self {
        // Two Pods that start at once are in the same one.
        let mut nodes = NODES.lock().expect("nodes");
        let Some((holder, address)) = nodes.get(name).cloned() else {
            let new = Self::new();
            nodes.insert(name.to_owned(), (new.holder.clone(), new.address));
            return new;
        };
        drop(nodes);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let folder = machine().folder.path().join(number.to_string());
        fs::create_dir_all(&folder).expect("a folder");
        Self { holder, address, folder }
    }

    /// The folder of a volume, which all containers of the Pod share.
    #[must_use]
    pub fn volume(&self, name: &str) -> PathBuf {
        public(self.folder.join("volumes").join(name))
    }

    /// Starts a container; with `beside`, in the process namespace of that one.
    #[must_use]
    pub fn start(&self, name: &str, program: &Program, beside: Option<&Container>) -> Container {
        let id = format!(
            "{:032x}{:032x}",
            u128::from(std::process::id()),
            u128::from(NUMBERS.fetch_add(1, Ordering::Relaxed))
        );
        let root = self.folder.join(&id);
        fs::create_dir_all(root.join("tmp")).expect("a folder");
        let (message, log) = (root.join("message"), root.join("log"));
        fs::write(&message, "").expect("a file");
        let public = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&message, public).expect("permissions");
        let (user, group) = if has_users() { program.user } else { (0, 0) };
        if program.image.join(UNREADY).exists() {
            let sign = root.join("tmp").join(UNREADY);
            fs::write(&sign, "").expect("a file");
            std::os::unix::fs::chown(&sign, Some(user), Some(group)).expect("a user");
        }
        let mut words = way(machine());
        let network = self.holder.id().to_string();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
        if let Some(first) = beside.and_then(Container::first) {
            add(&["nsenter", "-t", &first.to_string(), "-p", "-n", "unshare", "-m", "--mount-proc"]);
        } else {
            add(&["nsenter", &format!("--net=/proc/{network}/ns/net")]);
            add(&["unshare", "-pfm", "--mount-proc", "--kill-child=KILL"]);
        }
        add(&["bash", "-c", SCRIPT, "container.sh"]);
        add(&[&root.display().to_string(), &program.image.display().to_string(), &message.display().to_string()]);
        add(&[&user.to_string(), &group.to_string()]);
        let mounts: Vec<String> =
            program.mounts.iter().map(|(folder, path)| format!("{}:{path}", folder.display())).collect();
        add(&[if program.is_read_only { "ro" } else { "rw" }, &mounts.join(" ")]);
        words.extend(program.words.iter().cloned());
        let mut environment = program.environment.clone();
        environment.push(("RIG_CONTAINER".to_owned(), id.clone()));
        let process = Process::start(name, Path::new("/usr/bin/nsenter"), &words[1..], &environment, &log);
        Container { process, id, root, environment: program.environment.clone() }
    }
}

/// A container's process.
pub struct Container {
    process: Process,
    /// 64 hexadecimal digits.
    pub id: String,
    root: PathBuf,
    environment: Vec<(String, String)>,
}

impl Container {
    /// What runs another program in it, for so many seconds at most; `None`: it has not begun.
    #[must_use]
    pub fn command(&self, words: &[String], seconds: u32) -> Option<Command> {
        let first = self.first()?.to_string();
        let mut command = Command::new("timeout");
        command.args([&seconds.to_string(), "nsenter", "-t", &first, "-n", "-m", "-p"]);
        if !is_root() {
            command.args(["-U", "--preserve-credentials"]);
        }
        command.args(words).envs(self.environment.iter().cloned());
        Some(command)
    }

    /// Its first process, as this machine numbers it.
    fn first(&self) -> Option<u32> {
        child(self.process.id())
    }

    /// What runs in it, as this machine numbers it: of several processes the innermost first child.
    #[must_use]
    pub fn innermost(&self) -> Option<u32> {
        std::iter::successors(Some(self.process.id()), |id| child(*id)).last()
    }

    /// Its exit code, once it has ended; of one that was killed 128 and the signal.
    pub fn ended(&mut self) -> Option<i32> {
        self.process.code()
    }

    /// What it left as its last words, cut as kubelets do.
    #[must_use]
    pub fn message(&self, longest: usize) -> String {
        let text = fs::read_to_string(self.root.join("message")).unwrap_or_default();
        text.chars().take(longest).collect()
    }

    /// What it printed.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.root.join("log")).unwrap_or_default()
    }

    /// Its `/tmp`.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// `kill -9` of what runs in it.
    pub fn kill(&self) {
        if let Some(first) = self.first() {
            let _ = Command::new("kill").args(["-KILL", &first.to_string()]).status();
        }
    }
}

fn child(id: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
