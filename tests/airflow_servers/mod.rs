//! Real Airflows, of both versions. `services/airflow.sh` starts them.
//!
//! Two servers are shared by all tests: those that `BACKFILL_AIRFLOW3_URL` and `.._DIR` (and the same with 2) name,
//! else one of each that this process starts and that ends with it.

// Helpers of tests may fail loudly like tests themselves; not every test uses every helper.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{path::PathBuf, process::Command, sync::OnceLock};

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
    if let (Some(url), Some(dir)) = (named("URL"), named("DIR")) {
        let dir = dir.into();
        return Airflow { version, url, dir };
    }
    let dir = std::env::temp_dir().join(format!("backfill-airflow-{}-{version}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/airflow.sh");
    let started = Command::new("bash")
        .args([script, "up", &version.to_string(), dir.to_str().unwrap()])
        .env("OWNER", std::process::id().to_string())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(started.status.success(), "no Airflow {version}: {words}");
    let said = String::from_utf8(started.stdout).unwrap();
    let url = said
        .lines()
        .find_map(|l| l.strip_prefix("url="))
        .unwrap()
        .to_owned();
    Airflow { version, url, dir }
}
