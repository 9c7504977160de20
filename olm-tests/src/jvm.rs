//! Real JVMs, and the helper beside them: in PID and mount namespaces of their own, as the containers of a Pod are.
//!
//! Every JDK that is found: the one on PATH, those beside it, and those that `RIG_JAVA` names, separated by colons.
//! Must not know what a test wants of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::control_plane::scratch;
use crate::images::said;
use crate::operator::binary;
use crate::programs::stacks;
use crate::sandbox::on_machine;
use crate::tools::{cache, exporter, jars};

/// Listens on the port that it is given, if any. Told to halt, it does once an exporter is loaded; told to be unready,
/// its readiness probe fails from then on.
const PROGRAM: &str = "public class Main {
    static boolean isLoaded() {
        String[] all = new java.io.File(\"/tmp\").list((folder, name) -> name.startsWith(\".jmx-exporter-\"));
        return all != null && all.length > 0;
    }

    public static void main(String[] args) throws Exception {
        for (String arg : args) {
            if (arg.equals(\"halt\") || arg.equals(\"unready\")) {
                while (!isLoaded()) Thread.sleep(20);
                if (arg.equals(\"halt\")) Runtime.getRuntime().halt(1);
                new java.io.File(\"/tmp/unready\").createNewFile();
                continue;
            }
            new java.net.ServerSocket(Integer.parseInt(arg));
        }
        Thread.sleep(600_000);
    }
}";

/// Asks a ZooKeeper server: `create PATH TEXT`, or `get PATH`.
const CLIENT: &str = "import org.apache.zookeeper.*;
public class Client {
    public static void main(String[] args) throws Exception {
        var connected = new java.util.concurrent.CountDownLatch(1);
        var client = new ZooKeeper(args[0], 10_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) connected.countDown();
        });
        if (!connected.await(15, java.util.concurrent.TimeUnit.SECONDS)) System.exit(3);
        if (args[1].equals(\"create\")) {
            client.create(args[2], args[3].getBytes(), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } else {
            System.out.println(new String(client.getData(args[2], false, null)));
        }
        client.close();
    }
}";

/// What a ZooKeeper server answers: `create PATH TEXT`, or `get PATH`.
pub fn ask_zookeeper(server: &str, words: &[&str]) -> Result<String, String> {
    let classes = format!("{}:{}/*", folders().join("client").display(), folders().join("zookeeper/lib").display());
    let all =
        [&["timeout", "40", "java", "-XX:TieredStopAtLevel=1", "-cp", &classes, "Client", server], words].concat();
    on_machine(&all)
}

/// What runs in the namespaces: the JVM, then what a test says. `alive` says whether the JVM is.
const SCRIPT: &str = r#"
mount --bind "$FOLDER" /tmp
cd /
"$JAVA" $OPTIONS -cp /tmp Main $ARGUMENTS >/tmp/jvm.log 2>&1 &
jvm=$!
alive() { kill -0 $jvm 2>/dev/null && echo alive || echo gone; }
attach() {
    JMX_CONFIG="$1"; export JMX_CONFIG; shift
    sum=$(printf %s "$JMX_CONFIG" | sha256sum | cut -d' ' -f1)
    "$OPERATOR" jmx-attach --port "$PORT" --sha256 "${SUM:-$sum}" --jar "$JAR" \
        --valid-until "${UNTIL:-2099-01-01T00:00:00Z}" \
        --comes-within "$WITHIN" --termination-log /tmp/message "$@"
}
"#;

/// Every runtime that is found, its folder by its major version.
#[must_use]
pub fn runtimes() -> BTreeMap<u32, PathBuf> {
    let on_path = Command::new("sh").args(["-c", "readlink -f \"$(command -v java)\""]).output().expect("sh");
    let java = PathBuf::from(String::from_utf8_lossy(&on_path.stdout).trim());
    let home = java.parent().and_then(Path::parent).expect("a JDK on PATH; install JDK 17 or newer").to_owned();
    let beside = fs::read_dir(home.parent().expect("a folder")).into_iter().flatten().flatten();
    let named = std::env::var("RIG_JAVA").unwrap_or_default();
    let named = named.split(':').filter(|path| !path.is_empty()).map(PathBuf::from);
    let all = beside.map(|entry| entry.path()).chain(named).chain([home]);
    all.filter_map(|home| Some((major(&home)?, home))).collect()
}

fn major(home: &Path) -> Option<u32> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?.trim_matches('"').to_owned();
    let mut parts = version.split('.');
    let first: u32 = parts.next()?.parse().ok()?;
    if first == 1 { parts.next()?.parse().ok() } else { Some(first) }
}

/// A runtime with just these modules; not in `/tmp`, which is another one beside a JVM.
#[must_use]
pub fn runtime_of(home: &Path, modules: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new_in(cache()).expect("a folder");
    let made = folder.path().join("runtime");
    said(Command::new(home.join("bin/jlink")).args(["--add-modules", modules, "--output"]).arg(&made));
    (folder, made)
}

/// What an image holds, and what it runs.
#[derive(Debug, Clone)]
pub struct Image {
    pub folder: PathBuf,
    pub words: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Its user where none is given.
    pub user: u32,
}

/// The operator's own image, as the rig names it.
pub const OPERATOR: &str = "registry.example/oneagent-operator:rig";

/// The images that are known here: the operator's, and `jvm:VERSION`, a JVM that waits; with `-user` behind it, one
/// that runs as user 1001 without saying so.
#[must_use]
pub fn image(name: &str) -> Option<Image> {
    let word = |word: &str| word.to_owned();
    if name == OPERATOR || name.contains("/jmx-exporter-operator") {
        let environment = vec![(word("JMX_JAR"), word("/dev/image/exporter.jar"))];
        let words = vec![word("/dev/image/operator")];
        return Some(Image { folder: folders().join("operator"), words, environment, user: 65_532 });
    }
    // Programs of a stack; what they run, their Pods say.
    if let Some(program) = name.strip_prefix("rig/") {
        let folder = folders().join(program.split(':').next()?);
        let environment =
            [("PATH", "/dev/image/bin:/usr/local/bin:/usr/bin:/bin"), ("LD_LIBRARY_PATH", "/dev/image/lib")];
        let environment = environment.map(|(name, value)| (word(name), word(value))).to_vec();
        return folder.is_dir().then_some(Image { folder, words: Vec::new(), environment, user: 0 });
    }
    let java = runtimes().get(&version_of(name)?)?.join("bin/java").display().to_string();
    let user = if name.ends_with("-user") { 1001 } else { 0 };
    let words = [&*java, "-Xshare:auto", "-cp", "/dev/image", "Main"].map(word).to_vec();
    Some(Image { folder: folders().join("jvm"), words, environment: vec![(word("JAVA"), java)], user })
}

/// The version of the JVM of an image: the newest one where it names none.
#[must_use]
pub fn version_of(image: &str) -> Option<u32> {
    // The sample's application: whatever it serves, it is a JVM.
    let image = if image.contains("/tomcat:") { "jvm:any" } else { image };
    let version = image.strip_prefix("jvm:")?.trim_end_matches("-user");
    if version == "any" { runtimes().into_keys().next_back() } else { version.parse().ok() }
}

/// The folders of the images.
fn folders() -> &'static Path {
    static FOLDERS: OnceLock<TempDir> = OnceLock::new();
    let folders = FOLDERS.get_or_init(|| {
        let all = scratch();
        let (jvm, operator) = (all.path().join("jvm"), all.path().join("operator"));
        for folder in [&jvm, &operator] {
            fs::create_dir(folder).expect("a folder");
        }
        compile(&jvm);
        for folder in [&jvm, &operator] {
            fs::copy(exporter().expect("the exporter"), folder.join("exporter.jar")).expect("a jar");
        }
        fs::copy(binary(), operator.join("operator")).expect("the program");
        stacks(all.path());
        let client = all.path().join("client");
        fs::create_dir(&client).expect("a folder");
        fs::write(client.join("Client.java"), CLIENT).expect("a source");
        let jars = format!("{}/*", jars("zookeeper").expect("ZooKeeper").display());
        said(Command::new("javac").args(["-cp", &jars, "-d"]).arg(&client).arg(client.join("Client.java")));
        all
    });
    folders.path()
}

/// The program of every JVM here.
fn compile(folder: &Path) {
    fs::write(folder.join("Main.java"), PROGRAM).expect("a source");
    let for_java_8 = ["--release", "8", "-Xlint:-options", "-d"];
    said(Command::new("javac").args(for_java_8).arg(folder).arg(folder.join("Main.java")));
}

/// A JVM, and what is beside it.
#[derive(Debug, Clone)]
pub struct Beside<'a> {
    pub home: &'a Path,
    pub options: &'a str,
    pub arguments: &'a str,
    pub port: u16,
    /// How long the helper waits for a JVM.
    pub within: &'a str,
}

impl Beside<'_> {
    /// Starts the JVM, runs a script of `attach CONFIG [FLAG…]` and `alive` beside it, and returns what that printed.
    #[must_use]
    pub fn run(&self, script: &str) -> Vec<String> {
        let folder = scratch();
        let files = [("jvm/Main.class", "Main.class"), ("operator/exporter.jar", "exporter.jar")];
        for (from, to) in files.into_iter().chain([("operator/operator", "operator")]) {
            fs::copy(folders().join(from), folder.path().join(to)).expect("a file");
        }
        let mut command = Command::new("unshare");
        command.args(["-rpfm", "--mount-proc", "--kill-child", "bash", "-c", &format!("{SCRIPT}{script}")]);
        command.env("FOLDER", folder.path()).env("JAVA", self.home.join("bin/java")).env("OPTIONS", self.options);
        command.env("ARGUMENTS", self.arguments).env("PORT", self.port.to_string()).env("WITHIN", self.within);
        command.env("JAR", "/tmp/exporter.jar").env("OPERATOR", "/tmp/operator");
        let output = command.output().expect("unshare");
        let printed = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(!printed.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        printed
    }
}
