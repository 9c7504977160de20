//! Metrics over TLS: only for callers that the cluster lets read them, with the manifest of `config/` on a real API
//! server.

use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use olm_tests::cluster::{Cluster, objects};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON};
use olm_tests::openshift::{says, serve};
use olm_tests::operator::{free_address, get, token};
use olm_tests::pki::Ca;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The metrics' address, and what a client trusts.
struct Page {
    address: String,
    name: String,
    ca: String,
}

impl Page {
    /// Asks with a token, or without.
    async fn ask(&self, token: Option<&str>, versions: &[&'static SupportedProtocolVersion]) -> Result<String, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_protocol_versions(versions);
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = tokio::net::TcpStream::connect(&self.address).await?;
        let name = ServerName::try_from(self.name.clone()).unwrap();
        let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{token}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        match stream.read_to_string(&mut text).await {
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(text),
        }
    }

    /// The status line of an answer by TLS 1.3.
    async fn status(&self, token: Option<&str>) -> Result<String, String> {
        let answer = self.ask(token, &[&version::TLS13]).await.map_err(|error| error.to_string())?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    }
}

/// Puts a certificate of this authority where the operator looks for it.
fn put(ca: &Ca, name: &str, folder: &Path) {
    let pair = ca.server(&[name], false);
    std::fs::write(folder.join("tls.key"), pair.key).unwrap();
    std::fs::write(folder.join("tls.crt"), pair.cert).unwrap();
}

/// The manifest, except what only Prometheus reads, in the lab's namespace.
fn manifest(lab: &Lab<'_>) -> String {
    let is_ours = |object: &Value| object["kind"] != "ServiceMonitor";
    let all = objects("config/oneagent-operator/secure-metrics.yaml").into_iter().filter(is_ours);
    let texts: Vec<String> =
        all.map(|object| object.to_string().replace("\"dynatrace\"", &format!("\"{}\"", lab.name))).collect();
    texts.join("\n---\n")
}

#[test]
fn metrics_over_tls_are_for_callers_that_the_cluster_authorizes() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        serve(&cluster);
        let modern = json!({ "tlsSecurityProfile": { "type": "Modern", "modern": {} } });
        says(&cluster, "APIServer", "cluster", &modern, &json!({}));
        let mut lab = Lab::without_operator(&cluster, "scraped", 1).await;
        cluster.apply(&manifest(&lab));
        let folder = cluster.path("metrics-tls");
        std::fs::create_dir(&folder).unwrap();
        let address = free_address();
        let at = folder.display().to_string();
        let settings = [("SECURE_METRICS_CERTIFICATES", &*at), ("SECURE_METRICS_ADDRESS", &address)];
        lab.start_operator(&settings).await;
        let (ca, name) = (Ca::new("service-ca"), format!("oneagent-operator-metrics.{}.svc", lab.name));
        let page = Page { address, name: name.clone(), ca: ca.pem() };

        // The certificate comes late: until then there are no metrics, neither there nor in the clear.
        eventually("it is up", SOON, || async {
            match get(&lab.operators[0].address, "/readyz").await {
                Some((200, _)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert!(page.status(None).await.is_err());
        assert_eq!(get(&lab.operators[0].address, "/metrics").await.unwrap().0, 404);
        put(&ca, &name, &folder);
        assert_eq!(page.status(None).await.unwrap(), "HTTP/1.1 401 Unauthorized");
        assert_eq!(page.status(Some("nobody's")).await.unwrap(), "HTTP/1.1 401 Unauthorized");
        let stranger = token(&cluster.client, &lab.name, "dynatrace-oneagent", None).await;
        let refused = page.ask(Some(&stranger), &[&version::TLS13]).await.unwrap();
        let who = format!("system:serviceaccount:{}:dynatrace-oneagent may not get", lab.name);
        assert!(refused.starts_with("HTTP/1.1 403") && refused.contains(&who), "{refused}");
        // The token that Prometheus reads from its Secret.
        let secret = ["-n", &lab.name, "get", "secret", "oneagent-operator-metrics-token", "-o"];
        let go = "go-template={{.data.token | base64decode}}";
        let scraper = cluster.kubectl(&[&secret[..], &[go]].concat());
        let metrics = page.ask(Some(&scraper), &[&version::TLS13]).await.unwrap();
        assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("oneagent_leader"), "{metrics}");
        // The cluster's profile is Modern.
        assert!(page.ask(Some(&scraper), &[&version::TLS12]).await.is_err());
        // A certificate that was renewed is served without a restart.
        let renewed = Ca::new("service-ca-2");
        put(&renewed, &name, &folder);
        assert!(page.status(Some(&scraper)).await.is_err(), "no longer the one before");
        let page = Page { ca: renewed.pem(), ..page };
        assert_eq!(page.status(Some(&scraper)).await.unwrap(), "HTTP/1.1 200 OK");
        every_right_of_it_is_used(&cluster, &lab);
        assert!(!lab.operators[0].printed().contains(&scraper), "no token is printed");
        lab.end().await;
    });
}

fn every_right_of_it_is_used(cluster: &Cluster, lab: &Lab<'_>) {
    let requests = olm_tests::audit::requests(&cluster.path("audit.log"), &lab.name, "oneagent-operator");
    for object in objects("config/oneagent-operator/secure-metrics.yaml") {
        if object["kind"] != "ClusterRole" || object["metadata"]["name"] != "oneagent-operator-metrics-gate" {
            continue;
        }
        for rule in object["rules"].as_array().unwrap() {
            let is_it = |r: &&olm_tests::audit::Request| {
                rule["apiGroups"][0] == r.group && rule["resources"][0] == r.resource && rule["verbs"][0] == r.verb
            };
            assert!(requests.iter().any(|request| is_it(&request)), "{rule}");
        }
    }
}
