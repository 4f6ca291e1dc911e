//! From the HTTP library's errors to a cause out of the fixed list (case S04).

use super::error::Cause;
use std::{error::Error, io};

/// A failed exchange before it is tied to its endpoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trouble {
    pub(super) cause: Cause,
    pub(super) detail: String,
}

impl Trouble {
    pub(super) fn new(cause: Cause, detail: impl Into<String>) -> Self {
        Self {
            cause,
            detail: detail.into(),
        }
    }
}

/// What the TLS library says of a certificate whose issuer it does not know.
pub(super) const UNKNOWN_ISSUER: &str = "UnknownIssuer";

/// The likely cause of a transport error, with the words of its deepest source. The url is never part of them.
pub(super) fn classify(error: &reqwest::Error) -> Trouble {
    let chain = Chain::of(error);
    let words = chain.last().to_owned();
    if error.is_builder() {
        return Trouble::new(Cause::Local, words);
    }
    if chain.says(&["dns error", "failed to lookup address"]) {
        return Trouble::new(Cause::Dns, words);
    }
    if chain.says(&["tunnel error"]) {
        return Trouble::new(Cause::Proxy, words);
    }
    if chain.says(&[
        "invalid peer certificate",
        "received fatal alert",
        "received corrupt message",
        "peer is incompatible",
        "peer misbehaved",
        "tls handshake",
        "no server certificate chain",
    ]) {
        let not_tls = chain.says(&["InvalidContentType"]);
        let hint = if not_tls {
            "; what answers there speaks no TLS: http:// instead of https://?"
        } else {
            ""
        };
        return Trouble::new(Cause::Tls, format!("{words}{hint}"));
    }
    if error.is_timeout() {
        let at = if error.is_connect() {
            "no connection in time: name server, firewall, VPN or a wrong port?"
        } else {
            "connected, and no answer in time"
        };
        return Trouble::new(Cause::Timeout, at);
    }
    Trouble::new(by_kind(error, &chain), words)
}

fn by_kind(error: &reqwest::Error, chain: &Chain) -> Cause {
    use io::ErrorKind as Kind;
    match chain.io {
        Some(
            Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown,
        ) => Cause::Refused,
        Some(Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe | Kind::UnexpectedEof) => {
            Cause::Broken
        }
        _ if error.is_connect() => Cause::Refused,
        _ if error.is_decode()
            || chain.says(&[
                "invalid HTTP",
                "invalid content-length",
                "message head is too large",
            ]) =>
        {
            Cause::NotUnderstood
        }
        _ => Cause::Broken,
    }
}

/// An error and all its sources, as texts; the outermost, which carries the url, left out.
struct Chain {
    texts: Vec<String>,
    io: Option<io::ErrorKind>,
}

impl Chain {
    fn of(error: &reqwest::Error) -> Self {
        let mut chain = Self {
            texts: Vec::new(),
            io: None,
        };
        let mut next = error.source();
        while let Some(source) = next {
            chain.texts.push(source.to_string());
            if let Some(io) = source.downcast_ref::<io::Error>()
                && io.kind() != io::ErrorKind::Other
            {
                chain.io = Some(io.kind());
            }
            next = source.source();
        }
        chain
    }

    fn says(&self, needles: &[&str]) -> bool {
        self.texts.iter().any(|t| needles.iter().any(|n| t.contains(n)))
    }

    fn last(&self) -> &str {
        self.texts.last().map_or("", String::as_str)
    }
}
