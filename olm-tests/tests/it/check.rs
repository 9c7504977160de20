//! `check`: what an administrator learns of an environment before or without the operator.

use std::fs::File;
use std::process::{Command, Stdio};

use k8s_openapi::ByteString;
use olm_tests::lab::{Lab, V1};
use olm_tests::pki::{Ca, Pair};
use olm_tests::vendor::{Vendor, api_token, paas_token};
use serde_json::json;

fn command(args: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(olm_tests::operator::binary());
    command.arg("check").args(args).env_remove("KUBECONFIG").env("HOME", "/nonexistent").envs(env.iter().copied());
    command
}

/// Whether it found all well, and what it said.
fn check(args: &[&str], env: &[(&str, &str)]) -> (bool, String) {
    let mut command = command(args, env);
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("SECRETPAAS") && !said.contains("SECRETAPI") && !said.contains("panicked"), "{said}");
    (output.status.success(), said)
}

#[test]
fn an_environment_is_tried_from_the_shell_without_a_cluster() {
    olm_tests::run(async {
        let lab = Lab::without_operator(olm_tests::cluster::Cluster::shared().await, "check-shell", 0).await;
        let (url, tls) = (lab.cluster.vendor.url(&lab.name), lab.cluster.vendor.tls_url(&lab.name));
        let (paas, api) = (paas_token(&lab.name), api_token(&lab.name));
        let tokens = [("PAAS_TOKEN", paas.as_str()), ("API_TOKEN", api.as_str())];
        let (good, said) = check(&["--api-url", &url], &tokens);
        assert!(
            good && said.contains(V1)
                && said.contains("accepted, has scope InstallerDownload")
                && said.contains("scope DataExport"),
            "{said}"
        );

        let skips = |tokens: &[(&str, &str)], words: &str| {
            let (good, said) = check(&["--api-url", &url], tokens);
            assert!(good && said.contains(words), "what is not tried is no failure: {said}");
        };
        skips(&[], "skip  variable PAAS_TOKEN is not set");
        skips(&[], "read -rs PAAS_TOKEN && export PAAS_TOKEN");
        skips(&[], "read -rs API_TOKEN && export API_TOKEN");
        skips(&[], "note  2 checks were skipped");
        skips(&[("PAAS_TOKEN", &paas)], "API_TOKEN is not set: the host list");
        // Address, names and certificates are tried without any token, too.
        skips(&[], &format!("ok    the environment answers at {url}"));
        let expect = |args: &[&str], env: &[(&str, &str)], words: &str| {
            let (good, said) = check(args, env);
            assert!(!good && said.contains(words), "{args:?}: {words}: {said}");
        };
        expect(&["--api-url", "https://environment.invalid/api"], &[], "cannot connect");
        expect(&["--api-url", &tls], &[], "certificate");
        expect(&["agent"], &[], "no cluster is configured: set KUBECONFIG to a kubeconfig file, or run inside a Pod");
        expect(&["--api-url", &url], &[("PAAS_TOKEN", &api), ("API_TOKEN", &paas)], "apiToken lacks scope DataExport");
        expect(
            &["--api-url", &url],
            &[("PAAS_TOKEN", "dt0c01.WRONG.SECRETPAASwrong"), ("API_TOKEN", &api)],
            "refuses the token (401",
        );
        expect(&["--api-url", &tls], &tokens, "spec.trustedCAs");
        expect(&["--api-url", "https://environment.invalid/api"], &tokens, "cannot connect");
        expect(&["--api-url", "environment"], &tokens, "spec.apiUrl is \"environment\"");
        expect(&["--api-url", &url, "name"], &[], "cannot be used with");
        expect(&[], &[], "required");
        expect(&["-f", "/nonexistent.yaml"], &[], "cannot read /nonexistent.yaml");
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, &lab.cluster.vendor_ca).unwrap();
        let (good, said) = check(&["--api-url", &tls, "--trusted-cas", &ca.display().to_string()], &tokens);
        assert!(good, "{said}");
        // A file with a pin that is not offered, behind a proxy that is not there.
        let file = folder.path().join("agent.yaml");
        let agent = |spec: serde_json::Value| {
            let object = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": "a", "namespace": "dynatrace" }, "spec": spec });
            std::fs::write(&file, object.to_string()).unwrap();
        };
        let path = file.display().to_string();
        agent(json!({ "apiUrl": url, "update": { "version": "1.999.1.20300101-000000" } }));
        expect(&["-f", &path], &tokens, "1.999.1.20300101-000000 is not offered");
        agent(json!({ "apiUrl": url, "rollout": { "canary": { "soak": "30 seconds" } } }));
        expect(&["-f", &path], &tokens, "would refuse OneAgent a: spec.rollout.canary.soak: soak must be hours");
        // The Secret with the tokens may stand in the same file.
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" },
            "stringData": { "paasToken": paas }, "data": { "apiToken": ByteString(api.clone().into_bytes()) } });
        agent(json!({ "apiUrl": url }));
        let both = format!("{}\n---\n{secret}\n", std::fs::read_to_string(&file).unwrap());
        std::fs::write(&file, both).unwrap();
        let (good, said) = check(&["-f", &path], &[]);
        assert!(good && said.contains("accepted, has scope DataExport") && !said.contains("skip"), "{said}");
        agent(json!({ "apiUrl": url, "proxy": { "value": "http://127.0.0.1:1" } }));
        expect(&["-f", &path], &tokens, "spec.proxy");
        // As kubectl does it, a file may come from standard input; and a reader that reads no further is told no more.
        let typed = || File::open(&file).unwrap();
        let output = command(&["-f", "-"], &tokens).stdin(typed()).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("spec.proxy"), "{output:?}");
        let mut unread = command(&["-f", "-"], &tokens);
        let mut unread = unread.stdin(typed()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(unread.stdout.take());
        let output = unread.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && !said.contains("panicked"), "{}: {said}", output.status);
        agent(json!({ "apiUrl": url, "dnsPolicy": "Sometimes" }));
        expect(&["-f", &path], &tokens, "spec.dnsPolicy");
        lab.end().await;
    });
}

