//! The part of PromQL that asks for a lag: selectors, aggregations, `timestamp`, `time`, arithmetic. Answers have
//! the meaning that Prometheus gives them; what this endpoint cannot evaluate is refused, never guessed.

mod eval;
mod parse;

use std::{collections::BTreeMap, collections::VecDeque};

pub use parse::parse;

/// How far back an instant query looks for the newest sample, in seconds.
const LOOKBACK: f64 = 300.0;
/// How many scrapes are kept.
const KEPT: usize = 1200;

/// Labels of a series; its metric's name is the label `__name__`.
pub type Labels = BTreeMap<String, String>;

/// All values at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct Scrape {
    /// Unix time in seconds.
    pub at: f64,
    /// Series and their values.
    pub series: Vec<(Labels, f64)>,
}

/// The newest scrapes, oldest first.
#[derive(Debug, Clone, Default)]
pub struct History(VecDeque<Scrape>);

impl History {
    /// Takes in a scrape that is newer than all before it.
    pub fn push(&mut self, scrape: Scrape) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(scrape);
    }

    /// The newest scrape.
    pub fn newest(&self) -> Option<&Scrape> {
        self.0.back()
    }

    /// The newest scrape at or before an instant, unless it is too old to be seen.
    fn at(&self, time: f64) -> Option<&Scrape> {
        self.0
            .iter()
            .rev()
            .find(|s| s.at <= time)
            .filter(|s| time - s.at < LOOKBACK)
    }

    /// Evaluates a query at an instant, in Unix seconds.
    ///
    /// # Errors
    /// The query cannot be read, or cannot be evaluated here.
    pub fn query(&self, query: &str, time: f64) -> Result<Value, QueryError> {
        let expr = parse(query)?;
        let empty = Scrape {
            at: time,
            series: Vec::new(),
        };
        eval::eval(&expr, self.at(time).unwrap_or(&empty), time)
    }
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// One number without labels.
    Scalar(f64),
    /// A text.
    Text(String),
    /// Series, each with one value.
    Vector(Vec<(Labels, f64)>),
}

/// Why a query has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It is not PromQL.
    #[error("invalid parameter \"query\": 1:{at}: parse error: {what}")]
    Parse {
        /// The character, from 1.
        at: usize,
        /// What is wrong there.
        what: String,
    },
    /// It is, and cannot be evaluated.
    #[error("{0}")]
    Execution(String),
}

/// A query, read.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// `1.5`
    Number(f64),
    /// `"x"`
    Text(String),
    /// `lag{group="orders"}`
    Select(Vec<Matcher>),
    /// `timestamp(..)`
    Call(Function, Vec<Expr>),
    /// `sum by (topic) (..)`
    Aggregate(Aggregation, Grouping, Box<Expr>),
    /// `a - b`
    Binary(char, Box<Expr>, Box<Expr>),
    /// `-a`
    Negate(Box<Expr>),
}

/// A condition on a label; an absent label is an empty text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// The label.
    pub label: String,
    /// `=` rather than `!=`.
    pub equal: bool,
    /// The text.
    pub value: String,
}

/// Functions that this endpoint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The evaluation time.
    Time,
    /// The time of each sample.
    Timestamp,
    /// A vector of one number.
    Vector,
    /// The number of a vector of one.
    Scalar,
    /// 1 when there is nothing.
    Absent,
}

/// Aggregations that this endpoint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    /// Sum.
    Sum,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Mean.
    Avg,
    /// How many.
    Count,
}

/// Which labels an aggregation keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// Only these.
    By(Vec<String>),
    /// All but these.
    Without(Vec<String>),
}

#[cfg(test)]
mod tests;
