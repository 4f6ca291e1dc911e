//! The house keeps its floors: who may know whom, which floors are pure, and a few rules for every file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod project;

use project::{Source, Token, files, paths, rust, tokens, without_tests};
use std::collections::BTreeSet;

/// Every module below the top and how high it lies. A module knows only what lies lower; modules of the same height
/// do not know each other, except on the top floor, where one program is wired together.
const FLOORS: &[(&str, u8)] = &[
    ("domain", 0),
    ("host", 1),
    ("config", 2),
    ("plan", 3),
    ("net", 3),
    ("journal", 4),
    ("signals", 4),
    // Of its floor this one knows the journal: the shim reads it again before it starts a command.
    ("executor", 5),
    ("supervisor", 6),
    ("cli", TOP),
    ("tui", TOP),
    ("demo", TOP),
];
const TOP: u8 = 7;

/// Floors that are a function of what they are given, so that a whole night can be played in a test.
const PURE: &[&str] = &["domain", "plan"];

/// What a pure floor has no use for.
const IMPURE: &[&[&str]] = &[
    &["tokio"],
    &["reqwest"],
    &["rusqlite"],
    &["axum"],
    &["crossterm"],
    &["rustix"],
    &["rand"],
    &["rand_chacha"],
    &["std", "fs"],
    &["std", "net"],
    &["std", "env"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "time", "SystemTime"],
    &["SystemTime", "now"],
    &["std", "time", "Instant"],
    &["Instant", "now"],
    &["Utc", "now"],
    &["chrono", "Utc", "now"],
    &["Local", "now"],
    &["chrono", "Local"],
];

/// The longest file that needs no reason.
const LONGEST: usize = 600;
const REASON: &str = "//! Reason for its length:";

#[test]
fn every_module_imports_only_from_floors_below_it() {
    assert_none(imports_from_above(&rust(&["src"])));
}

