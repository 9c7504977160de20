//! Real JVMs, and the helper beside them: in PID and mount namespaces of their own, as the containers of a Pod are.
//!
//! Every JDK that is found: the one on PATH, those beside it, and those that `RIG_JAVA` names, separated by colons.
//! Must not know what a test wants of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::control_plane::scratch;
use crate::images::said;
use crate::operator::binary;
use crate::tools::{cache, exporter};

const PROGRAM: &str = "public class Main {
    public static void main(String[] args) throws Exception {
        if (args.length > 0) new java.net.ServerSocket(Integer.parseInt(args[0]));
        Thread.sleep(600_000);
    }
}";

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

/// A JVM, and what stands beside it.
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
        fs::write(folder.path().join("Main.java"), PROGRAM).expect("a source");
        let for_java_8 = ["--release", "8", "-Xlint:-options", "-d"];
        said(Command::new("javac").args(for_java_8).arg(folder.path()).arg(folder.path().join("Main.java")));
        let (jar, operator) = (folder.path().join("exporter.jar"), folder.path().join("operator"));
        fs::copy(exporter().expect("the exporter"), &jar).expect("a jar");
        fs::copy(binary(), &operator).expect("the program");
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
