//! Certificates of a company's own authority (case S05), against a server of Python's TLS.

use super::{config, failed, value};
use backfill::{
    config::{HttpAuth, PrometheusConfig, secret::SecretSource},
    net::{Cause, Surroundings},
    signals::{LagSource, prometheus::Prometheus},
};
use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

const SERVER: &str = r#"
import http.server, json, ssl, sys, time
class H(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_HEAD(self): self.do_POST()
    def do_POST(self):
        with open(sys.argv[3], "a") as log:
            log.write("%s %s %s\n" % (self.command, self.path, self.headers.get("Authorization")))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        now = time.time()
        part = lambda q, v: {"metric": {"backfill_q": q}, "value": [now, str(v)]}
        body = json.dumps({"status": "success", "data": {"resultType": "vector",
            "result": [part("value", 42), part("age", now - 1)]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

/// Two authorities, and a certificate by the first for 127.0.0.1, in a folder of their own.
fn authority() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        set -e
        ec="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        openssl req -x509 $ec -keyout ca.key -out ca.pem -days 2 -subj "/O=Corp Ltd/CN=Corp Root 7"
        openssl req -x509 $ec -keyout other.key -out other.pem -days 2 -subj "/CN=Another Root"
        openssl req $ec -keyout server.key -out server.csr -subj "/CN=prom"
        printf 'subjectAltName=IP:127.0.0.1\n' > ext
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile ext -out server.pem
    "#;
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    dir
}

/// The server, ended with its test.
struct Server {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let dir = authority();
        let mut child = Command::new("python3")
            .args(["-c", SERVER])
            .args(["server.pem", "server.key", "log"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            child,
            port: line.trim().parse().unwrap(),
            dir,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self) -> PrometheusConfig {
        let token = self.file("token");
        std::fs::write(&token, "t0ken\n").unwrap();
        let mut config = config(&format!("https://127.0.0.1:{}", self.port));
        config.http.auth = Some(HttpAuth::Bearer(SecretSource::File(token)));
        config
    }

    fn seen(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn within(config: &PrometheusConfig, ssl_cert_file: Option<PathBuf>) -> Prometheus {
    let surroundings = Surroundings {
        ssl_cert_file,
        ..Surroundings::default()
    };
    Prometheus::within("orders", config, surroundings).unwrap()
}

/// Case S05.
#[tokio::test]
async fn a_private_authority_is_trusted_by_ca_file_or_by_the_environment() {
    let server = Server::start();
    let ca = server.file("ca.pem");
    let mut config = server.config();
    assert_eq!(value(within(&config, Some(ca.clone())).read().await).0, 42.0);
    config.http.ca_file = Some(ca);
    assert_eq!(value(within(&config, None).read().await).0, 42.0);
    assert_eq!(server.seen(), "POST /api/v1/query Bearer t0ken\n".repeat(2));
}

/// Case S05.
#[tokio::test]
async fn without_trust_the_error_names_the_issuer_and_the_three_ways_and_no_token_is_sent() {
    let server = Server::start();
    let source = within(&server.config(), None);
    for _ in 0..2 {
        let error = failed(source.read().await);
        assert_eq!(error.cause, Cause::Tls);
        for word in [
            "\"O=Corp Ltd, CN=Corp Root 7\"",
            "system's certificate store",
            "ca_file",
            "SSL_CERT_FILE",
        ] {
            assert!(error.detail.contains(word), "{word} is not in: {error}");
        }
    }
    // One look at the certificate, without credentials; its result is remembered.
    assert_eq!(server.seen(), "HEAD / None\n");
}

/// Case S05.
#[tokio::test]
async fn a_ca_file_of_another_authority_is_told_to_be_the_wrong_one() {
    let server = Server::start();
    let mut config = server.config();
    config.http.ca_file = Some(server.file("other.pem"));
    let error = failed(within(&config, None).read().await);
    assert!(error.detail.contains("other.pem does not hold it"), "{error}");
}

/// Case S02.
#[tokio::test]
async fn a_ca_file_that_is_mended_works_without_a_restart() {
    let server = Server::start();
    let ca = server.file("mended.pem");
    let mut config = server.config();
    config.http.ca_file = Some(ca.clone());
    let source = within(&config, None);
    let error = failed(source.read().await);
    assert_eq!(error.cause, Cause::Local);
    assert!(
        error.detail.contains("ca_file") && error.detail.contains("mended.pem"),
        "{error}"
    );
    std::fs::copy(server.file("other.pem"), &ca).unwrap();
    assert_eq!(failed(source.read().await).cause, Cause::Tls);
    std::fs::copy(server.file("ca.pem"), &ca).unwrap();
    assert_eq!(value(source.read().await).0, 42.0);
}

/// Case S04.
#[tokio::test]
async fn a_wrong_name_and_a_server_without_tls_are_told_apart() {
    let server = Server::start();
    let mut config = server.config();
    config.http.ca_file = Some(server.file("ca.pem"));
    config.http.url = format!("https://localhost:{}", server.port);
    let error = failed(within(&config, None).read().await);
    assert_eq!(error.cause, Cause::Tls);
    assert!(
        error.detail.contains("not valid for name \"localhost\""),
        "{error}"
    );
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    config.http.url = format!("https://{}", plain.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in plain.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = failed(within(&config, None).read().await);
    assert_eq!(error.cause, Cause::Tls, "{error}");
    assert!(error.detail.contains("http:// instead of https://"), "{error}");
}

/// Case S05. The environment of a real process: this test runs itself with `SSL_CERT_FILE` set.
#[test]
fn ssl_cert_file_of_the_environment_is_believed() {
    let server = Server::start();
    let run = |certificates: PathBuf| {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "tls::part_of_another_test_in_its_environment",
            ])
            .env("SSL_CERT_FILE", certificates)
            .env("BACKFILL_TEST_URL", format!("https://127.0.0.1:{}", server.port))
            .output()
            .unwrap()
    };
    let trusted = run(server.file("ca.pem"));
    assert!(
        trusted.status.success(),
        "{}",
        String::from_utf8_lossy(&trusted.stdout)
    );
    assert_eq!(server.seen(), "POST /api/v1/query None\n");
    // That it can fail shows that it did something.
    assert!(!run(server.file("other.pem")).status.success());
}

#[tokio::test]
#[ignore = "run by ssl_cert_file_of_the_environment_is_believed"]
async fn part_of_another_test_in_its_environment() {
    let config = config(&std::env::var("BACKFILL_TEST_URL").unwrap());
    assert_eq!(
        value(Prometheus::new("orders", &config).unwrap().read().await).0,
        42.0
    );
}
