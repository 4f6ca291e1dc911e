//! What the documents say is true: the tables of keys and commands are made from the program's own tables, the picture
//! is drawn by its own screen, commands and configurations in them are understood, and links lead somewhere.
//!
//! `BACKFILL_WRITE_DOCS=1 cargo test --test readme` writes the tables and the picture anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod night;
mod project;

use backfill::{
    cli::args::Cli,
    config::Config,
    domain::{
        event::{Actor, Payload, Read},
        human,
        spec::Lane,
        tuning::Tuning,
    },
    tui::{
        action::{ACTIONS, Action, Class, Id},
        glyphs::GlyphSet,
        keymap::{self, Key, Place, lookup},
        model::{ExecutorView, Feed},
        picture::svg,
        theme::Level,
        view::draw_on,
    },
};
use clap::{CommandFactory, Parser};
use project::Token;
use ratatui::{buffer::Buffer, layout::Rect};
use std::{collections::BTreeSet, fs};

const HOW: &str = "stale: BACKFILL_WRITE_DOCS=1 cargo test --test readme";

fn writes() -> bool {
    std::env::var_os("BACKFILL_WRITE_DOCS").is_some()
}

fn read(path: &str) -> String {
    fs::read_to_string(project::top().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// All documents, with their paths.
fn documents() -> Vec<(String, String)> {
    let mut all = project::files(&["README.md", "docs"]);
    all.retain(|s| s.path.ends_with(".md"));
    assert!(all.len() > 4);
    all.into_iter().map(|s| (s.path, s.text)).collect()
}

/// Holds the part of a document between two marks against what the program says, or writes it.
fn part(path: &str, name: &str, wanted: &str) {
    let text = read(path);
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let from = text.find(&begin).expect("the begin mark") + begin.len();
    let to = from + text[from..].find(&end).expect("the end mark");
    if writes() {
        let new = format!("{}{wanted}{}", &text[..from], &text[to..]);
        fs::write(project::top().join(path), new).unwrap();
    } else {
        assert_eq!(&text[from..to], wanted, "{path} is {HOW}");
    }
}

/// All tables are written by one test, because some stand in one file.
#[test]
fn the_tables_of_keys_and_commands_are_those_of_the_program() {
    part("README.md", "keys", &keys_that_matter());
    part("README.md", "commands", &commands());
    part("docs/keys.md", "all keys", &all_keys());
    part("docs/tuning.md", "tuning", &tuning());
}

/// What a newcomer needs beside the keys that change something.
const TO_LOOK: [Id; 17] = [
    Id::MoveLeft,
    Id::MoveDown,
    Id::MoveUp,
    Id::MoveRight,
    Id::GotoDate,
    Id::ZoomIn,
    Id::ZoomOut,
    Id::Open,
    Id::Why,
    Id::Filter,
    Id::NextMatch,
    Id::OnlyBad,
    Id::MarkRange,
    Id::MarkDay,
    Id::Quit,
    Id::Palette,
    Id::Help,
];

fn keys_that_matter() -> String {
    let mut table = String::from("| key | on the calendar |\n| --- | --- |\n");
    for action in ACTIONS {
        if action.class > Class::Look || TO_LOOK.contains(&action.id) {
            table += &on_calendar(action);
        }
    }
    table
}

fn code(keys: &[&str]) -> String {
    let quoted: Vec<String> = keys.iter().map(|k| format!("`{k}`")).collect();
    quoted.join(" ")
}

/// The row of an action that has keys on the calendar.
fn on_calendar(action: &Action) -> String {
    let keys: Vec<&str> = bindings(action)
        .into_iter()
        .filter(|(_, places)| places.contains(&Place::Calendar))
        .map(|(key, _)| key)
        .collect();
    match keys.is_empty() {
        true => String::new(),
        false => format!("| {} | {} |\n", code(&keys), action.about),
    }
}

/// The keys of an action and the places in which they are this action's, as the screen looks them up.
fn bindings(action: &Action) -> Vec<(&'static str, Vec<Place>)> {
    let mut keys: Vec<&str> = action
        .keys
        .iter()
        .flat_map(|(_, keys)| keys.iter().copied())
        .collect();
    let mut seen = BTreeSet::new();
    keys.retain(|k| seen.insert(*k));
    let places = |key: &str| {
        let key: Key = key.parse().unwrap();
        Place::ALL
            .into_iter()
            .filter(|p| lookup(*p, key) == Some(action.id))
            .collect()
    };
    keys.into_iter().map(|k| (k, places(k))).collect()
}

fn all_keys() -> String {
    let mut home = String::from("| key | on the calendar |\n| --- | --- |\n");
    let mut elsewhere = String::from("\n| key | where | elsewhere |\n| --- | --- | --- |\n");
    let mut named = String::from("\n| only by name | |\n| --- | --- |\n");
    for action in ACTIONS {
        home += &on_calendar(action);
        let mut others: Vec<(&str, Vec<Place>)> = bindings(action)
            .into_iter()
            .filter(|(_, p)| !p.is_empty() && !p.contains(&Place::Calendar))
            .collect();
        // Keys that mean the same in the same places share a row.
        while let Some((_, places)) = others.first().cloned() {
            let (same, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, p)| *p == places);
            others = rest;
            let keys: Vec<&str> = same.into_iter().map(|(k, _)| k).collect();
            let places: Vec<&str> = places.into_iter().map(in_words).collect();
            elsewhere += &format!("| {} | {} | {} |\n", code(&keys), places.join(", "), action.about);
        }
        if action.keys.is_empty() {
            named += &format!("| `{}` | {} |\n", action.name, action.about);
        }
    }
    format!("{home}{elsewhere}{named}")
}

const fn in_words(place: Place) -> &'static str {
    match place {
        Place::Calendar => "calendar",
        Place::Lag => "lag",
        Place::Executors => "executors",
        Place::Events => "events",
        Place::Drawer => "day",
        Place::Log => "log",
        Place::Plan => "plan",
        Place::Why => "why",
        Place::Help => "help",
        Place::Text => "input line",
    }
}

