//! A look at a server before anything is sent to it, for `check`.

use super::{
    Connection,
    error::{CallError, Kind},
    executor::AirflowSetup,
    health,
};
use crate::{domain::text, net::AdapterError};

/// The most broken files that are named.
const MOST_ERRORS: usize = 3;

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// Its version.
    pub version: String,
    /// What is wrong with its parts; `None` if they are well.
    pub unwell: Option<String>,
    /// Files with DAGs that it cannot read: name and reason. `None` if that may not be asked.
    pub import_errors: Option<Vec<String>>,
    /// The DAGs that were asked about, in that order.
    pub dags: Vec<DagFinding>,
}

/// What is said of a DAG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DagFinding {
    /// Its id.
    pub id: String,
    /// `Ok`: how it is; else why no run of it would run.
    pub found: Result<String, String>,
}

/// Asks a server for its version, its health and these DAGs.
///
/// # Errors
/// It cannot be asked, or the credentials are refused.
pub async fn survey(setup: AirflowSetup) -> Result<Survey, AdapterError> {
    let server = Connection::new(setup.connection)?;
    let version = server.version().await?.text;
    let unwell = health::of_server(&server.health().await?);
    let mut dags = Vec::new();
    for id in &setup.dags {
        dags.push(dag(&server, id).await?);
    }
    let import_errors = match server.import_errors().await {
        Ok(listing) => {
            let words = |e: &super::wire::ImportError| {
                let file = text::one_line(e.filename.as_deref().unwrap_or("?"), 120);
                format!("{file}: {}", text::one_line(e.reason(), 160))
            };
            Some(listing.rows.iter().take(MOST_ERRORS).map(words).collect())
        }
        Err(e) if matches!(e.kind, Kind::Forbidden | Kind::Absent) => None,
        Err(e) => return Err(e.into()),
    };
    Ok(Survey {
        version,
        unwell,
        import_errors,
        dags,
    })
}

async fn dag(server: &Connection, id: &str) -> Result<DagFinding, CallError> {
    let found = match server.dag_details(id).await {
        Ok(details) => match health::of_dag(&details.dag) {
            Some(why) => Err(why),
            None => {
                let start = details.start_date.map_or(String::new(), |s| {
                    format!(
                        ", starts {}: days before that are not run",
                        s.format("%Y-%m-%d %H:%MZ")
                    )
                });
                let schedule = details.dag.schedule.as_deref().unwrap_or("no schedule");
                Ok(format!("there, {}{start}", text::one_line(schedule, 60)))
            }
        },
        Err(e) if e.kind == Kind::Absent => Err("the server has no such DAG".to_owned()),
        Err(e) if e.kind == Kind::Forbidden => Err("these credentials may not read it".to_owned()),
        Err(e) => return Err(e),
    };
    Ok(DagFinding {
        id: id.to_owned(),
        found,
    })
}
