//! What the tests about the project itself share: its files, and a reader of Rust source that tells code from
//! comments, texts and tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(dead_code)] // Each test binary uses its own part.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file of the project: its path from the top with `/`, and what is in it.
#[derive(Debug, Clone)]
pub struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }
}

/// The top folder.
pub fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files below these folders or at these paths that are text, in the order of their paths.
pub fn files(places: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for place in places {
        collect(&top().join(place), &mut found);
    }
    found.sort();
    let source = |path: &PathBuf| {
        let text = String::from_utf8(fs::read(path).unwrap()).ok()?;
        let path = path.strip_prefix(top()).unwrap().to_string_lossy().into_owned();
        Some(Source { path, text })
    };
    found.iter().filter_map(source).collect()
}

/// All Rust files below these folders.
pub fn rust(places: &[&str]) -> Vec<Source> {
    let mut all = files(places);
    all.retain(|s| s.path.ends_with(".rs"));
    all
}

fn collect(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_owned());
    } else if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), found);
        }
    }
}

/// A piece of Rust code. Comments are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// An identifier or keyword.
    Word(String),
    /// What stands between the quotes of a text, as it is written.
    Text(String),
    /// `::`
    Path,
    /// Any other sign; a number, a lifetime or a character is one of these, too.
    Sign(char),
}

impl Token {
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(w) if w == word)
    }
}

/// Takes Rust source apart. It knows as much of the language as this project's source needs.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut out, mut i) = (Vec::new(), 0);
    while i < chars.len() {
        let c = at(i);
        let raw = raw_hashes(&chars, i);
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            i = after_block_comment(&chars, i);
        } else if let Some((start, hashes)) = raw {
            let end = (start..chars.len())
                .find(|&e| at(e) == '"' && (1..=hashes).all(|h| at(e + h) == '#'))
                .unwrap_or(chars.len());
            out.push(Token::Text(chars[start..end].iter().collect()));
            i = end + 1 + hashes;
        } else if c == '"' {
            let mut end = i + 1;
            while end < chars.len() && at(end) != '"' {
                end += if at(end) == '\\' { 2 } else { 1 };
            }
            out.push(Token::Text(chars[i + 1..end.min(chars.len())].iter().collect()));
            i = end + 1;
        } else if c == '\'' {
            out.push(Token::Sign('\''));
            i = after_quote(&chars, i);
        } else if c.is_alphabetic() || c == '_' {
            let end = (i..chars.len())
                .find(|&e| !(at(e).is_alphanumeric() || at(e) == '_'))
                .unwrap_or(chars.len());
            out.push(Token::Word(chars[i..end].iter().collect()));
            i = end;
        } else if c.is_ascii_digit() {
            while at(i).is_alphanumeric() || at(i) == '_' {
                i += 1;
            }
            out.push(Token::Sign('0'));
        } else if c == ':' && at(i + 1) == ':' {
            out.push(Token::Path);
            i += 2;
        } else {
            if !c.is_whitespace() {
                out.push(Token::Sign(c));
            }
            i += 1;
        }
    }
    out
}

/// Where a raw text's inside starts and how many `#` it has, if one starts here.
fn raw_hashes(chars: &[char], i: usize) -> Option<(usize, usize)> {
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let inside_a_word = i > 0 && (at(i - 1).is_alphanumeric() || at(i - 1) == '_');
    let r = if at(i) == 'b' { i + 1 } else { i };
    if inside_a_word || at(r) != 'r' {
        return None;
    }
    let hashes = (r + 1..).take_while(|&h| at(h) == '#').count();
    (at(r + 1 + hashes) == '"').then_some((r + 2 + hashes, hashes))
}

fn after_block_comment(chars: &[char], mut i: usize) -> usize {
    let mut depth = 0;
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                i += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    i
}

