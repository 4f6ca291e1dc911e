//! A lag source that is the iterator age of Kinesis streams, from CloudWatch: how old the record is that was read last.
//!
//! All streams are asked for in one signed call. A stream that nobody reads has no datapoint at all, so that a consumer
//! that died makes its metric vanish and not rise: no datapoint is no sample, never zero.
//!
//! **Age.** Datapoints come once a minute and some minutes late. A number is as old as the end of the newest datapoint's
//! period, on CloudWatch's clock.

mod answer;
mod keys;
mod refusal;
mod sign;
mod verdict;

use super::{LagSource, NoSample, Reading, clock::Clock};
use crate::{
    config::{CloudWatchConfig, secret::Secret},
    net::{
        AdapterError, Answer, Cause, Endpoint, EndpointSettings, Request, Surroundings,
        refusal::{Refusal, StillRefused},
    },
};
use answer::{Pages, Status};
use async_trait::async_trait;
use chrono::Utc;
use reqwest::Url;
use serde_json::{Value, json};
use sign::{Keys, Scope, Unsigned, sign};
use std::{collections::BTreeMap, time::Instant};
use verdict::PERIOD;

/// The most bytes of an answer: ten datapoints of five hundred streams are a tenth of it.
const BODY_CAP: usize = 4 * 1024 * 1024;
/// The name under which requests are signed.
const SERVICE: &str = "monitoring";
const TARGET: &str = "GraniteServiceVersion20100801.GetMetricData";
const JSON: &str = "application/x-amz-json-1.0";
/// How far back is looked, in seconds.
const WINDOW: i64 = 600;
/// The most pages of an answer. One is usual.
const PAGES: usize = 5;

/// The source.
#[derive(Debug)]
pub struct CloudWatch {
    endpoint: Endpoint,
    host: String,
    config: CloudWatchConfig,
    /// Each stream, and the id of its results.
    streams: Vec<(String, String)>,
    refusal: Refusal<Keys>,
}

impl CloudWatch {
    /// A source in the environment of this process.
    ///
    /// # Errors
    /// An endpoint or proxy that cannot be used.
    pub fn new(name: &str, config: &CloudWatchConfig) -> Result<Self, AdapterError> {
        Self::within(name, config, Surroundings::from_env())
    }

    /// As [`Self::new`], with proxies and certificates given instead of taken from the environment.
    ///
    /// # Errors
    /// An endpoint or proxy that cannot be used.
    pub fn within(
        name: &str,
        config: &CloudWatchConfig,
        surroundings: Surroundings,
    ) -> Result<Self, AdapterError> {
        let url = config
            .endpoint
            .clone()
            .unwrap_or_else(|| of_region(&config.region));
        let host = host_of(&url);
        let settings = EndpointSettings {
            name: name.to_owned(),
            url,
            auth: None,
            headers: BTreeMap::new(),
            plain_headers: BTreeMap::new(),
            ca_file: config.ca_file.clone(),
            deadline: config.deadline,
            body_cap: BODY_CAP,
            surroundings,
        };
        let streams = config.streams.iter().enumerate();
        Ok(Self {
            endpoint: Endpoint::new(settings)?,
            host,
            config: config.clone(),
            streams: streams
                .map(|(n, stream)| (stream.clone(), format!("s{n}")))
                .collect(),
            refusal: Refusal::default(),
        })
    }

    async fn try_read(&self) -> Result<Reading, AdapterError> {
        let end = Instant::now() + self.endpoint.deadline();
        let keys = self.keys().await?;
        let still = |still: StillRefused| still.into_error("the key is still the refused one");
        self.refusal.may_send(&keys).map_err(still)?;
        let read = self.read_with(&keys, end).await;
        match &read {
            Err(error) if error.cause == Cause::Unauthorized => self.refusal.refused(keys, error.clone()),
            Err(_) => {}
            Ok(_) => self.refusal.accepted(),
        }
        read
    }

    async fn read_with(&self, keys: &Keys, end: Instant) -> Result<Reading, AdapterError> {
        let asked: Vec<String> = self.streams.iter().map(|(_, id)| id.clone()).collect();
        // All pages are asked for with the same times.
        let mut question = self.question(Utc::now().timestamp());
        let mut pages = Pages::default();
        for _ in 0..PAGES {
            let answer = self.ask(question.to_string(), keys, end).await?;
            let next = pages.take(&answer, &asked)?;
            let Some(next) = next else {
                return self.judge(&pages, &answer);
            };
            if let Value::Object(question) = &mut question {
                question.insert("NextToken".to_owned(), Value::String(next));
            }
        }
        Ok(Reading::NoSample {
            health: NoSample::Partial,
            why: format!("the answer has more than {PAGES} pages; ask for fewer streams"),
        })
    }

