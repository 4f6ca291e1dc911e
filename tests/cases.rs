//! An index of the cases: every case that must hold has a test that names it, and the index says which.
//!
//! A test names its cases in its doc comment, `/// Case B28.` or `/// Cases B04 and S08 to S12: what holds.`; a file of
//! tests that is about one case as a whole names it in its header. `cargo test --test cases -- --nocapture` prints the
//! index.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod project;

use project::{Source, rust};
use std::collections::{BTreeMap, BTreeSet};

/// What issue 2 asks for in proof 9, and issue 4 in proof 2.
const WANTED: &str = "Cases B03 to B09, B11, B13, B14, B16, B18, B20, B25 to B28, B30 to B32, B34, B36 and S01 to S04, \
                      S06 to S12, S15 to S17, S22, S25, S29, S31";

#[test]
fn every_case_has_a_test_that_names_it() {
    let mut sources = rust(&["src", "tests"]);
    // This file speaks of cases without proving any.
    sources.retain(|s| s.path != "tests/cases.rs");
    let index = index(&sources);
    for (case, tests) in &index {
        println!("{case}");
        for test in tests {
            println!("    {test}");
        }
    }
    let wanted = cases_in(WANTED);
    assert_eq!(wanted.len(), 40);
    let missing: Vec<_> = wanted.iter().filter(|c| !index.contains_key(*c)).collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
}

/// Case to the tests that name it, each as `FILE NAME`.
fn index(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let mut index: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        for (cases, test) in named_tests(source) {
            for case in cases {
                index
                    .entry(case)
                    .or_default()
                    .insert(format!("{} {test}", source.path));
            }
        }
    }
    index
}

/// The tests of a file, each with the cases that its doc comment or the file's header names.
fn named_tests(source: &Source) -> Vec<(BTreeSet<String>, String)> {
    let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
    let header: Vec<&str> = lines.iter().map_while(|l| l.strip_prefix("//!")).collect();
    let (mut found, mut doc, mut attributes) = (Vec::new(), String::new(), String::new());
    for line in lines {
        if let Some(text) = line.strip_prefix("///") {
            doc.push_str(text);
        } else if line.starts_with("#[") {
            attributes.push_str(line);
        } else if let Some(name) = function(line) {
            if is_test(&attributes) {
                found.push((cases_in(&doc), name.to_owned()));
            }
            (doc, attributes) = (String::new(), String::new());
        } else if !line.starts_with("//") {
            // A table of `rstest` rows or a long attribute lies between its start and the function.
            let inside_attribute = attributes.matches('[').count() > attributes.matches(']').count();
            if inside_attribute {
                attributes.push_str(line);
            } else {
                (doc, attributes) = (String::new(), String::new());
            }
        }
    }
    // The header of a source file speaks of its code, not of its tests.
    if source.path.starts_with("tests/") && !found.is_empty() {
        found.push((cases_in(&header.join(" ")), "(all of it)".to_owned()));
    }
    found
}

fn function(line: &str) -> Option<&str> {
    let rest = line
        .trim_start_matches("pub ")
        .trim_start_matches("async ")
        .strip_prefix("fn ")?;
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    Some(&rest[..end])
}

fn is_test(attributes: &str) -> bool {
    ["#[test]", "#[tokio::test", "#[rstest]", "#[rstest("]
        .iter()
        .any(|a| attributes.contains(a))
}

/// The cases that a comment names, behind the word `Case` or `Cases`, ranges taken apart.
fn cases_in(comment: &str) -> BTreeSet<String> {
    let words: Vec<&str> = comment
        .split(|c: char| c.is_whitespace() || "(),.:;".contains(c))
        .filter(|w| !w.is_empty())
        .collect();
    let (mut cases, mut i) = (BTreeSet::new(), 0);
    while i < words.len() {
        let list = ["case", "cases"].contains(&words[i].to_lowercase().as_str());
        i += 1;
        while list && i < words.len() {
            match (case(words[i]), words[i]) {
                (Some((series, first)), _) => {
                    let last = match (words.get(i + 1), words.get(i + 2).and_then(|w| case(w))) {
                        (Some(&"to"), Some((_, last))) => last,
                        _ => first,
                    };
                    cases.extend((first..=last).map(|n| format!("{series}{n:02}")));
                }
                (None, "and" | "to" | "case" | "cases") => {}
                (None, _) => break,
            }
            i += 1;
        }
    }
    cases
}

/// `B04` as series and number.
fn case(word: &str) -> Option<(char, u32)> {
    let series = word.chars().next().filter(|c| "BS".contains(*c))?;
    let digits = word
        .get(1..)
        .filter(|d| d.len() == 2 && d.bytes().all(|b| b.is_ascii_digit()))?;
    Some((series, digits.parse().ok()?))
}

mod the_index_itself {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        cases_in(text).into_iter().collect()
    }

    #[test]
    fn reads_lists_and_ranges() {
        assert_eq!(names("Case B28."), ["B28"]);
        assert_eq!(names("As in case B01: B02 is not meant"), ["B01", "B02"]);
        assert_eq!(names("Cases B04 and B35: the shim dies, S01 not"), ["B04", "B35"]);
        assert_eq!(
            names("Proof 6 and case S02, and cases S15 to S17."),
            ["S02", "S15", "S16", "S17"]
        );
        assert_eq!(names("In case B4 or Bravo or B041 S9x"), Vec::<String>::new());
    }

    #[test]
    fn counts_tests_and_nothing_else() {
        let text = "//! Case S31 in general.\n/// Case B01.\nfn helper() {}\n\n/// Case B02: holds\n/// for all.\n\
                    #[test]\nfn holds() {\n}\n    /// Case B03.\n    #[rstest]\n    #[case(1)]\n    fn rows() {}\n\
                    // Case B05: a remark.\n#[test]\nfn other() {\n// case B06\n}\n/// Case B07.\nstruct Not;\n\
                    #[test]\nfn bare() {}\n/// Case B08.\n#[tokio::test(\nflavor = \"multi_thread\"\n)]\nasync fn waits() {}";
        let index = index(&[Source::new("src/a.rs", text)]);
        let found: Vec<_> = index
            .iter()
            .map(|(c, t)| format!("{c} {}", t.iter().next().unwrap()))
            .collect();
        assert_eq!(
            found,
            ["B02 src/a.rs holds", "B03 src/a.rs rows", "B08 src/a.rs waits"]
        );
    }

    #[test]
    fn lets_a_header_speak_for_a_file_of_tests() {
        let text = "//! Case S15: whatever comes.\n#[test]\nfn a() {}\n#[test]\nfn b() {}";
        let index = index(&[Source::new("tests/a.rs", text)]);
        assert_eq!(
            index["S15"].iter().collect::<Vec<_>>(),
            ["tests/a.rs (all of it)"]
        );
    }
}
