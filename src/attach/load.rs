//! The load: HotSpot's attach protocol, over the socket that the JVM makes when it is asked to.
//!
//! Must not be begun before all questions are answered; nothing is loaded before the lock is there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use super::jvm::Jvm;
use super::proc::Proc;
use super::{PAUSE, Reason, Refusal, unwritable, write};

/// A JVM makes the socket at its next safepoint.
const SOCKET_WITHIN: Duration = Duration::from_secs(10);
/// A load answers within this time.
const LOADED_WITHIN: Duration = Duration::from_secs(30);

/// The socket that the JVM makes when it is asked to; that alone loads nothing.
pub(super) async fn socket(proc: &Proc, jvm: &Jvm) -> Result<PathBuf, Refusal> {
    let asks = jvm.tmp.join(format!(".attach_pid{}", jvm.own_pid));
    let socket = jvm.tmp.join(format!(".java_pid{}", jvm.own_pid));
    if socket.exists() {
        return Ok(socket);
    }
    write(&asks, &mut io::empty()).map_err(|error| unwritable(&error))?;
    let signalled = quit(proc, jvm);
    let end = Instant::now() + SOCKET_WITHIN;
    while signalled.is_ok() && !socket.exists() && Instant::now() < end {
        sleep(PAUSE).await;
    }
    let _ = fs::remove_file(&asks);
    signalled.map_err(|error| failed(format!("the JVM cannot be signalled: {error}")))?;
    if socket.exists() {
        return Ok(socket);
    }
    Err(Refusal::of(
        Reason::AttachDisabled,
        "the JVM opens no socket: remove -XX:+DisableAttachMechanism, or start the JVM with -javaagent",
    ))
}

/// Has the JVM load the agent with these options.
pub(super) async fn load(socket: &Path, options: &str) -> Result<(), Refusal> {
    let answer = timeout(LOADED_WITHIN, send(socket, options)).await;
    let answer = answer.map_err(|_| failed("the JVM does not answer within 30 s".to_owned()))?;
    judged(&answer.map_err(|error| failed(format!("the JVM's socket: {error}")))?)
}

fn failed(why: String) -> Refusal {
    Refusal::of(Reason::LoadFailed, why)
}

/// Signals it, unless another process has its number by now.
fn quit(proc: &Proc, jvm: &Jvm) -> io::Result<()> {
    if !jvm.is_there(proc) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it has ended"));
    }
    let pid = i32::try_from(jvm.pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, Signal::QUIT)?)
}

/// Version 1 of the protocol: words that end with NUL; the answer ends with the connection.
async fn send(socket: &Path, options: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket).await?;
    for word in ["1", "load", "instrument", "false", options] {
        stream.write_all(word.as_bytes()).await?;
        stream.write_all(&[0]).await?;
    }
    let mut answer = Vec::new();
    stream.take(1 << 16).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// What an answer says: a code of the protocol, then what came of it. Java 21 and newer answer 0 for a failure, too,
/// and say it in the text.
fn judged(answer: &str) -> Result<(), Refusal> {
    let (code, text) = answer.split_once('\n').unwrap_or((answer, ""));
    let text = text.trim();
    let code_of_load = text.strip_prefix("return code: ").unwrap_or(text);
    match (code.trim(), code_of_load) {
        ("0", "" | "0") => Ok(()),
        ("0", _) if text.contains("Dynamic agent loading is not enabled") => {
            Err(Refusal::of(Reason::AttachDisabled, text))
        }
        // One that ends closes the socket.
        ("", "") => Err(failed("the JVM closed the connection without an answer; its log says more".to_owned())),
        (code, _) => {
            let said = format!("{code} {text}");
            Err(failed(format!("the JVM refuses the exporter: {}; its log says more", said.trim())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_old_and_new_jvms_are_told_apart() {
        for good in ["0\n0\n", "0\nreturn code: 0\n", "0\n"] {
            assert_eq!(judged(good), Ok(()), "{good:?}");
        }
        for bad in ["0\nreturn code: 102\n", "100\nNo such agent", "", "100\n", "0\nload failed"] {
            let refusal = judged(bad).unwrap_err();
            assert_eq!(refusal.reason, Reason::LoadFailed, "{bad:?}");
            assert!(!refusal.message.contains("  ") && !refusal.message.contains(" ;"), "{}", refusal.message);
        }
        let forbidden =
            judged("0\nDynamic agent loading is not enabled. Use -XX:+EnableDynamicAgentLoading").unwrap_err();
        assert_eq!(forbidden.reason, Reason::AttachDisabled);
    }
}
