//! The other side's own words: found in whatever it answered, and freed of our secrets.

use serde_json::Value;

/// Shorter secrets are not looked for: replacing every `a` hides nothing and garbles everything.
const SHORTEST: usize = 4;

/// Replaces secrets in text that comes from outside. Servers and proxies like to repeat what they were sent.
#[derive(Clone, Default)]
pub(super) struct Redactor(Vec<String>);

impl Redactor {
    pub(super) fn add(&mut self, secret: &str) {
        if secret.len() >= SHORTEST && !self.0.iter().any(|s| s == secret) {
            self.0.push(secret.to_owned());
            // The longest first, so that no part of a longer one stays.
            self.0.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
    }

    pub(super) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            text.replace(secret.as_str(), "***")
        })
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} secrets)", self.0.len())
    }
}

/// What an answer says about itself: the error of a JSON document, the title of an HTML page, the first line of a
/// text. Neither cleaned nor redacted yet.
pub(super) fn words_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim();
    if let Ok(json) = serde_json::from_str::<Value>(text) {
        return words_of_json(&json);
    }
    if text.starts_with('<') {
        return words_of_html(text);
    }
    text.lines().next().unwrap_or("").trim().to_owned()
}

fn words_of_json(json: &Value) -> String {
    match json {
        Value::String(words) => words.clone(),
        Value::Object(map) => {
            let text = |key: &str| match map.get(key) {
                Some(Value::String(s)) if !s.is_empty() => Some(s.clone()),
                Some(nested @ Value::Object(_)) => Some(words_of_json(nested)).filter(|w| !w.is_empty()),
                _ => None,
            };
            let kind = text("errorType").or_else(|| text("title"));
            let words = ["error", "detail", "message", "error_description", "reason"]
                .into_iter()
                .find_map(text);
            match (kind, words) {
                (Some(kind), Some(words)) => format!("{kind}: {words}"),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => String::new(),
            }
        }
        _ => String::new(),
    }
}

fn words_of_html(text: &str) -> String {
    // ASCII lower-casing keeps every byte position.
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| {
        let from = at + lower.get(at..)?.find('>')? + 1;
        let to = from + lower.get(from..)?.find("</title")?;
        text.get(from..to)
    });
    match title.map(str::trim) {
        Some(title) if !title.is_empty() => format!("an HTML page titled {title:?}"),
        _ => "an HTML page".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_found_in_json_html_and_text() {
        for (body, words) in [
            (
                r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#,
                "bad_data: parse error",
            ),
            (
                r#"{"title":"Not Found","detail":"no DAG","status":404}"#,
                "Not Found: no DAG",
            ),
            (r#"{"error":{"code":42,"message":"nope"}}"#, "nope"),
            (r#""a bare string""#, "a bare string"),
            (r#"[1,2]"#, ""),
            (
                "<!DOCTYPE html>\n<HTML><head><TITLE lang=en>Sign in</TITLE>",
                "an HTML page titled \"Sign in\"",
            ),
            ("<html><body>x", "an HTML page"),
            ("\n404 page not found\nmore\n", "404 page not found"),
            ("", ""),
        ] {
            assert_eq!(words_of(body.as_bytes()), words);
        }
    }

    #[test]
    fn a_secret_that_the_server_repeats_is_replaced_also_within_a_longer_one() {
        let mut redactor = Redactor::default();
        for secret in ["hunter2", "hunter2-and-more", "a"] {
            redactor.add(secret);
        }
        assert_eq!(
            redactor.redact("bad token hunter2-and-more, bad password hunter2"),
            "bad token ***, bad password ***"
        );
        assert!(!format!("{redactor:?}").contains("hunter2"));
    }
}
