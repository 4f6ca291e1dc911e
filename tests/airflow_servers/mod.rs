//! Real Airflows, of both versions. `services/airflow.sh` starts them.
//!
//! Two servers are shared by all tests: those that `BACKFILL_AIRFLOW3_URL` and `.._DIR` (and the same with 2) name, as
//! when the whole suite runs, else one of each that this process starts and that ends with it. Tests on them keep out
//! of each other's way by DAG and year:
//!
//! | who | DAG | dates |
//! | --- | --- | --- |
//! | `airflow_real` | `events_daily`, `newyork_daily` (a native backfill) | 2022-05, 2022-06 |
//! | `airflow_proof` | `events_daily` | 2021-02 and 2021-03, to the 1st of April |
//! | `airflow_faults` | `ondemand` | 2023 |
//! | all | `ondemand` | 2024-12-31 |
//! | `airflow_days` | `events_daily` | 2022-03-14 |
//! | | `newyork_daily` | 2021-03 |
//! | | `mapped_daily`, `retry_daily`, `pooled_daily`, `long_daily` | 2021-05, 2020-12-30 |
//! | `airflow_attach` | `events_daily` | 2016 to 2018, 2024 to July |
//! | | `long_daily`, `newyork_daily`, `partitioned_daily`, `mapped_daily` | 2024-08, -03, -05, -06 |
//! | `airflow_attached` | `pooled_daily` (and its pool), `long_daily`, `retry_daily` | 2023 |
//! | `inside_real` | `events_daily`, `mapped_daily`, `retry_daily` | 2025-04 to 2025-11 |
//! | the bench `airflow` | `retry_daily` | 1990 to 2017-05-18, 2025-12-30 |
//!
//! A test that stops a server, or needs one with other settings, starts its own.

// Helpers of tests may fail loudly like tests themselves; not every test uses every helper.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod proxy;

use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// How long a start may take on a busy machine, in seconds.
const PATIENCE: &str = "280";

/// A server.
#[derive(Debug, Clone)]
pub struct Airflow {
    /// 3 or 2.
    pub version: u8,
    /// Where it listens, with its path prefix.
    pub url: String,
    /// The folder that `services/airflow.sh` speaks of.
    pub dir: PathBuf,
}

/// The Airflow 3 that all tests share.
pub fn three() -> &'static Airflow {
    static THREE: OnceLock<Airflow> = OnceLock::new();
    THREE.get_or_init(|| shared(3))
}

/// The Airflow 2 that all tests share.
pub fn two() -> &'static Airflow {
    static TWO: OnceLock<Airflow> = OnceLock::new();
    TWO.get_or_init(|| shared(2))
}

fn shared(version: u8) -> Airflow {
    let named = |what: &str| {
        let name = format!("BACKFILL_AIRFLOW{version}_{what}");
        std::env::var(name).ok().filter(|v| !v.is_empty())
    };
    match (named("URL"), named("DIR")) {
        (Some(url), Some(dir)) => Airflow {
            version,
            url,
            dir: dir.into(),
        },
        _ => start(version, &format!("shared-{version}"), &[]),
    }
}

/// A server of a test's own. Dropping it ends it.
pub struct Own(Airflow);

impl Own {
    /// With settings of the script, such as `("TOKEN_SECONDS", "20")`. `name` tells it from others of this process.
    pub fn start(version: u8, name: &str, settings: &[(&str, &str)]) -> Self {
        Self(start(version, name, settings))
    }

    /// Stops all of it, or one part: `api`, `scheduler`, `processor`, `triggerer`, `db`.
    pub fn stop(&self, part: Option<&str>) {
        let dir = self.0.dir.to_str().unwrap();
        let arguments = ["down", dir].into_iter().chain(part);
        script(&arguments.collect::<Vec<_>>(), &[]);
    }

    /// Starts what does not run, on the old port and with the old data.
    pub fn start_again(&self) {
        let before = &self.0.url;
        assert_eq!(*before, up(self.0.version, &self.0.dir, &[])["url"]);
    }

