//! A real browser without a window: Chromium, driven by its WebDriver.
//!
//! Must not know a page.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use axum::http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::eventually;
use crate::wait::SOON;

/// Programs, and Debian's packages that have them.
const PROGRAMS: [(&str, &str); 2] = [("chromium", "chromium"), ("chromedriver", "chromium-driver")];

/// Installs what is missing, or says what that is.
pub fn prepare() -> Result<(), String> {
    let is_there =
        |program: &str| Command::new("which").arg(program).output().is_ok_and(|found| found.status.success());
    let missing = || PROGRAMS.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package);
    if missing().next().is_none() {
        return Ok(());
    }
    let install = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "--yes", "--no-install-recommends"]).args(missing());
        command.env("DEBIAN_FRONTEND", "noninteractive").output()
    };
    // A machine may not know yet which packages there are.
    let has_installed = install().is_ok_and(|output| output.status.success())
        || (Command::new("apt-get").arg("update").output().is_ok()
            && install().is_ok_and(|output| output.status.success()));
    let names: Vec<&str> = missing().collect();
    if has_installed && names.is_empty() { Ok(()) } else { Err(format!("install {}", names.join(" and "))) }
}

/// One that is open.
pub struct Browser {
    driver: Child,
    client: Client,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends its browser only if it may end itself.
        let _ = Command::new("kill").arg(self.driver.id().to_string()).status();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Opens one with an empty page.
    pub async fn open() -> Self {
        let mut driver = Command::new("chromedriver");
        let mut driver =
            driver.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("chromedriver");
        let lines = BufReader::new(driver.stdout.take().expect("its output")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            line.strip_suffix('.').and_then(|line| line.rsplit_once("successfully on port ")?.1.parse::<u16>().ok())
        });
        let uri = format!("http://{}:{}", Ipv4Addr::LOCALHOST, port.expect("a port"));
        let client = Client::try_from(Config::new(uri.parse().expect("an address"))).expect("a client");
        let mut browser = Self { driver, client, session: String::new() };
        let options =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"];
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": options },
            "goog:loggingPrefs": { "browser": "ALL" } } } });
        let opened = browser.send("/session", &wanted).await;
        browser.session = format!("/session/{}", opened["sessionId"].as_str().expect("a session"));
        browser
    }

    async fn send(&self, path: &str, body: &Value) -> Value {
        let request = Request::post(path).header("Content-Type", "application/json");
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        let answer = self.client.request::<Value>(request).await;
        answer.unwrap_or_else(|error| panic!("{path} {body}: {error:?}"))["value"].take()
    }

    async fn post(&self, what: &str, body: &Value) -> Value {
        self.send(&format!("{}/{what}", self.session), body).await
    }

    pub async fn goto(&self, url: &str) {
        self.post("url", &json!({ "url": url })).await;
    }

    /// What a script returns.
    pub async fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({ "script": script, "args": [] })).await
    }

    /// Waits until a script returns what is wanted, and returns that.
    pub async fn until(&self, what: &str, script: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(what, SOON, async || {
            let found = self.run(script).await;
            if is_wanted(&found) { Ok(found) } else { Err(found.to_string()) }
        })
        .await
    }

    /// Presses a key, by WebDriver's code of it.
    pub async fn press(&self, key: char) {
        let pressed = [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })];
        self.post("actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": pressed }] })).await;
    }

    /// Has pages believe that the user prefers dark ones.
    pub async fn prefer_dark(&self) {
        let features = json!([{ "name": "prefers-color-scheme", "value": "dark" }]);
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.post("goog/cdp/execute", &command).await;
    }

    /// What the console has shown since the last time.
    pub async fn console(&self) -> Vec<String> {
        let lines = self.post("se/log", &json!({ "type": "browser" })).await;
        lines.as_array().into_iter().flatten().map(|line| format!("{}: {}", line["level"], line["message"])).collect()
    }
}
