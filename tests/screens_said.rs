//! Where answers stand: what the screen says to an operator covers nothing that is needed, and a prompt answers inside
//! the prompt.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    domain::{event::Payload, ids::ChunkId},
    tui::{
        glyphs::GlyphSet,
        model::{Layer, LeaseView},
        theme::{Level, Look},
    },
};
use chrono::TimeDelta;
use night::*;
use ratatui::style::Modifier;

const SIZES: [(u16, u16); 4] = [(80, 24), (100, 30), (120, 40), (200, 60)];

fn dark() -> Look {
    look("dark", Level::True, GlyphSet::Full)
}

/// The lines of a screen on which `said` was said a moment ago.
fn lines(size: (u16, u16), case: &cases::Case, said: &str) -> Vec<String> {
    let mut app = case.app.clone();
    app.toast = Some((said.to_owned(), case.now));
    let buf = screen(size, &case.feed, &app, &dark(), case.now);
    text(&buf).lines().map(str::to_owned).collect()
}

#[test]
fn a_word_stands_beside_the_day_and_not_over_it() {
    let case = cases::running();
    for size in SIZES {
        let lines = lines(size, &case, "hold of 2022-11-25: sent");
        let line = &lines[lines.len() - 2];
        assert!(line.starts_with(" Fri 2022-11-25 "), "{size:?}: {line}");
        assert!(line.contains("quarantined"), "{size:?}: {line}");
        assert!(line.ends_with("hold of 2022-11-25: sent"), "{size:?}: {line}");
    }
}

#[test]
fn a_word_that_is_too_long_for_that_is_whole() {
    let said = "hold of 2022-11-25: refused, the order was cancelled by minh meanwhile";
    let lines = lines((80, 24), &cases::running(), said);
    assert_eq!(lines[22].trim(), said);
}

#[test]
fn a_prompt_answers_inside_the_prompt() {
    let said = "`2023-13` is no date: type 2023-11-24, 2023-11 or 2023";
    for size in SIZES {
        for layer in [Layer::Date("2023-13".to_owned()), Layer::Date("9".repeat(200))] {
            let case = cases::with("date", vec![layer]);
            let lines = lines(size, &case, said);
            let line = &lines[lines.len() - 2];
            assert!(line.starts_with(" go to "), "{size:?}: {line}");
            assert!(line.contains(said), "{size:?}: {line}");
        }
    }
}

#[test]
fn a_dialog_answers_inside_the_dialog() {
    let said = "ignored: struck as the dialog came up";
    for layer in [Layer::Throttle("12".to_owned()), cases::dialog(2, 2, None)] {
        let case = cases::with("dialog", vec![layer]);
        let mut app = case.app.clone();
        app.toast = Some((said.to_owned(), case.now));
        for size in SIZES {
            let buf = screen(size, &case.feed, &app, &dark(), case.now);
            let text = text(&buf);
            let y = text
                .lines()
                .position(|l| l.contains(said) && l.contains(dark().glyphs.bar));
            let y = y.unwrap_or_else(|| panic!("{size:?}:\n{text}")) as u16;
            let line = text.lines().nth(usize::from(y)).unwrap();
            let x = line.chars().position(|c| c == 'i').unwrap() as u16;
            assert!(buf[(x, y)].modifier.contains(Modifier::BOLD), "it is not dimmed");
        }
    }
}

/// Nobody may read in the first moment that there is nothing: it is not known yet.
#[test]
fn before_the_first_look_it_reads_the_journal_and_claims_nothing() {
    let mut case = cases::not_looked();
    for size in [(60, 20), (80, 24), (100, 30), (120, 40), (200, 60)] {
        let drawn = text(&screen(size, &case.feed, &case.app, &dark(), case.now));
        assert!(drawn.contains("Reading the journal."), "{size:?}: {drawn}");
        assert!(!drawn.contains("Nothing to supervise"), "{size:?}: {drawn}");
        assert!(!drawn.contains("backfill demo"), "{size:?}: {drawn}");
    }
    case.now += TimeDelta::seconds(5);
    let drawn = text(&screen((80, 24), &case.feed, &case.app, &dark(), case.now));
    assert!(drawn.contains("It takes 5 s so far; q leaves."), "{drawn}");
    case.feed.problem = Some("disk I/O error".to_owned());
    let drawn = text(&screen((80, 24), &case.feed, &case.app, &dark(), case.now));
    assert!(drawn.contains("cannot be read: disk I/O error"), "{drawn}");
    case.feed.config = Some(Ok(configured("backfill.toml")));
    let drawn = text(&screen((80, 24), &case.feed, &case.app, &dark(), case.now));
    assert!(drawn.contains("Nothing to supervise yet."), "{drawn}");
    assert!(
        drawn.contains("The journal is /var/lib/backfill/journal.db"),
        "{drawn}"
    );
    let fault = "config.toml:17:9: backfills.orders.start: found a text, expected a date such as 2023-12-31";
    case.feed.config_fault = Some(fault.to_owned());
    let drawn = text(&screen((80, 24), &case.feed, &case.app, &dark(), case.now));
    let begin = "Read in part: config.toml:17:9: backfills.orders.start: found a text";
    assert!(drawn.contains(begin), "{drawn}");
}