fn commands() -> String {
    let mut cli = Cli::command();
    cli.build();
    let mut table = String::from("| command | what it does |\n| --- | --- |\n");
    table += &format!("| `backfill` | {} |\n", "opens the screen");
    for command in cli.get_subcommands().filter(|c| c.get_name() != "help") {
        rows(command, command.get_name(), &mut table);
    }
    table
}

/// One row a command, with its own options; commands of commands in rows of their own.
fn rows(command: &clap::Command, name: &str, table: &mut String) {
    let inner: Vec<_> = command
        .get_subcommands()
        .filter(|c| c.get_name() != "help")
        .collect();
    let mut line = name.to_owned();
    for argument in command.get_positionals() {
        let value = argument
            .get_value_names()
            .unwrap_or_default()
            .first()
            .map_or("", |v| v.as_str());
        let more = if argument.get_num_args().is_some_and(|n| n.max_values() > 1) {
            ".."
        } else {
            ""
        };
        line += &match argument.is_required_set() || argument.get_id() == "name" && name == "run" {
            true => format!(" {value}{more}"),
            false => format!(" [{value}{more}]"),
        };
    }
    for inside in &inner {
        rows(inside, &format!("{line} {}", inside.get_name()), table);
    }
    if !inner.is_empty() {
        return;
    }
    let shown = |a: &&clap::Arg| !a.is_global_set() && !a.is_hide_set() && !a.is_positional();
    for option in command.get_arguments().filter(shown) {
        let Some(long) = option.get_long().filter(|l| !["help", "version"].contains(l)) else {
            continue;
        };
        let value = option
            .get_value_names()
            .filter(|_| option.get_action().takes_values());
        let value = value
            .and_then(|v| v.first())
            .map_or(String::new(), |v| format!(" {v}"));
        line += &match option.is_required_set() {
            true => format!(" --{long}{value}"),
            false => format!(" [--{long}{value}]"),
        };
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let line = line.replace('|', "\\|");
    *table += &format!("| `{line}` | {about} |\n");
}

/// The fields of the table with their comments, and their defaults as the program has them.
fn tuning() -> String {
    let source = read("src/domain/tuning.rs");
    let fields = source.split("pub struct Tuning {").nth(1).unwrap();
    let fields = fields.split("\n}").next().unwrap();
    let values = format!("{:#?}", Tuning::default());
    let mut table = String::from("| key | default | |\n| --- | --- | --- |\n");
    let mut about = Vec::new();
    for line in fields.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            about.push(text.trim());
        } else if let Some(name) = line.strip_prefix("pub ").and_then(|l| l.split(':').next()) {
            let value = values
                .lines()
                .find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(": "));
            let value = value
                .unwrap_or_else(|| panic!("{name} in {values}"))
                .trim_end_matches(',');
            let value = as_written(name, value);
            table += &format!(
                "| `{}` | {value} | {} |\n",
                name.replace('_', "-"),
                about.join(" ")
            );
            about.clear();
        }
    }
    table
}