#[test]
fn every_module_has_its_floor() {
    let on_floors: BTreeSet<String> = FLOORS.iter().map(|(m, _)| (*m).to_owned()).collect();
    let lib = tokens(&rust(&["src/lib.rs"])[0].text);
    let declared: BTreeSet<String> = lib
        .windows(2)
        .filter(|w| w[0].is_word("mod"))
        .filter_map(|w| match &w[1] {
            Token::Word(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(declared, on_floors);
}

#[test]
fn the_domain_and_the_plan_know_no_clock_no_chance_and_no_outside() {
    assert_none(impurities(&rust(&["src"])));
}

#[test]
fn a_long_file_says_why_it_is_long() {
    assert_none(too_long(&rust(&["src", "tests", "benches"])));
}

#[test]
fn nothing_is_unsafe() {
    assert_none(unsafe_code(&rust(&["src", "tests", "benches"])));
}

/// Linux first; everything that a Mac does not have lies in one module.
#[test]
fn only_the_host_reads_the_process_file_system() {
    assert_none(linux_only(&rust(&["src"])));
}

#[test]
fn no_file_knows_the_machine_on_which_it_was_written() {
    let all = files(&[
        "src",
        "tests",
        "benches",
        "docs",
        "assets",
        ".ci",
        "Cargo.toml",
        "README.md",
        "config.toml.example",
    ]);
    assert!(all.len() > 100, "{} files", all.len());
    assert_none(machine_paths(&all));
}

/// The full run runs what is left out of the short one, but not what only makes sense inside of another test.
#[test]
fn what_the_short_run_leaves_out_is_for_the_full_one_or_a_part_of_another_test() {
    assert_none(misnamed_parts(&rust(&["src", "tests"])));
}

fn misnamed_parts(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources {
        let mut lines = source.text.lines().map(str::trim_start);
        while let Some(line) = lines.next() {
            let Some(reason) = line.strip_prefix("#[ignore") else {
                continue;
            };
            let name = lines.find(|l| l.contains("fn ")).unwrap_or_default();
            let is_part = name.contains("fn part_of_another_test");
            if is_part == reason.contains("bash tests/run --full") {
                faults.push(format!("{}: {name} {line}", source.path));
            }
        }
    }
    faults
}

fn assert_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// The module below the top in which a file lies; `None` for the wiring in `lib.rs` and `main.rs`.
fn module(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    match inside.split_once('/') {
        Some((module, _)) => Some(module),
        None => inside
            .strip_suffix(".rs")
            .filter(|m| !["lib", "main"].contains(m)),
    }
}

/// How many modules below the crate the code of a file stands: 1 in `src/net/mod.rs`, 2 in `src/net/http.rs`.
fn depth(path: &str) -> usize {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    inside.split('/').filter(|part| *part != "mod").count()
}

fn height(module: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(m, _)| *m == module)
        .map(|(_, height)| *height)
}

fn imports_from_above(sources: &[Source]) -> Vec<String> {
    let mut faults = BTreeSet::new();
    for source in sources {
        let Some(own) = module(&source.path) else {
            continue;
        };
        let Some(mine) = height(own) else {
            faults.insert(format!("{}: `{own}` has no floor", source.path));
            continue;
        };
        for named in paths(&tokens(&source.text))
            .iter()
            .filter_map(|p| top_module(p, &source.path))
        {
            let allowed = match height(named) {
                // Not a module: a macro or a test's helper at the top.
                None => true,
                Some(theirs) => named == own || theirs < mine || (mine == TOP && theirs == TOP),
            };
            if !allowed {
                faults.insert(format!("{}: `{own}` must not know `{named}`", source.path));
            }
        }
    }
    faults.into_iter().collect()
}

/// The module at the top of our crate that a path in that file leads to, also by way of `super`.
fn top_module<'a>(path: &'a [String], file: &str) -> Option<&'a str> {
    let first = path.first()?;
    if first == "crate" || first == "backfill" {
        return path.get(1).map(String::as_str);
    }
    let up = path.iter().take_while(|p| *p == "super").count();
    // A module inside a file stands deeper than the file: its `super::super` leads less far up, never farther.
    (up > 0 && up >= depth(file)).then(|| path.get(up).map(String::as_str))?
}

/// The files that are compiled for tests only, because a parent says so.
fn test_files(sources: &[Source]) -> Vec<String> {
    let mut starts = Vec::new();
    for source in sources {
        let folder = match source.path.strip_suffix("/mod.rs") {
            Some(folder) => folder,
            None => source.path.trim_end_matches(".rs"),
        };
        for module in without_tests(&tokens(&source.text)).1 {
            starts.push(format!("{folder}/{module}"));
            // `#[path]` puts it beside its parent instead of below it.
            if let Some((beside, _)) = folder.rsplit_once('/') {
                starts.push(format!("{beside}/{module}"));
            }
        }
    }
    starts
}