/// Somebody gave the signal another name, or saved half a file.
#[test]
fn an_order_whose_protection_left_the_configuration_is_not_called_running() {
    let mut case = cases::running();
    case.feed.signals.clear();
    for size in [(80, 24), (120, 40), (200, 60)] {
        let text = text(&screen(size, &case.feed, &case.app, &dark(), case.now));
        let top: Vec<&str> = text.lines().take(4).collect();
        assert!(top[2].contains("NO SIGNAL"), "{size:?}: {top:#?}");
        assert!(
            top[3].contains("what protects it is not in the configuration"),
            "{size:?}: {top:#?}"
        );
        assert!(top[2].contains("not configured"), "{size:?}: {top:#?}");
        assert!(
            !text.contains("limit 6 "),
            "{size:?}: nothing waits for the limit: {text}"
        );
        assert!(size.0 < 200 || text.contains("  no signal"), "{text}");
    }
    // Of half a file nothing is known.
    case.feed.config_fault = Some("backfill.toml:12:1: unknown key `sofd`".to_owned());
    let text = text(&screen((80, 24), &case.feed, &case.app, &dark(), case.now));
    assert!(text.lines().nth(2).unwrap().contains("RUNNING"), "{text}");
}

/// A number that is cut off would be another number.
#[test]
fn the_count_of_what_is_done_is_whole_at_every_size() {
    for size in [(60, 20), (80, 24), (120, 40), (200, 60)] {
        let case = cases::complete_from(day(2021, 4, 1));
        let text = text(&screen(size, &case.feed, &case.app, &dark(), case.now));
        let row = text.lines().nth(2).unwrap();
        let whole = ["1,096/1,096", "1096/1096", "1,096  100%", "100%"];
        assert!(
            size.0 < 80 || whole.iter().any(|w| row.contains(w)),
            "{size:?}: {row}"
        );
        assert!(
            !row.contains("1,096/1,0⋯") && !row.contains("1,095/1,0"),
            "{size:?}: {row}"
        );
    }
}

/// Whoever changed the file must not believe that it is in force.
#[test]
fn a_refused_configuration_is_in_the_header_at_every_size() {
    for size in [(60, 20), (80, 24), (100, 30), (120, 40), (200, 60)] {
        for holder in ["minh", "scheduler-0.backfills.svc.cluster.example.com pid 4711"] {
            let mut case = cases::config_refused();
            case.app.read_only = Some("flag");
            if let LeaseView::Held { holder: name, .. } = &mut case.feed.lease {
                *name = holder.to_owned();
            }
            let text = text(&screen(size, &case.feed, &case.app, &dark(), case.now));
            let top = text.lines().next().unwrap();
            assert!(top.contains("CONFIG REFUSED"), "{size:?}: {top}");
            assert!(top.contains("READ-ONLY"), "{size:?}: {top}");
            assert!(top.contains("orders-rebuild  PROD"), "{size:?}: {top}");
        }
    }
    let case = cases::config_refused();
    let text = text(&screen((200, 60), &case.feed, &case.app, &dark(), case.now));
    assert!(
        text.lines()
            .next()
            .unwrap()
            .contains("the old one holds: backfill.toml:12:1: unknown key `sofd`"),
        "{text}"
    );
    let mut case = cases::running();
    case.feed.config_fault = Some("backfill.toml:12:1: unknown key `sofd`".to_owned());
    let text = night::text(&screen((200, 60), &case.feed, &case.app, &dark(), case.now));
    assert!(
        text.lines()
            .next()
            .unwrap()
            .contains("read in part: backfill.toml:12:1: unknown key `sofd`"),
        "{text}"
    );
    let sound = cases::running();
    let text = night::text(&screen((120, 40), &sound.feed, &sound.app, &dark(), sound.now));
    assert!(!text.contains("REFUSED"));
}

#[test]
fn a_word_goes_after_ten_seconds() {
    let case = cases::running();
    let mut app = case.app.clone();
    app.toast = Some(("hold: sent".to_owned(), case.now - TimeDelta::seconds(10)));
    let buf = screen((120, 40), &case.feed, &app, &dark(), case.now);
    assert!(!text(&buf).contains("hold: sent"));
}

