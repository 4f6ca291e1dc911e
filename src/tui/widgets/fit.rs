//! Text measured and cut in columns, never in bytes or characters. The only place of the screen that does so.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many columns a text takes.
pub(crate) fn columns(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// Cuts a text to at most `max` columns. Where something was cut, `mark` stands in the last column.
pub(crate) fn fit(text: &str, max: u16, mark: char) -> Cow<'_, str> {
    if columns(text) <= max {
        return Cow::Borrowed(text);
    }
    if max == 0 {
        return Cow::Borrowed("");
    }
    let room = usize::from(max) - 1;
    let mut used = 0;
    let mut out = String::new();
    for c in text.chars() {
        let width = at_most(c);
        if used + width > room {
            break;
        }
        used += width;
        out.push(c);
    }
    out.push(mark);
    Cow::Owned(out)
}

/// Breaks a text into lines of at most `max` columns, at blanks where there are any.
pub(crate) fn wrap(text: &str, max: u16) -> Vec<String> {
    let max = max.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word = word;
        loop {
            let space = u16::from(!line.is_empty());
            if columns(&line) + space + columns(word) <= max {
                if space == 1 {
                    line.push(' ');
                }
                line.push_str(word);
                break;
            }
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                continue;
            }
            let (head, tail) = split(word, max);
            lines.push(head.to_owned());
            word = tail;
            if word.is_empty() {
                break;
            }
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Cuts a text into pieces of at most `max` columns, every character kept; at least one piece.
pub(crate) fn chop(text: &str, max: u16) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (piece, more) = split(rest, max.max(1));
        pieces.push(piece);
        if more.is_empty() {
            return pieces;
        }
        rest = more;
    }
}

/// The most columns that a character adds to a text. One of them makes the character before it wider, and has no width
/// of its own; all others that act on their neighbours make a text narrower.
fn at_most(c: char) -> usize {
    const AS_EMOJI: char = '\u{fe0f}';
    if c == AS_EMOJI { 1 } else { c.width().unwrap_or(0) }
}

/// The longest start of a text that fits, at least one character, and the rest.
fn split(text: &str, max: u16) -> (&str, &str) {
    let mut used = 0;
    for (i, c) in text.char_indices() {
        used += at_most(c);
        if used > usize::from(max) && i > 0 {
            return text.split_at(i);
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cut_text_says_so_and_wide_characters_count_twice() {
        assert_eq!(fit("orders", 6, '⋯'), "orders");
        assert_eq!(fit("orders", 5, '⋯'), "orde⋯");
        assert_eq!(fit("日本語", 5, '~'), "日本~");
        assert_eq!(fit("日本語", 4, '~'), "日~");
        assert_eq!(fit("orders", 0, '~'), "");
    }

    #[test]
    fn a_sign_that_widens_the_one_before_it_counts() {
        assert_eq!(columns("0\u{fe0f}"), 2);
        assert_eq!(chop("0\u{fe0f}A", 2), ["0\u{fe0f}", "A"]);
        assert_eq!(fit("0\u{fe0f}AB", 3, '~'), "0\u{fe0f}~");
        assert!(wrap("0\u{fe0f}A1\u{fe0f}", 2).iter().all(|l| columns(l) <= 2));
    }

    #[test]
    fn lines_break_at_blanks_and_long_words_in_themselves() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert!(wrap("", 10).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_ever_wider_than_its_place(text in "\\PC{0,40}", max in 0u16..30) {
            prop_assert!(columns(&fit(&text, max, '~')) <= max);
            prop_assert_eq!(chop(&text, max).concat(), text.clone());
            // No character is wider than three columns, and none is cut in two.
            prop_assert!(max < 3 || chop(&text, max).iter().all(|piece| columns(piece) <= max));
            for line in wrap(&text, max.max(3)) {
                prop_assert!(columns(&line) <= max.max(3));
            }
        }
    }
}
