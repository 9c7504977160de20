//! TLS profiles: which TLS versions OpenShift's administrators allow servers of their cluster.
//!
//! Pure. Must not know a TLS library.

use serde_json::Value;

/// What a server may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsProfile {
    /// Whether TLS 1.2 is too old.
    pub only_1_3: bool,
    /// The only ciphers that are allowed, by the names that OpenSSL gives them; `None`: those of the library.
    pub ciphers: Option<Vec<String>>,
}

impl TlsProfile {
    /// While the cluster's is unknown: what each of them allows.
    #[must_use]
    pub fn unknown() -> Self {
        Self { only_1_3: true, ciphers: None }
    }

    /// That of OpenShift's APIServer `cluster`. Profile Old only adds what no current library supports to Intermediate,
    /// the default.
    #[must_use]
    pub fn of_api_server(api_server: &Value) -> Self {
        let profile = &api_server["spec"]["tlsSecurityProfile"];
        match profile["type"].as_str() {
            Some("Modern") => Self { only_1_3: true, ciphers: None },
            Some("Custom") => {
                let custom = &profile["custom"];
                let named = custom["ciphers"].as_array().map(|all| all.iter().filter_map(Value::as_str));
                let named: Option<Vec<String>> = named.map(|all| all.map(str::to_owned).collect());
                Self {
                    only_1_3: custom["minTLSVersion"] == "VersionTLS13",
                    ciphers: named.filter(|all| !all.is_empty()),
                }
            }
            _ => Self::default(),
        }
    }

    /// Whether a cipher suite may be used, by the name in its standard, such as
    /// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` or `TLS_AES_128_GCM_SHA256`.
    #[must_use]
    pub fn allows(&self, suite: &str) -> bool {
        let Some(ciphers) = &self.ciphers else { return true };
        // TLS 1.3 has few suites, all sound: a list without any of them is about older ones.
        if !suite.contains("_WITH_") && !ciphers.iter().any(|cipher| cipher.starts_with("TLS_")) {
            return true;
        }
        ciphers.iter().any(|cipher| cipher == suite || *cipher == openssl_name(suite))
    }
}

/// `ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`.
fn openssl_name(suite: &str) -> String {
    let name = suite.trim_start_matches("TLS_").replace("_WITH_", "-").replace("AES_", "AES").replace('_', "-");
    name.strip_suffix("POLY1305-SHA256").map_or(name.clone(), |chacha| format!("{chacha}POLY1305"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(profile: &Value) -> TlsProfile {
        TlsProfile::of_api_server(&json!({ "spec": { "tlsSecurityProfile": profile } }))
    }

    #[test]
    fn each_type_of_profile_is_known_and_none_is_intermediate() {
        assert_eq!(of(&Value::Null), TlsProfile::default());
        assert_eq!(of(&json!({ "type": "Old", "old": {} })), TlsProfile::default());
        assert_eq!(of(&json!({ "type": "Intermediate", "intermediate": null })), TlsProfile::default());
        assert!(of(&json!({ "type": "Modern", "modern": {} })).only_1_3);
        let ciphers = ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"];
        let custom =
            of(&json!({ "type": "Custom", "custom": { "minTLSVersion": "VersionTLS12", "ciphers": ciphers } }));
        assert!(!custom.only_1_3);
        for (suite, allowed) in [
            ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", true),
            ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", true),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", false),
            ("TLS_AES_128_GCM_SHA256", true),
        ] {
            assert_eq!(custom.allows(suite), allowed, "{suite}");
        }
        let newer = json!({ "minTLSVersion": "VersionTLS13", "ciphers": ["TLS_AES_128_GCM_SHA256"] });
        let newer = of(&json!({ "type": "Custom", "custom": newer }));
        assert!(newer.only_1_3 && newer.allows("TLS_AES_128_GCM_SHA256") && !newer.allows("TLS_AES_256_GCM_SHA384"));
        assert_eq!(of(&json!({ "type": "Custom", "custom": { "ciphers": [] } })).ciphers, None);
    }
}