#[test]
fn what_fails_in_tls_or_at_the_proxy_is_said_with_what_helps() {
    olm_tests::run(async {
        let (root, folder) = (Ca::new("root"), tempfile::tempdir().unwrap());
        let between = root.with_critical_policies("between");
        let server = between.server(&["localhost"], true);
        let vendor = Vendor::start(Some(&Pair { cert: server.cert + &between.pem(), ..server })).await;
        vendor.add("tls", V1);
        let (url, paas, api) = (vendor.tls_url("tls"), paas_token("tls"), api_token("tls"));
        let tokens = [("PAAS_TOKEN", paas.as_str()), ("API_TOKEN", api.as_str())];
        let trusting = |pem: &str| {
            let file = folder.path().join("ca.pem");
            std::fs::write(&file, pem).unwrap();
            check(&["--api-url", &url, "--trusted-cas", &file.display().to_string()], &tokens)
        };
        let (good, said) = trusting(&root.pem());
        assert!(!good && said.contains("put that authority's own certificate into the ConfigMap"), "{said}");
        let (good, said) = trusting(&(root.pem() + &between.pem()));
        assert!(good, "what is recommended helps: {said}");
        let broken = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
        let (good, said) = trusting(&(root.pem() + broken + &between.pem()));
        assert!(!good && said.contains("certificate 2 of the 3 in the ConfigMap"), "{said}");

        // A server that knows no cipher of ours answers with this alert.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let old = format!("https://{}/api", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 2048]).await;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &[21, 3, 3, 0, 2, 2, 40]).await;
            }
        });
        let (good, said) = check(&["--api-url", &old], &tokens);
        assert!(!good && said.contains("TLS 1.2 with ECDHE"), "{said}");

        for (proxy, words) in [
            (r"http://DOMAIN\user:secret@proxy.example:3128", "write %5C for that of a user name"),
            ("http://proxy.invalid:3128", "(a proxy is set)"),
        ] {
            let file = folder.path().join("agent.json");
            let object = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": "a" }, "spec": { "apiUrl": url, "proxy": { "value": proxy } } });
            std::fs::write(&file, object.to_string()).unwrap();
            let (good, said) = check(&["-f", &file.display().to_string()], &tokens);
            assert!(!good && said.contains(words) && !said.contains("secret"), "{said}");
        }
    });
}

#[test]
fn a_oneagent_in_the_cluster_is_tried_with_what_it_refers_to() {
    olm_tests::run(async {
        let lab = Lab::without_operator(olm_tests::cluster::Cluster::shared().await, "check-cluster", 0).await;
        lab.oneagent(&json!({ "trustedCAs": "ca", "tokens": "tokens" }));
        let kubeconfig = lab.cluster.kubeconfig().display().to_string();
        let run = |name: &str| check(&[name, "-n", &lab.name], &[("KUBECONFIG", &kubeconfig)]);
        let (good, said) = run("agent");
        assert!(!good && said.contains("create configmap ca --from-file=certs"), "{said}");
        lab.edit("agent", json!({ "trustedCAs": null })).await;
        let (good, said) = run("agent");
        assert!(good && said.contains(V1), "{said}");
        lab.secret(&api_token(&lab.name), &format!("{} ", paas_token(&lab.name)));
        let (good, said) = run("agent");
        assert!(!good && said.contains("has blanks around it"), "{said}");
        lab.edit("agent", json!({ "tokens": "none" })).await;
        let (good, said) = run("agent");
        assert!(!good && said.contains("create secret generic none"), "{said}");
        let (good, said) = run("nobody");
        assert!(!good && said.contains("there is no OneAgent nobody"), "{said}");
        lab.end().await;
    });
}
