//! A workspace whose backfills run on an Airflow.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{Workspace, folder};
use std::{collections::BTreeMap, fs};

/// One executor named `airflow` and one backfill named `events` of whole days in UTC.
pub struct Drive {
    /// Where the server, or what stands before it, listens.
    pub url: String,
    pub dag: &'static str,
    /// First and last day.
    pub days: (&'static str, &'static str),
    pub max_limit: u32,
    /// Time between two looks at the runs.
    pub interval: &'static str,
    /// More lines of `[executors.airflow]`.
    pub executor: String,
    /// More lines of `[backfills.events]`.
    pub order: String,
    /// More tables.
    pub more: String,
    pub tuning: BTreeMap<&'static str, String>,
}

impl Drive {
    /// `events_daily` on a server, eight at a time, looked at every second, with no budget that could bind.
    pub fn new(url: &str, days: (&'static str, &'static str)) -> Self {
        let tuning = [
            ("tick", "50ms"),
            ("retry_base", "50ms"),
            ("retry_cap", "200ms"),
            ("retry_cap_platform", "200ms"),
            ("disk_low", "0B"),
        ];
        Self {
            url: url.to_owned(),
            dag: "events_daily",
            days,
            max_limit: 8,
            interval: "1s",
            executor: "request_budget = 6000\n".to_owned(),
            order: String::new(),
            more: String::new(),
            tuning: tuning.map(|(k, v)| (k, v.to_owned())).into(),
        }
    }

    pub fn text(&self) -> String {
        let tuning: String = self
            .tuning
            .iter()
            .map(|(k, v)| format!("{k} = \"{v}\"\n"))
            .collect();
        format!(
            "[executors.airflow]\nkind = \"airflow\"\nurl = \"{}\"\n\
             auth = {{ user = \"admin\", password = {{ file = \"password\" }} }}\nenvironment = \"test\"\n\
             interval = \"{}\"\n{}\n\
             [backfills.events]\ntarget = \"events\"\nstart = {}\nend = {}\ngranularity = \"day\"\ntimezone = \"UTC\"\n\
             executor = \"airflow\"\ndag = \"{}\"\nmax_limit = {}\n{}\n{}\n\
             [journal]\npath = \"state/journal.db\"\n\n[tuning]\n{tuning}",
            self.url,
            self.interval,
            self.executor,
            self.days.0,
            self.days.1,
            self.dag,
            self.max_limit,
            self.order,
            self.more
        )
    }

    pub fn open(&self) -> Workspace {
        let text = self.text();
        let workspace = Workspace {
            dir: folder(),
            text: text.clone(),
        };
        fs::write(workspace.path("password"), "admin").unwrap();
        workspace.write_config(&text);
        workspace
    }
}
