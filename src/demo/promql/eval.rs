//! [`Expr`] to [`Value`] over one scrape.

use super::{Aggregation, Expr, Function, Grouping, Labels, Matcher, QueryError, Scrape, Value};
use std::collections::BTreeMap;

type Vector = Vec<(Labels, f64)>;

/// Evaluates a query over the scrape that is visible at its time.
pub(super) fn eval(expr: &Expr, scrape: &Scrape, time: f64) -> Result<Value, QueryError> {
    let wrong = |what: &str| Err(QueryError::Execution(what.to_owned()));
    Ok(match expr {
        Expr::Number(n) => Value::Scalar(*n),
        Expr::Text(text) => Value::Text(text.clone()),
        Expr::Select(matchers) => Value::Vector(select(matchers, scrape)),
        Expr::Call(function, arguments) => call(*function, arguments.first(), scrape, time)?,
        Expr::Aggregate(aggregation, grouping, inner) => match eval(inner, scrape, time)? {
            Value::Vector(vector) => Value::Vector(aggregate(*aggregation, grouping, vector)),
            _ => return wrong("expected type instant vector in aggregation expression"),
        },
        Expr::Binary(sign, left, right) => {
            binary(*sign, eval(left, scrape, time)?, eval(right, scrape, time)?)?
        }
        Expr::Negate(inner) => match eval(inner, scrape, time)? {
            Value::Scalar(n) => Value::Scalar(-n),
            Value::Vector(vector) => Value::Vector(changed(vector, |n| -n)),
            Value::Text(_) => return wrong("unary expression only allowed on scalars and instant vectors"),
        },
    })
}

fn select(matchers: &[Matcher], scrape: &Scrape) -> Vector {
    let fits = |labels: &Labels| {
        matchers
            .iter()
            .all(|m| (labels.get(&m.label).map_or("", String::as_str) == m.value) == m.equal)
    };
    scrape
        .series
        .iter()
        .filter(|(labels, _)| fits(labels))
        .cloned()
        .collect()
}

/// Other values than the metric's own: its name no longer fits.
fn changed(vector: Vector, change: impl Fn(f64) -> f64) -> Vector {
    vector
        .into_iter()
        .map(|(mut labels, value)| {
            labels.remove("__name__");
            (labels, change(value))
        })
        .collect()
}

fn call(
    function: Function,
    argument: Option<&Expr>,
    scrape: &Scrape,
    time: f64,
) -> Result<Value, QueryError> {
    let given = argument.map(|a| eval(a, scrape, time)).transpose()?;
    Ok(match (function, given) {
        (Function::Time, _) => Value::Scalar(time),
        // Only a bare selector has samples with a time of their own; anything computed is as old as the query.
        (Function::Timestamp, Some(Value::Vector(vector))) => {
            let at = if matches!(argument, Some(Expr::Select(_))) {
                scrape.at
            } else {
                time
            };
            Value::Vector(changed(vector, |_| at))
        }
        (Function::Vector, Some(Value::Scalar(n))) => Value::Vector(vec![(Labels::new(), n)]),
        (Function::Scalar, Some(Value::Vector(vector))) => Value::Scalar(match vector.as_slice() {
            [(_, n)] => *n,
            _ => f64::NAN,
        }),
        (Function::Absent, Some(Value::Vector(vector))) => Value::Vector(if vector.is_empty() {
            vec![(labels_asked_for(argument), 1.0)]
        } else {
            Vec::new()
        }),
        _ => return Err(QueryError::Execution("wrong type of argument in call".to_owned())),
    })
}

/// The labels that a selector asks for by equality.
fn labels_asked_for(expr: Option<&Expr>) -> Labels {
    let Some(Expr::Select(matchers)) = expr else {
        return Labels::new();
    };
    matchers
        .iter()
        .filter(|m| m.equal && m.label != "__name__" && !m.value.is_empty())
        .map(|m| (m.label.clone(), m.value.clone()))
        .collect()
}

fn aggregate(aggregation: Aggregation, grouping: &Grouping, vector: Vector) -> Vector {
    let mut groups: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
    for (mut labels, value) in vector {
        match grouping {
            Grouping::By(kept) => labels.retain(|label, _| kept.contains(label)),
            Grouping::Without(dropped) => {
                labels.retain(|label, _| label != "__name__" && !dropped.contains(label));
            }
        }
        groups.entry(labels).or_default().push(value);
    }
    groups
        .into_iter()
        .map(|(labels, values)| (labels, combine(aggregation, &values)))
        .collect()
}

/// One number of many. NaN goes through a sum and is passed over by the extremes.
fn combine(aggregation: Aggregation, values: &[f64]) -> f64 {
    let sum = values.iter().sum::<f64>();
    let count = values.len() as f64;
    match aggregation {
        Aggregation::Sum => sum,
        Aggregation::Avg => sum / count,
        Aggregation::Count => count,
        Aggregation::Min => values.iter().copied().fold(f64::NAN, f64::min),
        Aggregation::Max => values.iter().copied().fold(f64::NAN, f64::max),
    }
}

fn binary(sign: char, left: Value, right: Value) -> Result<Value, QueryError> {
    let apply = move |a: f64, b: f64| match sign {
        '+' => a + b,
        '-' => a - b,
        '*' => a * b,
        _ => a / b,
    };
    Ok(match (left, right) {
        (Value::Scalar(a), Value::Scalar(b)) => Value::Scalar(apply(a, b)),
        (Value::Vector(a), Value::Scalar(b)) => Value::Vector(changed(a, |a| apply(a, b))),
        (Value::Scalar(a), Value::Vector(b)) => Value::Vector(changed(b, |b| apply(a, b))),
        (Value::Vector(a), Value::Vector(b)) => Value::Vector(pairs(a, b, apply)?),
        _ => {
            let what = "binary expression must contain only scalar and instant vector types";
            return Err(QueryError::Execution(what.to_owned()));
        }
    })
}

/// Series of both sides that have the same labels, names aside.
fn pairs(left: Vector, right: Vector, apply: impl Fn(f64, f64) -> f64) -> Result<Vector, QueryError> {
    let mut others: BTreeMap<Labels, f64> = BTreeMap::new();
    for (labels, value) in changed(right, |n| n) {
        if others.insert(labels, value).is_some() {
            let what = "found duplicate series on the right hand-side of the operation; \
                        many-to-many matching not allowed: matching labels must be unique on one side";
            return Err(QueryError::Execution(what.to_owned()));
        }
    }
    let left = changed(left, |n| n);
    Ok(left
        .into_iter()
        .filter_map(|(labels, a)| others.get(&labels).map(|b| (labels, apply(a, *b))))
        .collect())
}