    fn judge(&self, pages: &Pages, answer: &Answer) -> Result<Reading, AdapterError> {
        for (status, cause) in [
            (Status::Forbidden, Cause::Forbidden),
            (Status::InternalError, Cause::Server),
        ] {
            if let Some(words) = verdict::refused(&self.streams, pages, status) {
                return Err(answer.error(cause, &format!("{status:?} for {words}")));
            }
        }
        Ok(verdict::reading(&self.streams, pages, Clock::of(answer)))
    }

    /// The key, fetched for each read: temporary ones are renewed by whoever made them. Files and programs block.
    async fn keys(&self) -> Result<Keys, AdapterError> {
        let (begun, configured) = (Instant::now(), self.config.keys.clone());
        let fetching = tokio::task::spawn_blocking(move || keys::fetch(configured.as_ref()));
        let fetched = match tokio::time::timeout(self.endpoint.deadline(), fetching).await {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(why)) => Err(why.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        };
        fetched.map_err(|why| {
            let name = self.endpoint.name();
            AdapterError::new(
                name,
                "fetching the access key",
                begun.elapsed(),
                Cause::Local,
                &why,
            )
        })
    }

    async fn ask(&self, body: String, keys: &Keys, end: Instant) -> Result<Answer, AdapterError> {
        let headers = [
            ("content-type", JSON),
            ("host", self.host.as_str()),
            ("x-amz-target", TARGET),
        ];
        let unsigned = Unsigned {
            method: "POST",
            headers: &headers,
            body: &body,
        };
        let scope = Scope {
            region: &self.config.region,
            service: SERVICE,
        };
        let signed = sign(unsigned, keys, scope, Utc::now());
        let request = Request::post("/")
            .header("x-amz-target", TARGET.to_owned())
            .header("x-amz-date", signed.date)
            .secret_header("authorization", signed.authorization)
            .text(JSON, body)
            .within(end.saturating_duration_since(Instant::now()));
        let token =
            |request: Request, token: &Secret| request.secret_header("x-amz-security-token", token.clone());
        let request = keys.token.iter().fold(request, token);
        refusal::into_success(self.endpoint.send(&request).await?)
    }

    /// The body of the call. It looks at whole minutes, the running one included, because periods begin with them.
    fn question(&self, now: i64) -> Value {
        let minute = now - now.rem_euclid(i64::from(PERIOD));
        let queries: Vec<Value> = self
            .streams
            .iter()
            .map(|(stream, id)| self.query(stream, id))
            .collect();
        json!({
            "StartTime": minute - WINDOW,
            "EndTime": minute + i64::from(PERIOD),
            "ScanBy": "TimestampDescending",
            "MetricDataQueries": queries,
        })
    }

    fn query(&self, stream: &str, id: &str) -> Value {
        let mut dimensions = vec![json!({"Name": "StreamName", "Value": stream})];
        let metric = match &self.config.consumer {
            None => "GetRecords.IteratorAgeMilliseconds",
            Some(consumer) => {
                dimensions.push(json!({"Name": "ConsumerName", "Value": consumer}));
                "SubscribeToShardEvent.MillisBehindLatest"
            }
        };
        json!({
            "Id": id,
            "MetricStat": {
                "Metric": {"Namespace": "AWS/Kinesis", "MetricName": metric, "Dimensions": dimensions},
                "Period": PERIOD,
                "Stat": "Maximum",
            },
            "ReturnData": true,
        })
    }
}

#[async_trait]
impl LagSource for CloudWatch {
    async fn read(&self) -> Reading {
        self.try_read().await.unwrap_or_else(Reading::Failed)
    }
}

/// Where a region's CloudWatch is.
fn of_region(region: &str) -> String {
    let domain = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    format!("https://{SERVICE}.{region}.{domain}")
}

/// The `Host` that will be sent, without the port that belongs to the scheme.
fn host_of(url: &str) -> String {
    let Ok(url) = Url::parse(url) else {
        // The endpoint refuses it in words.
        return String::new();
    };
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
