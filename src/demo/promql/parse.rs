//! Text to [`Expr`]. Positions in errors count characters from 1, as Prometheus does.

use super::{Aggregation, Expr, Function, Grouping, Matcher, QueryError};

/// How deeply a query may be nested.
const DEPTH: usize = 50;
/// How long a query may be.
const LENGTH: usize = 10_000;

/// Reads a query.
///
/// # Errors
/// It is not PromQL, or uses what this endpoint does not have.
pub fn parse(query: &str) -> Result<Expr, QueryError> {
    let chars: Vec<char> = query.chars().take(LENGTH + 1).collect();
    let mut reader = Reader {
        chars,
        at: 0,
        depth: 0,
    };
    if reader.chars.len() > LENGTH {
        return Err(reader.wrong("the query is too long"));
    }
    if reader.peek().is_none() {
        return Err(reader.wrong("no expression found in input"));
    }
    let expr = reader.sum()?;
    match reader.peek() {
        None => Ok(expr),
        Some('[') => Err(not_here("range selectors")),
        Some(c) => Err(reader.wrong(&format!("unexpected character: {c:?}"))),
    }
}

fn not_here(what: &str) -> QueryError {
    QueryError::Execution(format!("{what} are not evaluated by the demo's endpoint"))
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn wrong(&self, what: &str) -> QueryError {
        QueryError::Parse {
            at: self.at + 1,
            what: what.to_owned(),
        }
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, c: char) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, c: char, otherwise: &str) -> Result<(), QueryError> {
        if self.take(c) {
            Ok(())
        } else {
            Err(self.wrong(otherwise))
        }
    }

    fn sum(&mut self) -> Result<Expr, QueryError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.wrong("the expression is nested too deeply"));
        }
        let expr = self.left_to_right(&['+', '-'], |r| r.left_to_right(&['*', '/'], Self::signed))?;
        self.depth -= 1;
        Ok(expr)
    }

    fn left_to_right(
        &mut self,
        signs: &[char],
        part: impl Fn(&mut Self) -> Result<Expr, QueryError>,
    ) -> Result<Expr, QueryError> {
        let mut left = part(self)?;
        while let Some(sign) = self.peek().filter(|c| signs.contains(c)) {
            self.at += 1;
            left = Expr::Binary(sign, Box::new(left), Box::new(part(self)?));
        }
        match self.peek() {
            Some('>' | '<' | '=' | '!' | '%' | '^') => Err(not_here("comparisons and powers")),
            _ => Ok(left),
        }
    }

    fn signed(&mut self) -> Result<Expr, QueryError> {
        let mut negative = false;
        while let Some(sign) = self.peek().filter(|c| matches!(c, '+' | '-')) {
            self.at += 1;
            negative ^= sign == '-';
        }
        let expr = self.single()?;
        Ok(if negative {
            Expr::Negate(Box::new(expr))
        } else {
            expr
        })
    }

    fn single(&mut self) -> Result<Expr, QueryError> {
        match self.peek() {
            None => Err(self.wrong("unexpected end of input")),
            Some('(') => {
                self.at += 1;
                let inner = self.sum()?;
                self.expect(')', "unclosed left parenthesis")?;
                Ok(inner)
            }
            Some('{') => self.select(None),
            Some('"' | '\'') => self.text().map(Expr::Text),
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if is_word(c) => self.named(),
            Some(c) => Err(self.wrong(&format!("unexpected character: {c:?}"))),
        }
    }

    fn word(&mut self) -> String {
        self.peek();
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let word: String = rest.iter().take_while(|c| is_word(**c)).collect();
        self.at += word.chars().count();
        word
    }

    fn number(&mut self) -> Result<Expr, QueryError> {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let text: String = rest
            .iter()
            .take_while(|c| c.is_ascii_alphanumeric() || **c == '.')
            .collect();
        let number = text
            .parse()
            .map_err(|_| self.wrong(&format!("bad number: {text:?}")))?;
        self.at += text.chars().count();
        Ok(Expr::Number(number))
    }

    fn text(&mut self) -> Result<String, QueryError> {
        let Some(quote @ ('"' | '\'')) = self.peek() else {
            return Err(self.wrong("expected a quoted text"));
        };
        let mut text = String::new();
        let mut i = self.at + 1;
        loop {
            match self.chars.get(i) {
                None => return Err(self.wrong("unterminated quoted string")),
                Some(c) if *c == quote => break,
                Some('\\') => {
                    i += 1;
                    match self.chars.get(i) {
                        Some(c @ ('\\' | '"' | '\'')) => text.push(*c),
                        _ => return Err(self.wrong("unknown escape sequence")),
                    }
                }
                Some(c) => text.push(*c),
            }
            i += 1;
        }
        self.at = i + 1;
        Ok(text)
    }

    fn named(&mut self) -> Result<Expr, QueryError> {
        let word = self.word();
        if let Some(aggregation) = aggregation(&word)
            && (self.peek() == Some('(') || self.grouping_follows())
        {
            return self.aggregate(aggregation);
        }
        match (self.peek(), word.to_ascii_lowercase().as_str()) {
            (Some('('), _) => self.call(&word),
            (_, "nan") => Ok(Expr::Number(f64::NAN)),
            (_, "inf") => Ok(Expr::Number(f64::INFINITY)),
            _ => self.select(Some(word)),
        }
    }

    fn call(&mut self, name: &str) -> Result<Expr, QueryError> {
        let (function, arguments) = match name {
            "time" => (Function::Time, 0),
            "timestamp" => (Function::Timestamp, 1),
            "vector" => (Function::Vector, 1),
            "scalar" => (Function::Scalar, 1),
            "absent" => (Function::Absent, 1),
            _ => return Err(not_here(&format!("calls of {name}()"))),
        };
        self.expect('(', "expected an argument list")?;
        let mut given = Vec::new();
        while self.peek() != Some(')') {
            given.push(self.sum()?);
            if !self.take(',') {
                break;
            }
        }
        self.expect(')', "unclosed left parenthesis")?;
        if given.len() == arguments {
            Ok(Expr::Call(function, given))
        } else {
            Err(self.wrong(&format!(
                "expected {arguments} argument(s) in call to {name:?}, got {}",
                given.len()
            )))
        }
    }

    /// Whether `by` or `without` comes next.
    fn grouping_follows(&mut self) -> bool {
        let back = self.at;
        let word = self.word();
        self.at = back;
        matches!(word.as_str(), "by" | "without")
    }

    fn grouping(&mut self) -> Result<Option<Grouping>, QueryError> {
        if !self.grouping_follows() {
            return Ok(None);
        }
        let by = self.word() == "by";
        self.expect('(', "expected a list of labels")?;
        let mut labels = Vec::new();
        while self.peek() != Some(')') {
            labels.push(self.label()?);
            if !self.take(',') {
                break;
            }
        }
        self.expect(')', "unclosed left parenthesis")?;
        Ok(Some(if by {
            Grouping::By(labels)
        } else {
            Grouping::Without(labels)
        }))
    }

    fn aggregate(&mut self, aggregation: Aggregation) -> Result<Expr, QueryError> {
        let before = self.grouping()?;
        self.expect('(', "expected an argument list")?;
        let inner = self.sum()?;
        self.expect(')', "unclosed left parenthesis")?;
        // The grouping may stand on either side.
        let grouping = match before {
            Some(grouping) => grouping,
            None => self.grouping()?.unwrap_or(Grouping::By(Vec::new())),
        };
        Ok(Expr::Aggregate(aggregation, grouping, Box::new(inner)))
    }

    fn label(&mut self) -> Result<String, QueryError> {
        let label = self.word();
        if label.is_empty() {
            Err(self.wrong("expected a label"))
        } else {
            Ok(label)
        }
    }

    fn select(&mut self, name: Option<String>) -> Result<Expr, QueryError> {
        let mut matchers: Vec<Matcher> = Vec::new();
        if let Some(value) = name {
            let label = "__name__".to_owned();
            matchers.push(Matcher {
                label,
                equal: true,
                value,
            });
        }
        if self.take('{') {
            while self.peek() != Some('}') {
                matchers.push(self.matcher()?);
                if !self.take(',') {
                    break;
                }
            }
            self.expect('}', "unclosed left brace")?;
        }
        if matchers.iter().all(|m| m.equal == m.value.is_empty()) {
            return Err(self.wrong("vector selector must contain at least one non-empty matcher"));
        }
        if self.peek() == Some('[') {
            return Err(not_here("range selectors"));
        }
        Ok(Expr::Select(matchers))
    }

    fn matcher(&mut self) -> Result<Matcher, QueryError> {
        let label = self.label()?;
        let equal = match self.peek() {
            Some('=') => true,
            Some('!') => false,
            _ => return Err(self.wrong("expected a label matching operator")),
        };
        self.at += 1;
        match (equal, self.chars.get(self.at)) {
            (true, Some('~')) => return Err(not_here("regular expressions")),
            (false, Some('~')) => return Err(not_here("regular expressions")),
            (false, Some('=')) => self.at += 1,
            (false, _) => return Err(self.wrong("expected a label matching operator")),
            (true, _) => {}
        }
        let value = self.text()?;
        Ok(Matcher { label, equal, value })
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

fn aggregation(word: &str) -> Option<Aggregation> {
    Some(match word {
        "sum" => Aggregation::Sum,
        "min" => Aggregation::Min,
        "max" => Aggregation::Max,
        "avg" => Aggregation::Avg,
        "count" => Aggregation::Count,
        _ => return None,
    })
}
