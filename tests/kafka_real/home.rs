//! The start script with the folder of an Apache Kafka. No registry has Apache Kafka itself, so a folder of its shape
//! stands for it: programs of the same names that demand what Kafka's own demand (KIP-631, KIP-900) and listen where
//! they are told. That everything else here holds against Apache Kafka, too, is shown by `KAFKA_HOME=..` before the
//! test command.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

/// Demands a cluster id, settings with a place for data that was not formatted yet, and writes its arguments down.
const STORAGE: &str = r#"#!/usr/bin/env bash
set -eu
[ "$1" != random-uuid ] || { echo J7s9sKVwTXq7T5kvV0ZlXA; exit 0; }
[ "$1" = format ] && [ "$2" = -t ] && [ "$3" = J7s9sKVwTXq7T5kvV0ZlXA ] && [ "$4" = -c ] || exit 64
grep -q '^process.roles=broker,controller$' "$5" || exit 65
data=$(sed -n 's/^log.dirs=//p' "$5")
[ ! -e "$data/meta.properties" ] || { echo "already formatted" >&2; exit 1; }
mkdir -p "$data"
shift 5
printf '%s\n' "$@" >"$data/scram"
echo version=1 >"$data/meta.properties"
"#;

/// Demands formatted data and readable keys, notes where it logs, and listens on every listener of its settings.
const SERVER: &str = r#"#!/usr/bin/env bash
set -eu
exec python3 - "$1" <<'PY'
import os, re, socket, ssl, sys, threading
at = dict(line.rstrip("\n").split("=", 1) for line in open(sys.argv[1]))
assert os.path.exists(at["log.dirs"] + "/meta.properties"), "not formatted"
open(at["log.dirs"] + "/started", "a").write(os.environ["LOG_DIR"] + " " + os.environ["KAFKA_HEAP_OPTS"] + "\n")
names = dict(pair.split(":") for pair in at["listener.security.protocol.map"].split(","))
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(at["ssl.keystore.location"])
tls.load_verify_locations(at["ssl.truststore.location"])
def serve(listener, guarded):
    while True:
        peer = listener.accept()[0]
        try:
            (tls.wrap_socket(peer, server_side=True) if guarded else peer).close()
        except (OSError, ssl.SSLError):
            pass
for name, port in re.findall(r"(\w+)://127\.0\.0\.1:(\d+)", at["listeners"]):
    listener = socket.create_server(("127.0.0.1", int(port)))
    threading.Thread(target=serve, args=(listener, "SSL" in names[name])).start()
PY
"#;

struct Home {
    home: tempfile::TempDir,
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        for (name, text) in [("kafka-storage.sh", STORAGE), ("kafka-server-start.sh", SERVER)] {
            let path = home.path().join("bin").join(name);
            fs::File::create(&path)
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        Self { home, dir }
    }

    fn script(&self, what: &str) -> Output {
        Command::new("bash")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/kafka.sh"))
            .arg(what)
            .arg(self.dir.path())
            .env("KAFKA_HOME", self.home.path())
            .env("OWNER", std::process::id().to_string())
            .output()
            .unwrap()
    }

    fn up(&self) -> BTreeMap<String, String> {
        let out = self.script("up");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let lines = String::from_utf8(out.stdout).unwrap();
        let pair = |l: &str| l.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        lines.lines().filter_map(pair).collect()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.path().join(file)).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.script("down");
    }
}

fn listens(at: &str) -> bool {
    TcpStream::connect(at).is_ok()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_start_script_formats_and_starts_the_apache_kafka_of_a_folder_and_stops_it() {
    let home = Home::new();
    let lines = home.up();
    assert_eq!(lines["KAFKA_KIND"], "apache");
    let listeners = ["KAFKA_BROKERS", "KAFKA_SASL_BROKERS", "KAFKA_MTLS_BROKERS"];
    for name in listeners {
        assert!(listens(&lines[name]), "{name}");
    }
    let scram = home.read("data/scram");
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let credential = format!("--add-scram\n{mechanism}=[name=etl,password=etl-s3cret]\n");
        assert!(scram.contains(&credential), "{scram}");
    }
    let settings = home.read("server.properties");
    let sasl = format!("SASL://{}", lines["KAFKA_SASL_BROKERS"]);
    assert_eq!(
        settings.matches(&sasl).count(),
        2,
        "listened on and advertised: {settings}"
    );

    // Killed, it comes back where it was, with the data that it had.
    let pid = &lines["KAFKA_PID"];
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    until("it does not die", || !listens(&lines["KAFKA_BROKERS"]));
    let again = home.up();
    assert_eq!(listeners.map(|l| &again[l]), listeners.map(|l| &lines[l]));
    assert_ne!(&again["KAFKA_PID"], pid);
    let logs = home.dir.path().canonicalize().unwrap().join("kafka-logs");
    let started = format!("{} -Xms128m -Xmx512m\n", logs.display());
    assert_eq!(
        home.read("data/started"),
        started.repeat(2),
        "it logs in its own folder"
    );

    assert!(home.script("down").status.success());
    for name in listeners {
        assert!(!listens(&lines[name]), "{name} is still there");
    }
    assert!(Path::new(&lines["KAFKA_CA"]).exists());
}

#[test]
fn a_folder_without_kafka_is_told_by_its_name() {
    let home = Home::new();
    fs::remove_file(home.home.path().join("bin/kafka-server-start.sh")).unwrap();
    let out = home.script("up");
    assert!(!out.status.success());
    let told = format!("there is no Apache Kafka in {}", home.home.path().display());
    assert!(String::from_utf8_lossy(&out.stderr).contains(&told));
}
