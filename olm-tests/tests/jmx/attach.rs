//! The helper beside real JVMs, of every version that is found: it has them export, or lets them be and says why.

use std::path::{Path, PathBuf};

use olm_tests::jvm::{Beside, runtime_of, runtimes};
use olm_tests::process::free_port;

const EXPORTING: &str = "Exporting";

/// What the exporter needs beside `java.base`.
const NEEDED: [&str; 5] = ["java.instrument", "java.desktop", "java.logging", "java.management", "jdk.httpserver"];

/// A JDK that makes runtimes.
fn linker() -> PathBuf {
    let has_it = |(version, home): &(u32, PathBuf)| *version >= 17 && home.join("bin/jlink").is_file();
    runtimes().into_iter().find(has_it).expect("a JDK 17 or newer with jlink").1
}

fn beside(home: &Path) -> Beside<'_> {
    Beside { home, options: "", arguments: "", port: free_port(), within: "60s" }
}

/// The result in a helper's words, or its reason.
fn reason(line: &str) -> &str {
    let of = |key: &str| line.split(key).nth(1).and_then(|rest| rest.split('"').next());
    of("\"result\":\"").or_else(|| of("\"reason\":\"")).unwrap_or(line)
}

#[test]
fn a_jvm_loads_the_exporter_once_and_takes_good_configurations_and_no_bad_ones() {
    let all = runtimes();
    assert!(all.keys().any(|version| *version >= 17), "{all:?}");
    for (version, home) in &all {
        let said = beside(home).run(
            "attach 'rules: [{pattern: \"(\"}]'\nalive\nattach 'rules: []'\nalive\n\
             attach 'rules: [{pattern: \"(\"}]' --rewrite\nattach 'lowercaseOutputName: true' --rewrite\n\
             cat /tmp/.jmx-exporter-*.json; echo\nattach 'hostPort: a:1' --rewrite\n\
             cat /tmp/.jmx-exporter-*.json; echo\nalive\nls -A /tmp | grep -c 'jmx-exporter.*jar'",
        );
        let reasons: Vec<&str> = said.iter().map(|line| reason(line)).collect();
        let taken = "{\"lowercaseOutputName\":true}";
        let wanted = [
            "ConfigNotTaken",
            "alive",
            EXPORTING,
            "alive",
            "ConfigNotTaken",
            EXPORTING,
            taken,
            "ConfigRejected",
            taken,
            "alive",
            "0",
        ];
        assert_eq!(reasons, wanted, "Java {version}: {said:#?}");
    }
}

/// Prints which of two rules is in force.
const IN_FORCE: &str = "in_force() { exec 3<>/dev/tcp/127.0.0.1/$PORT; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3
    echo $(cat <&3 | grep -o '^first\\|^second'); exec 3>&-; }
";

/// Whatever a user writes: the exporter takes it, or the rules that were there stay in force. It takes the next good
/// one.
#[test]
fn no_configuration_ends_a_jvm_or_keeps_it_from_the_next_good_one() {
    let good = |number: usize| {
        let name = ["first", "second"][number % 2];
        format!("attach 'rules: [{{pattern: \"java.lang<type=Runtime>.*Uptime\", name: {name}}}]'")
    };
    let disliked = [
        "rules: null",
        "rules: text",
        "rules: {a: b}",
        "rules: [text]",
        "lowercaseOutputName: x",
        "whitelistObjectNames: [\"no object name\"]",
        "includeObjectNames: text",
        "rules: [{pattern: \"(\"}]",
        "rules: [{pattern: \"(java.(lang))<.*>\", name: nested_$9}]",
        "rules: [{pattern: \".*\", name: all, type: NONE}]",
    ];
    let refused = [
        "jmxUrl: a",
        "hostPort: a:1",
        "startDelaySeconds: 5",
        "a: &a {b: 1}\n<<: *a",
        "rules: !x []",
        "rules: []\nrules: []",
        "ssl: false",
        "httpServer: {}",
        "- rules",
        "a: [",
    ];
    let all: Vec<&str> = disliked.into_iter().chain(refused).collect();
    let steps = all.iter().enumerate().map(|(number, text)| {
        format!("attach '{text}' --rewrite\nalive\nin_force\n{} --rewrite\nin_force\n", good(number + 1))
    });
    let script = format!("{IN_FORCE}{}\n{}", good(0), steps.collect::<String>());
    for (version, home) in &runtimes() {
        let said = beside(home).run(&script);
        assert_eq!((reason(&said[0]), said.len()), (EXPORTING, 1 + 5 * all.len()), "Java {version}: {said:#?}");
        for (number, (text, said)) in all.iter().zip(said[1..].chunks(5)).enumerate() {
            let rules = |number: usize| ["first", "second"][number % 2];
            let came = reason(&said[0]);
            let may = if refused.contains(text) { &["ConfigRejected"][..] } else { &[EXPORTING, "ConfigNotTaken"] };
            assert!(may.contains(&came) && said[1] == "alive", "Java {version}: {text}: {said:#?}");
            assert!(came == EXPORTING || said[2] == rules(number), "Java {version}: {text}: {said:#?}");
            assert_eq!((reason(&said[3]), &*said[4]), (EXPORTING, rules(number + 1)), "Java {version}: after {text}");
        }
    }
}

