//! Finds the series that a PromQL query reads, to ask for the times of their samples.
//!
//! The evaluation time is all that an instant vector tells, and `timestamp()` of an aggregation or of any other
//! computed vector is the evaluation time again. Only `timestamp(SELECTOR)` is the time of the samples. So the
//! selectors are taken out of the query and the *oldest* of their samples is asked for: a sum is as old as its oldest
//! part. This is a tokenizer, no parser; what it does not understand ends as a query that the server refuses, which is
//! *no sample*, never a wrong age. `age_query` overrides all of it.

/// More series than this in one query: say by `age_query` which of them counts.
const MOST: usize = 8;

/// Why no age query can be derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAgeQuery {
    /// `vector(1)`, `time()`: nothing measured.
    #[error("the query reads no series, so its age cannot be known; set age_query")]
    NoSeries,
    /// Too many to ask for all.
    #[error("the query reads more than {MOST} different series, so its age needs an age_query")]
    TooMany,
    /// A string or a brace without its end.
    #[error("the query ends inside a string or a pair of braces")]
    Unfinished,
}

/// The query whose result is the Unix time of the oldest sample that `query` reads.
///
/// # Errors
/// When the query reads no series, too many, or is cut off.
pub fn age_query(query: &str) -> Result<String, NoAgeQuery> {
    let selectors = selectors(query)?;
    match selectors.as_slice() {
        [] => Err(NoAgeQuery::NoSeries),
        [one] => Ok(format!("min(timestamp({one}))")),
        many if many.len() <= MOST => {
            // Without a label of its own each part would hide the others that have the same labels.
            let part = |(n, s): (usize, &String)| {
                format!("label_replace(timestamp({s}), \"backfill_part\", \"{n}\", \"\", \"\")")
            };
            let parts: Vec<String> = many.iter().enumerate().map(part).collect();
            Ok(format!("min({})", parts.join(" or ")))
        }
        _ => Err(NoAgeQuery::TooMany),
    }
}

/// The different vector selectors of a query, each with its `offset` and `@`, without its range.
fn selectors(query: &str) -> Result<Vec<String>, NoAgeQuery> {
    let tokens = tokens(query)?;
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (selector, next) = step(&tokens, at);
        at = next;
        if let Some(selector) = selector
            && !found.contains(&selector)
        {
            found.push(selector);
        }
    }
    Ok(found)
}

/// Looks at one token: a selector that begins there, if one does, and where to go on.
fn step(tokens: &[Token], at: usize) -> (Option<String>, usize) {
    let here = |n: usize| tokens.get(n);
    let opens = |n: usize| here(n).is_some_and(|t| t.is("("));
    let Some(token) = here(at) else {
        return (None, at + 1);
    };
    match token {
        Token::Braces(_) => selector_at(tokens, at, String::new()),
        Token::Word(word) => {
            let lower = word.to_ascii_lowercase();
            if LABEL_LISTS.contains(&lower.as_str()) {
                // `by (a, b)`, `group_left (c)`: names of labels, not of metrics.
                let next = if opens(at + 1) {
                    after_parenthesis(tokens, at + 1)
                } else {
                    at + 1
                };
                return (None, next);
            }
            let aggregation = here(at + 1).is_some_and(|t| t.is_word(&["by", "without"]));
            if opens(at + 1) || aggregation || KEYWORDS.contains(&lower.as_str()) {
                return (None, at + 1);
            }
            selector_at(tokens, at + 1, word.clone())
        }
        _ => (None, at + 1),
    }
}

const LABEL_LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const KEYWORDS: [&str; 9] = [
    "and", "or", "unless", "atan2", "bool", "offset", "inf", "nan", "default",
];

/// Completes a selector whose name, if it has one, is read: braces, a range that is dropped, `offset` and `@`.
fn selector_at(tokens: &[Token], mut at: usize, mut selector: String) -> (Option<String>, usize) {
    if let Some(Token::Braces(inside)) = tokens.get(at) {
        selector.push_str(inside);
        at += 1;
    }
    if let Some(Token::Brackets(_)) = tokens.get(at) {
        at += 1;
    }
    loop {
        match (tokens.get(at), tokens.get(at + 1), tokens.get(at + 2)) {
            (Some(word), Some(Token::Number(by)), _) if word.is_word(&["offset"]) => {
                selector.push_str(&format!(" offset {by}"));
                at += 2;
            }
            (Some(word), Some(sign), Some(Token::Number(by)))
                if word.is_word(&["offset"]) && sign.is("-") =>
            {
                selector.push_str(&format!(" offset -{by}"));
                at += 3;
            }
            (Some(sign), Some(Token::Number(time)), _) if sign.is("@") => {
                selector.push_str(&format!(" @ {time}"));
                at += 2;
            }
            (Some(sign), Some(Token::Word(edge)), _) if sign.is("@") => {
                selector.push_str(&format!(" @ {edge}()"));
                at = after_parenthesis(tokens, at + 2);
            }
            _ => return (Some(selector), at),
        }
    }
}

/// Behind the parenthesis that closes the one at `at`.
fn after_parenthesis(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0usize;
    for (n, token) in tokens.iter().enumerate().skip(at) {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            return n + 1;
        }
    }
    tokens.len()
}

#[derive(Debug, PartialEq)]
enum Token {
    /// A name or a keyword.
    Word(String),
    /// A number or a duration.
    Number(String),
    /// `{..}` as written.
    Braces(String),
    /// `[..]` as written.
    Brackets(String),
    /// A string literal.
    Text,
    /// One character of anything else.
    Sign(char),
}

