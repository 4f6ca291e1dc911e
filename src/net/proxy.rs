//! Which proxy, if any, stands between us and an endpoint. Decided here and not in the HTTP library, so that an error
//! can say whether a proxy was in the way.

use reqwest::Url;
use std::net::IpAddr;

/// The proxy variables of the environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxyVars {
    /// `http_proxy`, for `http` urls. The upper-case name is not read: a CGI request can set it.
    pub http: Option<String>,
    /// `https_proxy` or `HTTPS_PROXY`, for `https` urls.
    pub https: Option<String>,
    /// `all_proxy` or `ALL_PROXY`, where the others are silent.
    pub all: Option<String>,
    /// `no_proxy` or `NO_PROXY`: hosts, domains, addresses and networks that are reached directly; `*` is all.
    pub none: Option<String>,
}

impl std::fmt::Debug for ProxyVars {
    /// Proxy urls may carry passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProxyVars(..)")
    }
}

impl ProxyVars {
    /// What the environment of this process says.
    pub fn from_env() -> Self {
        let var = |names: &[&str]| {
            names
                .iter()
                .find_map(|n| std::env::var(n).ok().filter(|v| !v.trim().is_empty()))
        };
        Self {
            http: var(&["http_proxy"]),
            https: var(&["https_proxy", "HTTPS_PROXY"]),
            all: var(&["all_proxy", "ALL_PROXY"]),
            none: var(&["no_proxy", "NO_PROXY"]),
        }
    }

    /// The proxy for a url. Loopback never goes through one.
    ///
    /// # Errors
    /// In words, when the variable does not hold the url of an HTTP proxy.
    pub(super) fn choose(&self, url: &Url) -> Result<Option<Url>, String> {
        let Some(host) = url.host_str().map(bare) else {
            return Ok(None);
        };
        let (name, value) = match (url.scheme(), &self.http, &self.https, &self.all) {
            ("http", Some(value), _, _) => ("http_proxy", value),
            ("https", _, Some(value), _) => ("https_proxy", value),
            (_, _, _, Some(value)) => ("all_proxy", value),
            _ => return Ok(None),
        };
        if is_loopback(host) || self.is_excepted(host) {
            return Ok(None);
        }
        let value = value.trim();
        let full = if value.contains("://") {
            value.to_owned()
        } else {
            format!("http://{value}")
        };
        match Url::parse(&full) {
            Ok(proxy) if matches!(proxy.scheme(), "http" | "https") && proxy.has_host() => Ok(Some(proxy)),
            Ok(proxy) => Err(format!(
                "{name} names a {} proxy; only http and https proxies are supported",
                proxy.scheme()
            )),
            Err(why) => Err(format!("{name} holds no url: {why}")),
        }
    }

    fn is_excepted(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let entries = self.none.as_deref().unwrap_or("").split(',').map(str::trim);
        entries
            .filter(|e| !e.is_empty())
            .any(|entry| covers(entry, &host))
    }
}

/// `host:port` of a proxy, without its password.
pub(super) fn shown(proxy: &Url) -> String {
    let host = proxy.host_str().unwrap_or("");
    proxy
        .port_or_known_default()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether a host name or address means this machine.
fn is_loopback(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An IPv6 host without its brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Whether one entry of `no_proxy` means this host (in lower case).
fn covers(entry: &str, host: &str) -> bool {
    if entry == "*" {
        return true;
    }
    let entry = entry.to_ascii_lowercase();
    // A port in the entry narrows nothing here: one endpoint is one port.
    let entry = match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => {
            name.to_owned()
        }
        _ => entry,
    };
    if let Ok(ip) = host.parse::<IpAddr>() {
        return match entry.split_once('/') {
            Some((net, bits)) => in_network(ip, net, bits),
            None => bare(&entry).parse() == Ok(ip),
        };
    }
    let domain = entry.trim_start_matches('*').trim_start_matches('.');
    !domain.is_empty()
        && (host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

fn in_network(ip: IpAddr, net: &str, bits: &str) -> bool {
    let Ok(bits) = bits.parse::<u32>() else {
        return false;
    };
    match (ip, bare(net).parse()) {
        (IpAddr::V4(ip), Ok(IpAddr::V4(net))) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(ip) & mask == u32::from(net) & mask
        }
        (IpAddr::V6(ip), Ok(IpAddr::V6(net))) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(ip) & mask == u128::from(net) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(vars: &ProxyVars, url: &str) -> Option<String> {
        vars.choose(&Url::parse(url).unwrap()).unwrap().map(|p| shown(&p))
    }

    #[test]
    fn each_scheme_has_its_proxy_and_loopback_has_none() {
        let vars = ProxyVars {
            http: Some("plain.example:3128".into()),
            https: Some("http://user:pw@tls.example".into()),
            ..ProxyVars::default()
        };
        assert_eq!(
            chosen(&vars, "http://prom:9090/x").as_deref(),
            Some("plain.example:3128")
        );
        assert_eq!(chosen(&vars, "https://prom/x").as_deref(), Some("tls.example:80"));
        for url in [
            "http://127.0.0.1:9090",
            "http://[::1]:9090",
            "http://LocalHost",
            "https://a.localhost:1",
        ] {
            assert_eq!(chosen(&vars, url), None, "{url}");
        }
        assert_eq!(chosen(&ProxyVars::default(), "http://prom"), None);
        let all = ProxyVars {
            all: Some("p:1".into()),
            ..ProxyVars::default()
        };
        assert_eq!(chosen(&all, "https://prom").as_deref(), Some("p:1"));
    }

    #[test]
    fn no_proxy_takes_names_domains_addresses_networks_and_the_star() {
        let direct = |none: &str, url: &str| {
            let vars = ProxyVars {
                all: Some("p:1".into()),
                none: Some(none.into()),
                ..ProxyVars::default()
            };
            chosen(&vars, url).is_none()
        };
        assert!(direct("other, corp.example", "http://prom.corp.example"));
        assert!(direct(".corp.example", "http://PROM.corp.example"));
        assert!(direct("*.corp.example", "http://prom.corp.example"));
        assert!(direct("corp.example:9090", "http://corp.example:9090"));
        assert!(!direct("corp.example", "http://notcorp.example"));
        assert!(direct("10.1.0.0/16", "http://10.1.2.3") && !direct("10.1.0.0/16", "http://10.2.2.3"));
        assert!(direct("10.1.2.3", "http://10.1.2.3") && direct("0.0.0.0/0", "http://10.1.2.3"));
        assert!(direct("fd00::/8", "http://[fd12::1]") && !direct("fd00::/8", "http://[2001:db8::1]"));
        assert!(direct("*", "http://anything") && !direct("", "http://anything"));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_an_error_without_its_password() {
        let vars = ProxyVars {
            all: Some("socks5://u:secret@p:1".into()),
            ..ProxyVars::default()
        };
        let why = vars.choose(&Url::parse("http://prom").unwrap()).unwrap_err();
        assert!(why.contains("socks5") && !why.contains("secret"), "{why}");
        assert!(!format!("{vars:?}").contains("secret"));
    }
}