/// A character (`'a'`, `'\n'`, `'\u{1b}'`) is passed whole; of a lifetime only the quote.
fn after_quote(chars: &[char], i: usize) -> usize {
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    if at(i + 1) == '\\' {
        // What follows the backslash may itself be a quote.
        (i + 3..chars.len())
            .find(|&e| at(e) == '\'')
            .map_or(chars.len(), |e| e + 1)
    } else if at(i + 2) == '\'' {
        i + 3
    } else {
        i + 1
    }
}

/// Takes away what is compiled for tests only, and names the modules in other files for which that holds.
pub fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut modules, mut i) = (Vec::new(), Vec::new(), 0);
    while i < tokens.len() {
        let Some(after) = test_attribute(tokens, i) else {
            kept.push(tokens[i].clone());
            i += 1;
            continue;
        };
        let end = after_item(tokens, after);
        let item = &tokens[after..end];
        if item.last() == Some(&Token::Sign(';'))
            && let Some(at) = item.iter().position(|t| t.is_word("mod"))
            && let Some(Token::Word(name)) = item.get(at + 1)
        {
            modules.push(name.clone());
        }
        i = end;
    }
    (kept, modules)
}

/// Behind `#[cfg(test)]`, `#[cfg(all(test, ..))]` or `#[test]`, if one starts here.
fn test_attribute(tokens: &[Token], i: usize) -> Option<usize> {
    if tokens.get(i) != Some(&Token::Sign('#')) || tokens.get(i + 1) != Some(&Token::Sign('[')) {
        return None;
    }
    let end = matching(tokens, i + 1);
    let inside = &tokens[i + 2..end.saturating_sub(1).max(i + 2)];
    let names_test = inside.iter().any(|t| t.is_word("test")) && !inside.iter().any(|t| t.is_word("not"));
    let first = inside.first()?;
    (names_test && (first.is_word("cfg") || first.is_word("test"))).then_some(end)
}

/// Behind the bracket that closes the one at `i`.
fn matching(tokens: &[Token], i: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(i) {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Behind the item that starts here: its `;` or its block.
fn after_item(tokens: &[Token], mut i: usize) -> usize {
    while i < tokens.len() {
        match tokens[i] {
            Token::Sign(';') => return i + 1,
            Token::Sign('{') => return matching(tokens, i),
            Token::Sign('(' | '[') => i = matching(tokens, i),
            _ => i += 1,
        }
    }
    i
}

/// All paths that the code names, whole: `use std::{fs, io::{self, Read}}` is `std::fs`, `std::io` and
/// `std::io::Read`. Single words are left out.
pub fn paths(tokens: &[Token]) -> Vec<Vec<String>> {
    let (mut out, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        let starts = matches!(tokens[i], Token::Word(_)) && (i == 0 || tokens[i - 1] != Token::Path);
        if starts && tokens.get(i + 1) == Some(&Token::Path) {
            i = path(tokens, i, &[], &mut out);
        } else {
            i += 1;
        }
    }
    out
}

/// Reads one path, or the tree of paths in braces; gives where it ends.
fn path(tokens: &[Token], mut i: usize, before: &[String], out: &mut Vec<Vec<String>>) -> usize {
    let mut here = before.to_vec();
    loop {
        match tokens.get(i) {
            Some(Token::Word(word)) => {
                if word != "self" || here.is_empty() {
                    here.push(word.clone());
                }
                i += 1;
            }
            Some(Token::Sign('{')) if !here.is_empty() => {
                let end = matching(tokens, i);
                i += 1;
                while i < end {
                    match tokens[i] {
                        Token::Word(_) => i = path(tokens, i, &here, out),
                        _ => i += 1,
                    }
                    // A new name is no path.
                    if tokens.get(i).is_some_and(|t| t.is_word("as")) {
                        i += 2;
                    }
                }
                return end;
            }
            Some(Token::Sign('*')) => i += 1,
            _ => break,
        }
        if tokens.get(i) != Some(&Token::Path) {
            break;
        }
        i += 1;
    }
    out.push(here);
    i
}