/// A default as the configuration takes it: `500MB`, `30m`, `5`.
fn as_written(name: &str, value: &str) -> String {
    let written = match (name, human::parse_duration(value)) {
        ("disk_low", _) => human::exact_size(value.parse().unwrap()),
        (_, Ok(duration)) => human::exact_duration(duration),
        (_, Err(_)) => return value.to_owned(),
    };
    format!("\"{written}\"")
}

/// Every default of the table, put into a configuration as it stands there, is that default.
#[test]
fn the_defaults_in_the_table_of_tuning_can_be_copied_into_a_file() {
    let text = tuning();
    let rows = text
        .lines()
        .filter_map(|l| l.strip_prefix("| `")?.split_once("` | "));
    let lines: Vec<String> = rows
        .map(|(key, rest)| format!("{key} = {}", rest.split(" | ").next().unwrap()))
        .collect();
    assert!(lines.len() > 20, "{lines:?}");
    let text = format!("[tuning]\n{}\n", lines.join("\n"));
    let config =
        Config::parse(&text, &project::top().join("config.toml")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(config.tuning, Tuning::default());
}

/// The example has every key that the program reads; those of `[tuning]` are in their own document, those of scenarios, too.
#[test]
fn the_example_configuration_leaves_no_key_out() {
    let keys = keys_that_are_read(|path| !path.ends_with("scenario.rs"));
    assert!(
        keys.contains("on_failure") && keys.contains("age_query") && keys.contains("journal"),
        "{keys:?}"
    );
    assert_said("config.toml.example", &keys);
}

#[test]
fn the_document_of_scenarios_leaves_no_key_out() {
    let keys = keys_that_are_read(|path| path.ends_with("scenario.rs"));
    assert!(
        keys.contains("day_peak") && keys.contains("sigma") && keys.contains("metric"),
        "{keys:?}"
    );
    assert_said("docs/simulate.md", &keys);
}

fn assert_said(document: &str, keys: &BTreeSet<String>) {
    let text = read(document);
    let words: BTreeSet<&str> = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
        .collect();
    let missing: Vec<&String> = keys.iter().filter(|k| !words.contains(k.as_str())).collect();
    assert!(
        missing.is_empty(),
        "{document} says nothing of {missing:?}, of {keys:?}"
    );
}

/// The keys that files of the configuration's floor read.
fn keys_that_are_read(such: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for source in project::rust(&["src/config"]).iter().filter(|s| such(&s.path)) {
        let code = project::without_tests(&project::tokens(&source.text)).0;
        for (at, token) in code.iter().enumerate() {
            // `const KEYS: [..] = [..];` and `only(report, &[..]);` are where keys are listed.
            let from = match &code[at + 1..] {
                rest if token.is_word("only") => rest,
                [Token::Sign(':'), rest @ ..] if token.is_word("KEYS") || token.is_word("SECTIONS") => {
                    let equals = rest.iter().position(|t| *t == Token::Sign('='));
                    &rest[equals.unwrap_or(rest.len())..]
                }
                _ => continue,
            };
            let texts = from.iter().take_while(|t| **t != Token::Sign(';'));
            keys.extend(texts.filter_map(|t| match t {
                Token::Text(text) if text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => {
                    Some(text.clone())
                }
                _ => None,
            }));
        }
    }
    keys
}

#[test]
fn the_picture_is_the_screen_as_it_is_now() {
    let look = night::look("dark", Level::True, GlyphSet::Full);
    let (now, app) = (night::t0310(), night::app());
    let feed = night_here();
    let area = Rect::new(0, 0, 120, 40);
    let mut buf = Buffer::empty(area);
    draw_on(
        &mut buf,
        area,
        &feed,
        &app,
        &look,
        &keymap::hints(&app, &feed),
        now,
    );
    let (picture, path) = (svg(&buf, &look), project::top().join("docs/screen.svg"));
    if writes() {
        fs::write(&path, &picture).unwrap();
    }
    // Not compared by `assert_eq`, which would print both.
    assert!(
        fs::read_to_string(&path).is_ok_and(|there| there == picture),
        "docs/screen.svg is {HOW}"
    );
}

/// The fixture's night with what this version has: one executor, of this machine.
fn night_here() -> Feed {
    let here = night::name("here");
    let mut journal = night::night();
    for event in &mut journal.events {
        if event.actor.name.starts_with("executor:") {
            event.actor = Actor::executor(&here);
        }
        match &mut event.payload {
            Read::Known(Payload::Started { spec, .. }) => {
                spec.executor = here.clone();
                spec.lanes.remove(&Lane::Heavy);
            }
            Read::Known(Payload::SubmissionIntended { executor, .. }) => *executor = here.clone(),
            _ => {}
        }
    }
    let mut feed = night::feed(&journal, night::t0310(), Some(0.7));
    let running = feed.executors.values().map(|e| e.running).sum();
    let view = ExecutorView {
        name: here.clone(),
        running,
        slots: Some(8),
        levers: false,
        seen: Some(night::t0310() - chrono::TimeDelta::seconds(3)),
        problem: None,
    };
    feed.executors = [(here, view)].into();
    feed
}

/// The blocks between fences with that word behind the opening one.
fn blocks<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let open = format!("```{word}\n");
    text.match_indices(&open)
        .map(|(at, _)| {
            let inside = &text[at + open.len()..];
            &inside[..inside.find("```").expect("the end of a block")]
        })
        .collect()
}

