//! Making text from outside safe to show. Logs, errors and names of other systems are hostile.

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
}