#[test]
fn what_could_end_a_jvm_is_not_done_and_is_said() {
    let all = runtimes();
    let newest = all.last_key_value().unwrap().1;
    let port = free_port();
    let busy = port.to_string();
    for (options, arguments, script, wanted) in [
        ("-Xrs", "", "attach 'rules: []'", "SignalUnsafe"),
        ("-XX:+DisableAttachMechanism", "", "attach 'rules: []'", "AttachDisabled"),
        ("-XX:-EnableDynamicAgentLoading", "", "attach 'rules: []'", "AttachDisabled"),
        ("", busy.as_str(), "attach 'rules: []'", "PortInUse"),
        ("", "", "attach 'hostPort:'", "ConfigRejected"),
        ("", "", "SUM=0 attach 'rules: []'", "ConfigStale"),
        ("", "", "UNTIL=2020-01-01T00:00:00Z attach 'rules: []'", "Expired"),
        ("", "", "attach 'rules: []' --rewrite", "NoJvm"),
    ] {
        let jvm = Beside { options, arguments, port, within: "8s", ..beside(newest) };
        let said = jvm.run(&format!("{script}\nalive\nls -A /tmp | grep -c 'attach_pid\\|jmx-exp'"));
        let reasons: Vec<&str> = said.iter().map(|line| reason(line)).collect();
        assert_eq!(reasons, [wanted, "alive", "0"], "{options} {script}: {said:#?}");
    }
}

#[test]
fn a_runtime_without_a_module_loads_nothing() {
    let home = linker();
    for (modules, wanted) in [
        ("java.base,java.instrument,java.logging,java.management,jdk.httpserver", "ModuleMissing"),
        ("java.base,java.instrument,java.desktop,java.logging,java.management,jdk.httpserver", EXPORTING),
    ] {
        let (_folder, runtime) = runtime_of(&home, modules);
        let said = beside(&runtime).run("attach 'rules: []'\nalive");
        let reasons: Vec<&str> = said.iter().map(|line| reason(line)).collect();
        assert_eq!(reasons, [wanted, "alive"], "{modules}: {said:#?}");
    }
}

/// A runtime says what it has in its file `release`; without one, the names in `lib/modules` say it.
#[test]
fn each_module_that_is_missing_is_named_before_any_load() {
    let home = linker();
    let lacks = |line: &str, modules: &[&str]| line.contains(&format!("lacks module {};", modules.join(", ")));
    let untouched = "alive\nls -A /tmp | grep -c 'attach_pid\\|jmx-exp'\n";
    let (_folder, bare) = runtime_of(&home, "java.base");
    let release = bare.join("release").display().to_string();
    let said = beside(&bare).run(&format!("attach 'rules: []'\nrm '{release}'\nattach 'rules: []'\n{untouched}"));
    assert!(said.len() == 4 && lacks(&said[0], &NEEDED) && lacks(&said[1], &NEEDED), "{said:#?}");
    assert_eq!(said[2..], ["alive", "0"], "{said:#?}");
    // One JVM is asked five times, each time with another file.
    let (_folder, whole) = runtime_of(&home, &format!("java.base,{}", NEEDED.join(",")));
    let release = whole.join("release").display().to_string();
    let asked = NEEDED.map(|lacking| {
        let others: Vec<&str> = NEEDED.into_iter().filter(|module| *module != lacking).collect();
        format!("echo 'MODULES=\"java.base {}\"' >'{release}'\nattach 'rules: []'\n", others.join(" "))
    });
    let script = asked.concat();
    let said = beside(&whole).run(&format!("{script}{untouched}rm '{release}'\nattach 'rules: []'\nalive"));
    assert_eq!(said.len(), 9, "{said:#?}");
    for (line, lacking) in said.iter().zip(NEEDED) {
        assert!(reason(line) == "ModuleMissing" && lacks(line, &[lacking]), "{lacking}: {line}");
    }
    assert_eq!(said[5..7], ["alive", "0"], "{said:#?}");
    assert_eq!((reason(&said[7]), &*said[8]), (EXPORTING, "alive"), "{said:#?}");
}

/// Whenever it is killed, and however many there are.
#[test]
fn of_helpers_that_are_killed_or_come_together_one_has_the_jvm_load_and_it_lives() {
    let all = runtimes();
    let newest = all.last_key_value().unwrap().1;
    // The request for a socket, the lock, the jar, and the configuration beside the first one.
    for seen in ["attach_pid", "jmx-exporter-[0-9]*-[0-9]*$", "jar$", "new$"] {
        let script = format!(
            "sleep 9\n(attach 'rules: []' >/dev/null & for i in $(seq 2000); do
             ls -A /tmp | grep -q '{seen}' && break; done; pkill -9 -f jmx-attach) 2>/dev/null\nalive\n\
             attach 'rules: []'\nattach 'rules: []'\nalive"
        );
        let said = beside(newest).run(&script);
        let reasons: Vec<&str> = said.iter().map(|line| reason(line)).collect();
        let [first, second, third, last] = reasons[..] else { panic!("{seen}: {said:#?}") };
        assert_eq!((first, last), ("alive", "alive"), "killed at {seen}: {said:#?}");
        for later in [second, third] {
            assert!([EXPORTING, "AlreadyExporting", "LoadedBefore"].contains(&later), "{seen}: {said:#?}");
        }
    }
    let said = beside(newest).run("sleep 9\nfor i in 1 2 3; do attach 'rules: []' & done; wait %2 %3 %4\nalive");
    let of = |wanted: &str| said.iter().filter(|line| reason(line) == wanted).count();
    assert!(of(EXPORTING) >= 1 && of("alive") == 1 && said.len() == 4, "{said:#?}");
}