/// `r` with nothing selected is about every failed day: the dialog says so, and the day under the cursor is first.
#[test]
fn a_re_run_of_all_that_failed_says_that_it_is_about_all() {
    let place = |case: &cases::Case, text: &str| {
        let drawn = night::text(&screen((80, 24), &case.feed, &case.app, &dark(), case.now));
        drawn.find(text).unwrap_or_else(|| panic!("{text}:\n{drawn}"))
    };
    let mut case = cases::with("plan", vec![cases::dialog(2, 2, None)]);
    case.app.cursor = Some(ChunkId::day(day(2022, 11, 26)));
    place(&case, "all in the order");
    assert!(place(&case, "Sat 2022-11-26") < place(&case, "Sun 2022-06-19"));
    case.app.cursor = Some(ChunkId::day(day(2022, 3, 1)));
    place(&case, "all in the order; 2022-03-01 under the cursor is done");
    assert!(place(&case, "Sun 2022-06-19") < place(&case, "Sat 2022-11-26"));
    case.app.marks = ["2022-06-19", "2022-11-26"].map(str::to_owned).into();
    let drawn = text(&screen((80, 24), &case.feed, &case.app, &dark(), case.now));
    assert!(
        !drawn.contains("all in the order"),
        "what is marked is what it is about"
    );
}

/// Whoever opens the limit dialog at night has not read the manual.
#[test]
fn the_limit_dialog_says_what_can_be_typed_and_what_that_would_do() {
    let says = |size, typed: &str| {
        let case = cases::with("throttle", vec![Layer::Throttle(typed.to_owned())]);
        night::text(&screen(size, &case.feed, &case.app, &dark(), case.now))
    };
    for size in SIZES {
        let drawn = says(size, "");
        for line in [
            "6          cap: ",
            "6 for 30m  force: ",
            "auto       neither cap nor force",
        ] {
            assert!(drawn.contains(line), "{size:?} {line}:\n{drawn}");
        }
        for (typed, effect) in [
            ("", "Nothing changes."),
            ("12", "max_limit is 8: nothing changes."),
            ("0", "A limit of 0 is a pause: esc, then p."),
            ("6 f", "This is none of the three"),
            ("6 for 30m", "Raises it to 6 for 30m, under any cap; not in"),
            ("auto", "The controller decides alone, up to max_limit 8."),
            ("3", "No start until running weight is below 3"),
        ] {
            let drawn = says(size, typed);
            let flat = drawn.replace('▐', " ");
            let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(effect), "{size:?} {typed}:\n{drawn}");
            assert!(drawn.contains("leaves it as it is"), "{size:?} {typed}:\n{drawn}");
        }
    }
}

/// A command that the fold refused stands in the journal and has changed nothing; `events` says so, and so does this.
#[test]
fn a_refused_command_is_marked_in_the_events() {
    let mut case = cases::running();
    let mut journal = night();
    let done = ChunkId::day(day(2022, 1, 1));
    journal.push(
        clock(3, 10, 15),
        human("minh"),
        Payload::HoldPlaced { chunks: vec![done] },
    );
    case.feed = feed(&journal, case.now, Some(0.7));
    let why = case.feed.state.refusals[0].why.clone();
    for (size, marked) in [
        ((80, 24), "! 01-01 refused".to_owned()),
        ((200, 60), format!("! refused: 2022-01-01 held; {why}")),
    ] {
        let drawn = text(&screen(size, &case.feed, &case.app, &dark(), case.now));
        let line = drawn
            .lines()
            .find(|l| l.contains("refused"))
            .unwrap_or_else(|| panic!("{drawn}"));
        assert!(line.contains(marked.trim_end()), "{size:?}: {line}");
    }
    let sound = cases::running();
    let drawn = text(&screen((120, 40), &sound.feed, &sound.app, &dark(), sound.now));
    assert!(!drawn.contains("refused"));
}

/// On the smallest screens only the words of others are cut: what a server said, and the name of a host.
#[test]
fn no_word_of_ours_is_cut_on_a_small_screen() {
    let mut cut = Vec::new();
    for case in cases::all() {
        for size in [(80, 24), (100, 30)] {
            let drawn = text(&screen(size, &case.feed, &case.app, &dark(), case.now));
            for line in drawn.lines().filter(|l| l.contains('⋯')) {
                let theirs = [
                    "java.lang.",
                    "scheduler-0",
                    "AirflowException",
                    "POST /dags",
                    "PUT /backfills",
                    "scheduled__",
                    "backfill__",
                    "as backfill run ",
                ]
                .iter()
                .any(|words| line.contains(words));
                if !theirs {
                    cut.push(format!("{} at {size:?}: {line}", case.name));
                }
            }
        }
    }
    assert!(cut.is_empty(), "{}", cut.join("\n"));
}

/// An Airflow takes whatever it is given: a made-up total would be a number that nobody configured.
#[test]
fn an_executor_without_slots_of_its_own_is_shown_without_a_total() {
    let mut case = cases::running();
    let drawn = |case: &cases::Case| text(&screen((200, 60), &case.feed, &case.app, &dark(), case.now));
    let row = |drawn: &str| {
        let line = drawn.lines().find(|l| l.contains("airflow-eu")).unwrap();
        line[line.find("airflow-eu").unwrap()..].to_owned()
    };
    assert!(row(&drawn(&case)).contains("5/6"));
    for view in case.feed.executors.values_mut() {
        view.slots = None;
    }
    let without = row(&drawn(&case));
    assert!(without.contains(" 5 ") && !without.contains("5/"), "{without}");
}
