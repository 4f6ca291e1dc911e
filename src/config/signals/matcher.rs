//! Alertmanager's matchers: `name op value`, as its own tools write them.

use std::fmt;

/// How a label's value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`, a regular expression that has to match the whole value.
    Regex,
    /// `!~`
    NotRegex,
}

impl MatchOp {
    /// As it is written.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Regex => "=~",
            Self::NotRegex => "!~",
        }
    }
}

/// One condition on the labels of an alert. A label that an alert does not have counts as an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// The label.
    pub name: String,
    /// The comparison.
    pub op: MatchOp,
    /// What it is compared with, without quotes and escapes.
    pub value: String,
}

impl Matcher {
    /// Reads `alertname=HighConsumerLag` or `consumergroup =~ "orders\\..*"`.
    ///
    /// # Errors
    /// What is wrong with it, and what would help.
    pub fn parse(text: &str) -> Result<Self, (&'static str, &'static str)> {
        let text = text.trim();
        if text.starts_with('{') {
            let help = "write one text for each matcher, without braces";
            return Err(("matchers in braces", help));
        }
        let end = text
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')))
            .unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(("a matcher that does not start with the name of a label", ""));
        }
        let rest = rest.trim_start();
        // The two-letter signs first: `=` is the beginning of one of them.
        let ops = [
            MatchOp::Regex,
            MatchOp::NotRegex,
            MatchOp::NotEqual,
            MatchOp::Equal,
        ];
        let (op, value) = ops
            .into_iter()
            .find_map(|op| Some((op, rest.strip_prefix(op.sign())?)))
            .ok_or(("a matcher without =, !=, =~ or !~ after the label", ""))?;
        Ok(Self {
            name: name.to_owned(),
            op,
            value: value_of(value.trim_start())?,
        })
    }

    /// Whether an alert has to have the label; of a regular expression that is only known if it is an obvious one.
    pub fn wants_label(&self) -> bool {
        let anything = matches!(self.value.as_str(), "" | ".*" | "(.*)" | "^.*$" | ".*?");
        match self.op {
            MatchOp::Equal => !self.value.is_empty(),
            MatchOp::NotEqual => self.value.is_empty(),
            MatchOp::Regex => !anything,
            MatchOp::NotRegex => self.value.is_empty(),
        }
    }

    /// Whether a value fits; `None` where only a regular expression could tell.
    pub fn fits(&self, value: &str) -> Option<bool> {
        match self.op {
            MatchOp::Equal => Some(value == self.value),
            MatchOp::NotEqual => Some(value != self.value),
            MatchOp::Regex | MatchOp::NotRegex => None,
        }
    }
}

/// As it is sent: quoted, so that every value survives.
impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self
            .value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        write!(f, "{}{}\"{value}\"", self.name, self.op.sign())
    }
}

/// Takes quotes and escapes off a value. A backslash before anything but `"`, `\` and `n` stands for itself, so that
/// regular expressions need no second one.
fn value_of(written: &str) -> Result<String, (&'static str, &'static str)> {
    let quoted = written.strip_prefix('"');
    if quoted.is_none() {
        if written.starts_with(['=', '~', '!']) {
            return Err((
                "two signs between label and value",
                "put a value that starts so in quotes",
            ));
        }
        if written.contains(',') {
            let help = "write one text for each matcher; a value with a comma in it has to stand in quotes";
            return Err(("a comma in a value without quotes", help));
        }
    }
    let mut value = String::new();
    let mut rest = quoted.unwrap_or(written).chars();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted.is_some() && rest.as_str().is_empty() => return Ok(value),
            '"' => return Err(("a quote inside of a value", "write it as \\\"")),
            '\\' => match rest.next() {
                Some('n') => value.push('\n'),
                Some(c @ ('"' | '\\')) => value.push(c),
                Some(other) => value.extend(['\\', other]),
                None => value.push('\\'),
            },
            c => value.push(c),
        }
    }
    if quoted.is_some() {
        return Err(("a value whose quotes are not closed", ""));
    }
    Ok(value)
}

#[cfg(test)]
#[path = "matcher_tests.rs"]
mod tests;