    /// Another key that tokens are signed with, from the next start of all parts on.
    pub fn change_key(&self) {
        fs::write(
            self.0.dir.join("secret"),
            format!("{:064x}", rand::random::<u128>()),
        )
        .unwrap();
    }
}

impl std::ops::Deref for Own {
    type Target = Airflow;

    fn deref(&self) -> &Airflow {
        &self.0
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // After a failed test the words of the test matter, not those of the clean-up.
        let _ = Command::new("bash")
            .args([SCRIPT, "down"])
            .arg(&self.0.dir)
            .status();
        let _ = fs::remove_dir_all(&self.0.dir);
    }
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/airflow.sh");

fn start(version: u8, name: &str, settings: &[(&str, &str)]) -> Airflow {
    // Not a temporary folder of Rust's, into which nobody else may look: PostgreSQL has a user of its own.
    let dir = std::env::temp_dir().join(format!("backfill-airflow-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let lines = up(version, &dir, settings);
    Airflow {
        version,
        url: lines["url"].clone(),
        dir,
    }
}

fn up(version: u8, dir: &Path, settings: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owner = std::process::id().to_string();
    let mut settings = settings.to_vec();
    settings.extend([("OWNER", owner.as_str()), ("PATIENCE", PATIENCE)]);
    let said = script(&["up", &version.to_string(), dir.to_str().unwrap()], &settings);
    said.lines()
        .filter_map(|l| l.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

fn script(arguments: &[&str], settings: &[(&str, &str)]) -> String {
    let ended = Command::new("bash")
        .arg(SCRIPT)
        .args(arguments)
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "airflow.sh {arguments:?}: {words}");
    String::from_utf8(ended.stdout).unwrap()
}

/// One task that began, by its own line in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    pub dag: String,
    pub day: String,
    pub task: String,
    pub attempt: u32,
    pub run: String,
}

/// What a server says to a plain request: looked at without a line of the program that is under test.
impl Airflow {
    /// `/api/v2` or `/api/v1`.
    pub const fn api(&self) -> &'static str {
        if self.version == 3 { "/api/v2" } else { "/api/v1" }
    }

    /// The document at a path below the API, as `admin`.
    pub fn get(&self, path: &str) -> Value {
        self.ask("GET", path, None)
    }

    pub fn patch(&self, path: &str, body: Value) -> Value {
        self.ask("PATCH", path, Some(body))
    }

    pub fn post(&self, path: &str, body: Value) -> Value {
        self.ask("POST", path, Some(body))
    }

    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, document) = self.answer(method, path, body);
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {document}"
        );
        document
    }

    /// The status and the document of an answer, whatever it is.
    pub fn answer(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let (base, url) = (self.url.clone(), format!("{}{}{path}", self.url, self.api()));
        let (method, version) = (method.parse::<reqwest::Method>().unwrap(), self.version);
        on_its_own(async move {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let mut request = client.request(method, url);
            if version == 3 {
                let who = json!({"username": "admin", "password": "admin"});
                let answer = client.post(format!("{base}/auth/token")).json(&who);
                let token: Value = answer.send().await.unwrap().json().await.unwrap();
                request = request.bearer_auth(token["access_token"].as_str().unwrap());
            } else {
                request = request.basic_auth("admin", Some("admin"));
            }
            if let Some(body) = body {
                request = request.json(&body);
            }
            let answer = request.send().await.unwrap();
            let status = answer.status().as_u16();
            (status, answer.json().await.unwrap_or(Value::Null))
        })
    }

    /// Has one task run: with its first one a server answers nobody for some seconds, on a busy machine for a minute.
    /// One after the other: two who clear the same run at once are answered with an error.
    pub fn warm_up(&self) {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = "/dags/ondemand/dagRuns/warm-up";
        if self.answer("GET", path, None).0 == 404 {
            let ends = "2024-12-31T00:00:00Z";
            self.post(
                "/dags/ondemand/dagRuns",
                json!({"dag_run_id": "warm-up", "logical_date": ends, "data_interval_start": ends,
                       "data_interval_end": ends}),
            );
        } else {
            self.post(&format!("{path}/clear"), json!({"dry_run": false}));
        }
        let begun = Instant::now();
        loop {
            let run = self.get(path);
            match run["state"].as_str().unwrap() {
                "success" => return,
                // Not even its own task waited that long.
                "failed" => drop(self.post(&format!("{path}/clear"), json!({"dry_run": false}))),
                _ => assert!(begun.elapsed() < Duration::from_secs(240), "{run}"),
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// A token that this server (3.x) takes from now on, as long as its tokens live.
    pub fn token(&self, who: Value) -> String {
        let url = format!("{}/auth/token", self.url);
        let answer: Value = on_its_own(async move {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            client
                .post(url)
                .json(&who)
                .send()
                .await
                .unwrap()
                .json()
                .await
                .unwrap()
        });
        answer["access_token"].as_str().unwrap().to_owned()
    }

    /// All rows of a list, `field` of the document at a path, page by page.
    pub fn rows(&self, path: &str, field: &str) -> Vec<Value> {
        let mut rows: Vec<Value> = Vec::new();
        let joint = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self.get(&format!("{path}{joint}limit=100&offset={}", rows.len()));
            let found = page[field].as_array().unwrap();
            rows.extend(found.iter().cloned());
            if found.is_empty() || rows.len() as u64 >= page["total_entries"].as_u64().unwrap() {
                return rows;
            }
        }
    }

    /// The runs of a DAG with a date from the first to the last of these days, both inclusive, at midnight UTC.
    pub fn runs(&self, dag: &str, first: &str, last: &str) -> Vec<Value> {
        let key = if self.version == 3 {
            "logical_date"
        } else {
            "execution_date"
        };
        let path = format!("/dags/{dag}/dagRuns?{key}_gte={first}T00:00:00Z&{key}_lte={last}T00:00:00Z");
        self.rows(&path, "dag_runs")
    }

    /// Deletes those runs and the repairs of those days: also on a server that was used before a test begins anew.
    pub fn forget(&self, dag: &str, first: &str, last: &str) {
        for run in self.runs(dag, first, last) {
            let id = run["dag_run_id"].as_str().unwrap();
            let path = format!("/dags/{dag}/dagRuns/{}", id.replace('+', "%2B"));
            if run["end_date"].is_null() {
                self.patch(&path, json!({"state": "failed"}));
            }
            let (status, words) = self.answer("DELETE", &path, None);
            assert_eq!(status, 204, "{words}");
        }
        for file in fs::read_dir(self.dir.join("repaired")).unwrap().flatten() {
            let day = file.file_name();
            if (first..=last).contains(&day.to_str().unwrap()) {
                fs::remove_file(file.path()).unwrap();
            }
        }
    }

    /// The lines of the audit log about a DAG, oldest first: each with its `event`.
    pub fn audit(&self, dag: &str) -> Vec<Value> {
        // In neither version are other names taken for an order, and ids only grow.
        let mut lines = self.rows(
            &format!("/eventLogs?dag_id={dag}&order_by=event_log_id"),
            "event_logs",
        );
        lines.sort_by_key(|l| l["event_log_id"].as_u64());
        lines
    }

    /// Ends the badness of a day of `events_daily`.
    pub fn repair(&self, day: &str) {
        fs::write(self.dir.join("repaired").join(day), "").unwrap();
    }

    /// All work that ever began here, in order, as the tasks wrote it down themselves.
    pub fn ledger(&self) -> Vec<Work> {
        let text = fs::read_to_string(self.dir.join("ledger")).unwrap_or_default();
        let work = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [dag, day, task, attempt, run] = fields.as_slice() else {
                panic!("{line}");
            };
            Work {
                dag: (*dag).to_owned(),
                day: (*day).to_owned(),
                task: (*task).to_owned(),
                attempt: attempt.parse().unwrap(),
                run: (*run).to_owned(),
            }
        };
        text.lines().map(work).collect()
    }
}

/// Runs on a thread with a runtime of its own: the tests' own may be busy or absent.
fn on_its_own<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        backfill::net::use_ring();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let within = async move { tokio::time::timeout(Duration::from_secs(120), work).await };
        runtime.block_on(within).expect("an answer within two minutes")
    });
    thread.join().unwrap()
}