fn is_test_file(path: &str, starts: &[String]) -> bool {
    starts.iter().any(|s| {
        path.strip_prefix(s.as_str())
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

fn impurities(sources: &[Source]) -> Vec<String> {
    let tests = test_files(sources);
    let mut faults = BTreeSet::new();
    for source in sources {
        let pure = module(&source.path).is_some_and(|m| PURE.contains(&m));
        if !pure || is_test_file(&source.path, &tests) {
            continue;
        }
        for path in paths(&without_tests(&tokens(&source.text)).0) {
            if IMPURE
                .iter()
                .any(|i| path.len() >= i.len() && path.iter().zip(*i).all(|(a, b)| a == b))
            {
                faults.insert(format!("{}: {}", source.path, path.join("::")));
            }
        }
    }
    faults.into_iter().collect()
}

fn too_long(sources: &[Source]) -> Vec<String> {
    let reasoned = |s: &Source| {
        let mut header = s.text.lines().take_while(|l| l.starts_with("//"));
        header.any(|l| l.strip_prefix(REASON).is_some_and(|why| why.trim().len() > 10))
    };
    sources
        .iter()
        .map(|s| (s, s.text.lines().count()))
        .filter(|(s, lines)| *lines > LONGEST && !reasoned(s))
        .map(|(s, lines)| {
            format!(
                "{}: {lines} lines, and its header has no line `{REASON} ..`",
                s.path
            )
        })
        .collect()
}

fn unsafe_code(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|s| tokens(&s.text).iter().any(|t| t.is_word("unsafe")))
        .map(|s| s.path.clone())
        .collect()
}

fn linux_only(sources: &[Source]) -> Vec<String> {
    let tests = test_files(sources);
    sources
        .iter()
        .filter(|s| module(&s.path) != Some("host") && !is_test_file(&s.path, &tests))
        .flat_map(|s| {
            let texts = without_tests(&tokens(&s.text)).0;
            texts.into_iter().filter_map(|t| match t {
                Token::Text(text) if text.starts_with("/proc") => Some(format!("{}: {text:?}", s.path)),
                _ => None,
            })
        })
        .collect()
}

fn machine_paths(sources: &[Source]) -> Vec<String> {
    // Written in two halves, because this file is looked at, too.
    let mut places: Vec<String> = [("/wo", "rk/"), ("/ro", "ot/"), ("/Us", "ers/"), ("/fa", "rm/")]
        .iter()
        .map(|(a, b)| format!("{a}{b}"))
        .collect();
    places.push(env!("CARGO_MANIFEST_DIR").to_owned());
    let mut faults = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            // In the middle of a longer path it is something else.
            let starts =
                |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}".contains(c));
            if places
                .iter()
                .any(|p| line.match_indices(p.as_str()).any(|(at, _)| starts(at)))
            {
                faults.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    faults
}

mod the_checks_themselves {
    use super::*;

    #[test]
    fn see_an_import_from_above_however_it_is_written() {
        for planted in [
            "use crate::tui::model;",
            "pub(crate) use crate::{domain::ids::Name, supervisor::core::Core};",
            "use crate::{domain::{Time, spec::Spec}, cli as line};",
            "fn f() { let _ = crate::journal::Journal::open(); }",
            "use super::super::executor::Executor;",
            "type T = Vec<crate::signals::Reading>;",
            "mod tests { use backfill::demo; }",
        ] {
            let faults = imports_from_above(&[Source::new("src/plan/why.rs", planted)]);
            assert_eq!(faults.len(), 1, "{planted}: {faults:?}");
        }
    }

    #[test]
    fn let_imports_from_below_pass() {
        let allowed = "//! use crate::tui;\nuse crate::{config::Unit, domain::Time, host, plan::retry};\n\
                       use super::why::journal; /* crate::tui */ const S: &str = \"crate::tui::x\";";
        assert_none(imports_from_above(&[Source::new("src/plan/why.rs", allowed)]));
        let wiring = "use crate::{cli::args, demo, tui, supervisor};";
        assert_none(imports_from_above(&[Source::new("src/tui/open.rs", wiring)]));
    }

    #[test]
    fn know_that_floors_of_one_height_do_not_know_each_other() {
        let planted = Source::new("src/signals/mod.rs", "use crate::journal::Journal;");
        assert_eq!(imports_from_above(&[planted]).len(), 1);
        let new = Source::new("src/cellar/mod.rs", "");
        assert_eq!(
            imports_from_above(&[new]),
            ["src/cellar/mod.rs: `cellar` has no floor"]
        );
    }

    #[test]
    fn see_every_way_to_the_outside() {
        for planted in [
            "use std::{collections::BTreeMap, fs};",
            "use std::fs::{self, File};",
            "fn f() { std::net::TcpStream::connect(a); }",
            "use chrono::Utc; fn f() { Utc::now() }",
            "fn f() -> u64 { chrono::Utc::now() }",
            "fn f() { SystemTime::now() }",
            "use std::time::{Duration, Instant};",
            "let n: u8 = rand::random();",
            "use tokio::sync::mpsc;",
            "#[cfg(not(test))] use reqwest::Client;",
        ] {
            for path in ["src/domain/fold.rs", "src/plan/throttle/track.rs"] {
                assert!(!impurities(&[Source::new(path, planted)]).is_empty(), "{planted}");
            }
            assert_none(impurities(&[Source::new("src/net/http.rs", planted)]));
        }
    }

    #[test]
    fn leave_tests_their_clocks() {
        let with_tests = "use std::time::Duration;\n#[cfg(test)]\nmod tests { use super::*; #[test] fn f() { \
                          let c = '{'; std::fs::read(\"}\"); } }\n#[cfg(test)]\nmod life_tests;";
        let parent = Source::new("src/plan/mod.rs", with_tests);
        let child = Source::new("src/plan/life_tests.rs", "use std::fs;");
        assert_none(impurities(&[parent.clone(), child]));
        let sibling = Source::new("src/plan/life.rs", "use std::fs;");
        assert_eq!(impurities(&[parent, sibling]), ["src/plan/life.rs: std::fs"]);
    }

    #[test]
    fn see_a_long_file_and_accept_a_reason() {
        let long = "\n".repeat(LONGEST + 1);
        let bare = Source::new("src/a.rs", &format!("//! What it is.{long}"));
        let hollow = Source::new("src/b.rs", &format!("//! What it is.\n{REASON} \n{long}"));
        let reasoned = Source::new(
            "src/c.rs",
            &format!("//! What it is.\n{REASON} one table, read as a whole.\n{long}"),
        );
        let short = Source::new("src/d.rs", "//! What it is.");
        assert_eq!(too_long(&[bare, hollow, reasoned, short]).len(), 2);
    }

    #[test]
    fn see_unsafe_code_and_no_word_of_it() {
        let planted = Source::new("src/a.rs", "fn f() { unsafe { g() } }");
        let spoken = Source::new(
            "src/b.rs",
            "#![forbid(unsafe_code)] // unsafe\nconst A: &str = r#\"unsafe \" \"#;",
        );
        assert_eq!(unsafe_code(&[planted, spoken]), ["src/a.rs"]);
    }

    #[test]
    fn see_what_only_linux_has() {
        let text = "fn f() { read(\"/proc/self/stat\") }";
        assert_eq!(
            linux_only(&[Source::new("src/executor/local/x.rs", text)]).len(),
            1
        );
        assert_none(linux_only(&[Source::new("src/host/process.rs", text)]));
        assert_none(linux_only(&[Source::new(
            "src/cli/x.rs",
            "/// Not in /proc.\nfn f() {}",
        )]));
    }

    #[test]
    fn see_a_part_of_another_test_that_the_full_run_would_run() {
        let planted = |why: &str, name: &str| {
            let text = format!("#[test]\n#[{}{why}\"]\nfn {name}() {{}}", "ignore = \"");
            misnamed_parts(&[Source::new("src/a.rs", &text)]).len()
        };
        assert_eq!(planted("run by another", "reads"), 1);
        assert_eq!(planted("run by another", "part_of_another_test_reads"), 0);
        assert_eq!(planted("long: bash tests/run --full", "reads"), 0);
        assert_eq!(
            planted("long: bash tests/run --full", "part_of_another_test_reads"),
            1
        );
    }

    #[test]
    fn see_the_path_of_a_machine() {
        let own = format!("cd {}/src", env!("CARGO_MANIFEST_DIR"));
        let guest = ["/ro", "ot/.cargo"].concat();
        assert_eq!(
            machine_paths(&[Source::new("docs/a.md", &own), Source::new("b", &guest)]).len(),
            2
        );
        assert_none(machine_paths(&[Source::new(
            "docs/a.md",
            "https://x.example/work/1 and ./root/x",
        )]));
    }
}
