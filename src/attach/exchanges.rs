//! What comes of an exchange of the configuration, where the exporter takes it, refuses it, or stalls.
//!
//! For tests alone: the exporter is a socket of the test's own, and its process is written down. Must not start a JVM.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::endpoint::Endpoint;
use super::jvm::Jvm;
use super::table::Table;
use super::{CONFIG, EMPTY, Files, Reason};

const WANTED: &str = "{\"rules\":[{}]}";
/// So long it takes to see that nothing answers.
const WITHIN: Duration = Duration::from_millis(300);

/// What an exporter does with the configuration.
#[derive(Clone, Copy)]
enum Does {
    Takes,
    Refuses,
    /// It closes connections while it has this configuration, so many times that it is given it.
    Stalls(usize),
    /// It closes all connections once it was given it.
    Hangs,
    /// It is slow with its answers at first, so many times.
    Slow(usize),
}

/// Answers as an exporter does, which reads its configuration when it is asked for metrics.
async fn serve(listener: TcpListener, config: PathBuf, does: Does) {
    let (mut known, mut given, mut taken, mut refused) = (EMPTY.to_owned(), 0, 0, 0);
    let mut slow = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        if matches!(does, Does::Slow(times) if slow.len() < times) {
            slow.push(stream);
            continue;
        }
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        let now = tokio::fs::read_to_string(&config).await.unwrap();
        if now != known {
            known = now;
            given += usize::from(known == WANTED);
            let is_refused = known == WANTED && matches!(does, Does::Refuses);
            *(if is_refused { &mut refused } else { &mut taken }) += 1;
        }
        let is_silent = match does {
            Does::Takes | Does::Refuses | Does::Slow(_) => false,
            Does::Stalls(times) => known == WANTED && given <= times,
            Does::Hangs => given > 0,
        };
        if !is_silent {
            let body = format!("jmx_config_reload_success_total {taken}\njmx_config_reload_failure_total {refused}\n");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    }
}

/// A JVM with this socket, where socket 77 listens on the port.
fn jvm(table: &Table, port: u16, socket: u32) -> Jvm {
    table.put("7/stat", &format!("7 (java) S {}5 0", "0 ".repeat(18)));
    table.put("7/net/tcp", &format!("0: 0100007F:{port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 77 1"));
    symlink(format!("socket:[{socket}]"), table.path("7/fd/3")).unwrap();
    let tmp = table.path("7/root/tmp");
    Jvm { pid: 7, own_pid: 1, started: 5, tmp, handles_quit: true, is_openj9: false, home: None }
}

/// What comes of it, and which configuration is there then.
async fn exchanged(name: &str, does: Does) -> (Result<(), Reason>, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let table = Table::new(name);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let jvm = jvm(&table, port, 77);
    let files = Files::of(&jvm);
    files.put(EMPTY).unwrap();
    let server = tokio::spawn(serve(listener, files.path(CONFIG), does));
    let endpoint = Endpoint::that_answers(port, WITHIN);
    let came = files.exchange(&table.proc(), &jvm, &endpoint, WANTED, EMPTY).await;
    server.abort();
    (came.map_err(|refusal| refusal.reason), files.config().unwrap())
}

#[tokio::test]
async fn an_exporter_that_stalls_or_is_slow_is_asked_again_and_one_that_hangs_is_no_verdict() {
    for (name, does, wanted, in_force) in [
        ("takes", Does::Takes, Ok(()), WANTED),
        ("stalls-once", Does::Stalls(1), Ok(()), WANTED),
        ("stalls-twice", Does::Stalls(2), Err(Reason::ConfigNotTaken), EMPTY),
        ("refuses", Does::Refuses, Err(Reason::ConfigNotTaken), EMPTY),
        ("hangs", Does::Hangs, Err(Reason::ScrapeFailed), EMPTY),
        ("slow", Does::Slow(3), Ok(()), WANTED),
        ("never", Does::Slow(usize::MAX), Err(Reason::ScrapeFailed), EMPTY),
    ] {
        assert_eq!(exchanged(name, does).await, (wanted, in_force.to_owned()), "{name}");
    }
}

#[tokio::test]
async fn what_another_process_answers_on_the_port_is_no_metrics_of_the_jvm() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let table = Table::new("another");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let jvm = jvm(&table, port, 78);
    let files = Files::of(&jvm);
    files.put(EMPTY).unwrap();
    let server = tokio::spawn(serve(listener, files.path(CONFIG), Does::Takes));
    let why = Endpoint::that_answers(port, WITHIN).answers(&table.proc(), &jvm).await.unwrap_err();
    server.abort();
    assert_eq!(why, format!("another process listens on port {port}"));
}