#[test]
fn every_command_in_the_documents_is_one() {
    let mut understood = 0;
    for (path, text) in documents() {
        let in_blocks = blocks(&text, "sh").into_iter().flat_map(str::lines);
        let in_sentences = text.split('`').skip(1).step_by(2);
        for line in in_blocks.chain(in_sentences) {
            let line = line.trim().replace("cargo run --release --", "backfill");
            // Of alternatives the first, and something in the place of what the reader puts in.
            let words: Vec<&str> = line
                .split_whitespace()
                .take_while(|w| !["#", "|", "&&", ">"].contains(w))
                .map(|w| match w {
                    "N" => "3",
                    w => w.split('|').next().unwrap_or(w),
                })
                .collect();
            if words.first() != Some(&"backfill") || words.len() < 2 {
                continue;
            }
            let parsed = Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{path}: {line}: {}", parsed.err().unwrap());
            understood += 1;
        }
    }
    assert!(understood > 10, "{understood}");
}

/// The first own backfill is checked by the program as it stands there; pieces are put below a whole one.
#[test]
fn every_configuration_in_the_documents_is_accepted() {
    let readme = read("README.md");
    let first = readme
        .split("cat > config.toml <<'END'\n")
        .nth(1)
        .and_then(|rest| rest.split("\nEND\n").next())
        .expect("the first own backfill");
    accepted("README.md", first);
    for (path, text) in documents() {
        for piece in blocks(&text, "toml") {
            accepted(&path, &format!("{first}\n{piece}"));
        }
    }
}

fn accepted(path: &str, text: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    // The place of the journal depends on the machine; where the text does not name one we do.
    let place = if text.contains("[journal]") {
        ""
    } else {
        "\n[journal]\npath = \"journal.db\"\n"
    };
    fs::write(&file, format!("{text}{place}")).unwrap();
    if let Err(error) = Config::load(&file) {
        panic!("{path}: {error}\n{text}");
    }
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    for (path, text) in documents() {
        let folder = project::top().join(&path).parent().unwrap().to_owned();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            let file = target.split('#').next().unwrap();
            if target.contains("://") || file.is_empty() {
                continue;
            }
            assert!(folder.join(file).exists(), "{path}: {target}");
        }
    }
}
