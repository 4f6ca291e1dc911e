//! Making text from outside safe to show. Logs, errors and names of other systems are hostile.

use sha2::{Digest, Sha256};

/// Replaces every control character (escape sequences included) and every character that changes the direction or
/// hides text by a visible picture, so that what is drawn is text and nothing else. `\t` becomes four spaces.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if (c as u32) < 0x20 => {
                out.push('^');
                out.push(char::from(b'@' + c as u8));
            }
            '\u{7f}' => out.push_str("^?"),
            '\u{80}'..='\u{9f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => {
                out.push_str(&format!("<{:04X}>", c as u32));
            }
            c => out.push(c),
        }
    }
    out
}

/// The first line of a text, cleaned and cut to `max` characters.
pub fn one_line(text: &str, max: usize) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("").trim();
    clean(line).chars().take(max).collect()
}

/// Characters that a shortened name keeps of its end.
const END: usize = 20;

/// A name, cleaned, of at most `max` characters (60 or more). A longer one keeps its beginning and its end; between
/// them stands a mark of the whole name, so that two long names never become one. The same name is always shortened to
/// the same.
pub fn short_name(name: &str, max: usize) -> String {
    let whole = clean(name.trim());
    let length = whole.chars().count();
    if length <= max {
        return whole;
    }
    let digest = Sha256::digest(name.trim().as_bytes());
    let mark: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let mark = format!("…{mark}…");
    let begin = max.saturating_sub(mark.chars().count() + END);
    let end = whole.chars().skip(length - END.min(length));
    whole.chars().take(begin).chain(mark.chars()).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_text() {
        assert_eq!(
            clean("\u{1b}[2J\u{9b}31m\u{202e}x\r\n"),
            "^[[2J<009B>31m<202E>x^M^J"
        );
    }

    #[test]
    fn one_line_takes_the_first_line_that_says_something() {
        assert_eq!(one_line("\n  \n  boom \u{7}\nmore", 4), "boom");
        assert_eq!(one_line("", 10), "");
    }

    #[test]
    fn long_names_stay_apart_wherever_they_differ_and_are_always_shortened_to_the_same() {
        let same = "x".repeat(300);
        let names = [
            format!("{same}1"),
            format!("{same}2"),
            format!("{same}\u{1b}{same}"),
            format!("{same}^[{same}"),
            format!("1{same}"),
        ];
        let short: Vec<String> = names.iter().map(|n| short_name(n, 120)).collect();
        for (i, one) in short.iter().enumerate() {
            assert_eq!(one.chars().count(), 120, "{one}");
            assert_eq!(*one, clean(one));
            assert!(!short[..i].contains(one), "{one}");
            // As short as it is, it is not shortened again.
            assert_eq!(short_name(one, 200), *one);
        }
        let begin = "x".repeat(90);
        assert_eq!(short[0], format!("{begin}…8ab7b905…{}1", "x".repeat(19)));
        assert_eq!(short_name(" orders/\u{7}\n", 120), "orders/^G");
        assert_eq!(short_name(&"ä".repeat(120), 120), "ä".repeat(120));
    }
}
