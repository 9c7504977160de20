//! What `kubectl oneagent` costs: its start, a large fleet's status, a view of a rollout, simulations.
//!
//! Prints what was measured; must not judge it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use olm_tests::browser::Browser;
use olm_tests::lab::{LONG, Lab, V1, V2};
use olm_tests::nodes::Shape;
use olm_tests::operator::beside;
use olm_tests::process::memory;
use olm_tests::pty::Terminal;
use serde_json::json;

use super::{READY_AFTER, median, row};

const ZONES: [&str; 3] = ["a", "b", "c"];

/// How long a command of the plugin takes, and the most memory that it has meanwhile, in MiB.
fn run(kubeconfig: &str, args: &[&str]) -> (f64, f64) {
    let mut command = Command::new(beside("kubectl-oneagent"));
    command.args(args).env("KUBECONFIG", kubeconfig).stdout(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().expect("the plugin");
    let mut most = 0.0;
    while child.try_wait().expect("the plugin").is_none() {
        most = memory(child.id(), "VmHWM").unwrap_or(most);
        std::thread::sleep(Duration::from_millis(1));
    }
    (began.elapsed().as_secs_f64(), most)
}

/// What needs no cluster.
pub(super) fn alone() {
    let size = std::fs::metadata(beside("kubectl-oneagent")).expect("the plugin").len();
    row("kubectl oneagent: binary", &format!("{:.1} MiB", size as f64 / f64::from(1 << 20)));
    let starts = (0..20).map(|_| run("/dev/null", &["--help"]).0 * 1000.0).collect();
    row("… --help, median of 20", &format!("{:.0} ms", median(starts)));
    for nodes in ["1000", "5000"] {
        let (took, most) = run("/dev/null", &["simulate", "--nodes", nodes]);
        row(&format!("… simulate {nodes} nodes: time / memory at most"), &format!("{took:.2} s / {most:.0} MiB"));
    }
    let (took, _) = run("/dev/null", &["simulate", "--nodes", "200", "--runs", "200"]);
    row("… simulate 200 runs of 200 nodes", &format!("{took:.1} s"));
}

/// The page of a large fleet in a browser: until it is drawn, and until a change of it is.
pub(super) async fn page(nodes: usize) {
    if let Err(why) = olm_tests::browser::prepare() {
        return row("… page", &why);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html").display().to_string();
    run("/dev/null", &["simulate", "--nodes", &nodes.to_string(), "--html", &file]);
    let browser = Browser::open().await;
    let mut drawn = Vec::new();
    for _ in 0..5 {
        browser.goto(&format!("file://{file}")).await;
        let first = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0";
        let at = browser.until("it is drawn", first, |at| at.as_f64() > Some(0.0)).await;
        drawn.push(at.as_f64().unwrap_or_default());
    }
    row(&format!("… page of {nodes} nodes: drawn, median of five"), &format!("{:.0} ms", median(drawn)));
    // Two frames after a change it is on the screen.
    let script = |times: &str| {
        format!(
            "return (async () => {{
                const frame = () => new Promise((drawn) => requestAnimationFrame(drawn));
                const time = document.getElementById('time');
                const took = [];
                for (const at of {times}) {{
                    const began = performance.now();
                    time.value = at;
                    time.dispatchEvent(new Event('input'));
                    await frame();
                    await frame();
                    took.push(performance.now() - began);
                }}
                return took;
            }})()"
        )
    };
    let took = async |times: &str| {
        let took = browser.run(&script(times)).await;
        let took: Vec<f64> = took.as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64).collect();
        (median(took.clone()), took.into_iter().fold(0.0, f64::max))
    };
    // The version comes after an hour: every cell changes. Later a batch does.
    took("[3590]").await;
    row("… a version comes: every cell changes", &format!("{:.0} ms", took("[3605]").await.0));
    let (usual, most) = took("Array.from({ length: 40 }, (_, at) => 3610 + 15 * at)").await;
    row("… forty steps of its rollout: median / longest", &format!("{usual:.0} / {most:.0} ms"));
}

/// A fleet in three zones.
async fn fleet(name: &str, nodes: usize) -> Lab<'static> {
    let mut lab = Lab::new(name, 0).await;
    for zone in ZONES {
        lab.add_nodes(nodes / ZONES.len(), &Shape { images: 50, ..Shape::default().zone(zone) }).await;
    }
    lab.behave(|b| b.ready_after = READY_AFTER);
    lab.oneagent(&json!({}));
    lab.all_at("agent", V1, lab.nodes.len(), 2 * LONG).await;
    lab
}

/// `status` of a large fleet at rest.
pub(super) async fn status(nodes: usize) {
    let lab = fleet("bench-status", nodes).await;
    let kubeconfig = lab.cluster.kubeconfig().display().to_string();
    let args = ["status", "agent", "-n", &lab.name];
    let all: Vec<(f64, f64)> = (0..5).map(|_| run(&kubeconfig, &args)).collect();
    let most = all.iter().map(|(_, most)| *most).fold(0.0, f64::max);
    row(
        &format!("… status of {} nodes: median time of five / memory at most", lab.nodes.len()),
        &format!("{:.2} s / {most:.0} MiB", median(all.iter().map(|(took, _)| *took).collect())),
    );
    lab.end().await;
}

/// `status -w` during a rollout.
pub(super) async fn view(nodes: usize) {
    let lab = fleet("bench-view", nodes).await;
    let mut command = Command::new(beside("kubectl-oneagent"));
    command.args(["status", "-w", "-n", &lab.name]).env("KUBECONFIG", lab.cluster.kubeconfig()).env("LANG", "C.UTF-8");
    let terminal = Terminal::start(command, (60, 160));
    let shown = format!("complete {0}/{0}", lab.nodes.len());
    olm_tests::eventually("the view shows the fleet", LONG, || async {
        if terminal.shows().contains(&shown) { Ok(()) } else { Err(terminal.shows()) }
    })
    .await;
    let (began, before) = (Instant::now(), terminal.cpu());
    lab.cluster.vendor.publish(&lab.name, V2);
    lab.all_at("agent", V2, lab.nodes.len(), 2 * LONG).await;
    let (took, used) = (began.elapsed().as_secs_f64(), terminal.cpu().saturating_sub(before).as_secs_f64());
    row(
        &format!("… status -w of {} nodes during a rollout of {took:.0} s: share of a core", lab.nodes.len()),
        &format!("{:.1} % ({used:.2} s)", used / took * 100.0),
    );
    drop(terminal);
    lab.end().await;
}
