//! What can go wrong with a call to the vendor, in words for the person who reads a status at night.
//!
//! Must not carry a token: messages hold addresses, codes and the vendor's own words, cut to a length.

use std::time::Duration;

/// A call that brought no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// 401.
    #[error("the environment refuses the token (401: {0})")]
    Unauthorized(String),
    /// 403.
    #[error("the token may not do this (403: {0})")]
    Forbidden(String),
    /// 429 or 503 with Retry-After.
    #[error("the environment asks us to come back later ({code})")]
    Throttled {
        /// 429 or 503.
        code: u16,
        /// How much later.
        after: Option<Duration>,
    },
    /// Any other refusal.
    #[error("the environment answers {code}: {message}")]
    Status {
        /// The body's code when there is one, otherwise the HTTP status.
        code: u16,
        /// The body's message.
        message: String,
    },
    /// The answer is not what the API says it is.
    #[error(
        "the answer is not the expected JSON ({0}); does a proxy or a login page answer in the environment's place?"
    )]
    NotJson(String),
    /// A field is missing or empty.
    #[error("the answer lacks {0}")]
    Lacks(&'static str),
    /// The answer is larger than anything sensible.
    #[error("the answer is larger than {0} MiB")]
    TooLarge(usize),
    /// A list without an end.
    #[error("the list names more than {0} hosts, which is not believed")]
    TooMany(usize),
    /// No answer in time.
    #[error("no answer within {0} s")]
    Timeout(u64),
    /// A redirect elsewhere.
    #[error("the environment redirects to another host ({0}); the token is not sent there: correct spec.apiUrl")]
    Redirect(String),
    /// No connection.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// No TLS connection: the cause, and what helps.
    #[error("no TLS connection: {cause}; {remedy}")]
    Tls {
        /// The cause, in the words of the TLS library.
        cause: String,
        /// What helps.
        remedy: &'static str,
    },
    /// The client cannot be made from what it was given.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// How long the environment asks us to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Throttled { after, .. } = self { *after } else { None }
    }

    /// From what reqwest reports, with the innermost cause and without the address (the caller names it).
    pub(super) fn from_reqwest(error: reqwest::Error, timeout: Duration, is_proxied: bool) -> Self {
        if error.is_timeout() {
            return Self::Timeout(timeout.as_secs());
        }
        if let Some(refused) = causes(&error).find_map(|cause| cause.downcast_ref::<OtherHost>()) {
            return Self::Redirect(refused.0.clone());
        }
        let error = error.without_url();
        let cause = cause(&error);
        match tls_remedy(&cause) {
            Some(remedy) => Self::Tls { cause, remedy },
            None if is_proxied => Self::Connect(format!("{cause} (a proxy is set)")),
            None => Self::Connect(cause),
        }
    }
}

/// What helps against a failure of TLS; `None`: it is none. The library (rustls) names its errors by one word.
fn tls_remedy(cause: &str) -> Option<&'static str> {
    let remedies = [
        ("UnknownIssuer", "put the certificate of its authority into the ConfigMap of spec.trustedCAs"),
        (
            "CriticalExtension",
            "an intermediate authority has a critical extension that the operator does not support: put that \
             authority's own certificate into the ConfigMap of spec.trustedCAs, too",
        ),
        (
            "HandshakeFailure",
            "the server and the operator have no cipher in common: the server must offer TLS 1.3, or TLS 1.2 with \
             ECDHE",
        ),
        ("ProtocolVersion", "the server must offer TLS 1.2 or 1.3"),
        ("invalid peer certificate", "correct the server's certificate, or the host name in spec.apiUrl"),
        ("received fatal alert", "see the log of the server, or of the proxy or load balancer before it"),
    ];
    remedies.into_iter().find(|(word, _)| cause.contains(word)).map(|(_, remedy)| remedy)
}

/// The innermost cause.
pub(super) fn cause(error: &reqwest::Error) -> String {
    short(&causes(error).last().map_or_else(|| error.to_string(), ToString::to_string))
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |cause| cause.source())
}

/// A redirect that would carry the token to another host.
#[derive(Debug, thiserror::Error)]
#[error("redirect to {0}")]
pub(super) struct OtherHost(pub(super) String);

/// A text of the vendor's, cut to a length that fits a status.
pub(super) fn short(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= 200 { line } else { line.chars().take(200).chain("…".chars()).collect() }
}