impl Token {
    fn is(&self, sign: &str) -> bool {
        matches!(self, Self::Sign(c) if sign.starts_with(*c))
    }

    fn is_word(&self, words: &[&str]) -> bool {
        matches!(self, Self::Word(w) if words.iter().any(|k| w.eq_ignore_ascii_case(k)))
    }
}

fn tokens(query: &str) -> Result<Vec<Token>, NoAgeQuery> {
    let mut found = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' | '`' => (
                Some(Token::Text),
                string_length(rest).ok_or(NoAgeQuery::Unfinished)?,
            ),
            '{' | '[' => {
                let length = bracket_length(rest).ok_or(NoAgeQuery::Unfinished)?;
                let inside = rest.get(..length).unwrap_or("").to_owned();
                let token = if first == '{' {
                    Token::Braces(inside)
                } else {
                    Token::Brackets(inside)
                };
                (Some(token), length)
            }
            c if c.is_ascii_digit() || c == '.' => {
                let length = run(rest, |c| c.is_ascii_alphanumeric() || c == '.');
                (
                    Some(Token::Number(rest.get(..length).unwrap_or("").to_owned())),
                    length,
                )
            }
            c if is_name(c) => {
                let length = run(rest, |c| is_name(c) || c.is_ascii_digit());
                (
                    Some(Token::Word(rest.get(..length).unwrap_or("").to_owned())),
                    length,
                )
            }
            c => (Some(Token::Sign(c)), c.len_utf8()),
        };
        found.extend(token);
        rest = rest.get(length..).unwrap_or("").trim_start();
    }
    Ok(found)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == ':'
}

/// How many bytes from the start satisfy `belongs`.
fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// The length of the string literal at the start. Between back quotes nothing is escaped.
fn string_length(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' && quote != '`' {
            escaped = true;
        } else if c == quote {
            return Some(at + c.len_utf8());
        }
    }
    None
}

/// The length of the braces or brackets at the start, strings inside them respected.
fn bracket_length(text: &str) -> Option<usize> {
    let close = if text.starts_with('{') { '}' } else { ']' };
    let mut at = 1;
    loop {
        let rest = text.get(at..)?;
        match rest.chars().next()? {
            c if c == close => return Some(at + 1),
            '"' | '\'' | '`' => at += string_length(rest)?,
            c => at += c.len_utf8(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("x", "x")]
    #[case(
        "sum(kafka_consumergroup_lag{consumergroup=\"orders\"})",
        "kafka_consumergroup_lag{consumergroup=\"orders\"}"
    )]
    #[case("sum by (consumergroup, topic) (lag{g=~\"a|b\"} >= 0)", "lag{g=~\"a|b\"}")]
    #[case("sum(lag{g=\"a}b(c\"}) without (topic)", "lag{g=\"a}b(c\"}")]
    #[case(
        "max_over_time(lag{g='it\\'s'}[10m:30s] offset 1h)",
        "lag{g='it\\'s'} offset 1h"
    )]
    #[case("-deriv(job:lag:sum[5m])", "job:lag:sum")]
    #[case("lag offset -5m", "lag offset -5m")]
    #[case("lag @ 1700000000.5 offset 5m", "lag @ 1700000000.5 offset 5m")]
    #[case("sum(lag @ end())", "lag @ end()")]
    #[case("{__name__=\"odd.name\", g=\"x\"}", "{__name__=\"odd.name\", g=\"x\"}")]
    #[case("SUM(lag) # by (topic) other\n", "lag")]
    #[case("sum(lag) or vector(0)", "lag")]
    #[case("quantile(0.9, lag)", "lag")]
    #[case("clamp_min(lag, 1e9) + 5 * Inf", "lag")]
    #[case("label_replace(lag, \"a\", \"metric_x\", \"b\", \"(.*)\")", "lag")]
    #[case("sum(lag) / count(lag)", "lag")]
    #[case("lag{g=\"ü{\"} > bool 5", "lag{g=\"ü{\"}")]
    fn the_one_series_is_found(#[case] query: &str, #[case] selector: &str) {
        assert_eq!(age_query(query).unwrap(), format!("min(timestamp({selector}))"));
    }

    #[rstest]
    #[case("a - b", &["a", "b"])]
    #[case("sum(end{t=\"x\"}) - on (topic) group_left (owner) sum(done)", &["end{t=\"x\"}", "done"])]
    #[case("a * on(x) group_left b", &["a", "b"])]
    #[case("a unless ignoring (x, y) b[5m]", &["a", "b"])]
    fn every_series_is_found(#[case] query: &str, #[case] expected: &[&str]) {
        assert_eq!(selectors(query).unwrap(), expected);
        let age = age_query(query).unwrap();
        assert!(
            age.contains("\"backfill_part\", \"1\"") && age.contains(" or "),
            "{age}"
        );
    }

    #[rstest]
    #[case("vector(0)", NoAgeQuery::NoSeries)]
    #[case("time() - 5", NoAgeQuery::NoSeries)]
    #[case("\"text\"", NoAgeQuery::NoSeries)]
    #[case("", NoAgeQuery::NoSeries)]
    #[case("sum(lag{g=\"x)", NoAgeQuery::Unfinished)]
    #[case("a+b+c+d+e+f+g+h+i", NoAgeQuery::TooMany)]
    fn without_series_there_is_no_age(#[case] query: &str, #[case] why: NoAgeQuery) {
        assert_eq!(age_query(query), Err(why));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(28),
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_text_makes_the_tokenizer_fail(text in "[-a-z(){}\\[\\]\"'`#@ ü\\\\,.0-9\n]{0,60}") {
            let _ = age_query(&text);
        }
    }
}
