//! What a file may say of a program that prints the lag.

use super::*;
use crate::config::{Config, SignalConfig, SourceConfig, Unit};

fn parse(lines: &str) -> Result<SignalConfig, Vec<String>> {
    let text = format!("[signals.a]\nkind = \"command\"\nunit = \"seconds\"\n{lines}");
    let config = Config::parse(&text, Path::new("/etc/backfill/config.toml"));
    config
        .map(|c| c.signals.into_values().next().unwrap())
        .map_err(|e| e.lines())
}

/// The one thing that is said about these lines.
fn said(lines: &str) -> String {
    let said = parse(lines).unwrap_err();
    assert_eq!(said.len(), 1, "{said:?}");
    said[0].clone()
}

#[test]
fn a_program_runs_in_the_folder_of_the_file_and_has_ten_seconds() {
    let signal = parse("command = [\"./lag.sh\", \"orders\", \"\"]\n").unwrap();
    let expected = CommandConfig {
        command: ["./lag.sh", "orders", ""].map(str::to_owned).to_vec(),
        folder: "/etc/backfill".into(),
        deadline: Duration::from_secs(10),
    };
    assert_eq!(signal.source, SourceConfig::Command(expected));
    assert_eq!(
        (signal.unit, signal.low, signal.soft, signal.hard, signal.critical),
        (Unit::Seconds, 30.0, 60.0, 180.0, 900.0)
    );
}

#[test]
fn it_has_a_unit_and_levels_as_a_prometheus_has() {
    let text = "[signals.a]\nkind = \"command\"\ncommand = [\"lag\"]\ndeadline = \"2s\"\nunit = \"messages\"\nsoft = 5\n\
                hard = 6\ncritical = 7\n";
    let config = Config::parse(text, Path::new("/x/c.toml")).unwrap();
    let signal = config.signals.values().next().unwrap();
    assert_eq!((signal.low, signal.critical), (2.5, 7.0));
    assert!(matches!(&signal.source, SourceConfig::Command(c) if c.deadline == Duration::from_secs(2)));
    let without = text.replace("soft = 5\n", "");
    let errors = Config::parse(&without, Path::new("/x/c.toml"))
        .unwrap_err()
        .lines();
    assert!(errors.iter().any(|l| l.contains("signals.a.soft")), "{errors:?}");
}

#[test]
fn what_is_no_command_is_refused() {
    for (line, word) in [
        ("", "signals.a.command: found nothing"),
        ("command = []", "an empty list"),
        ("command = \"lag.sh orders\"", "no shell takes a command apart"),
        ("command = [\"\"]", "an empty text"),
        (
            "command = [\"lag\", 3]",
            "signals.a.command[1]: found a whole number",
        ),
        ("command = [\"lag\", \"\\u0000\"]", "a zero byte"),
        ("command = [\"~/lag.sh\"]", "`~` is not expanded"),
        ("command = [\"lag\"]\ndeadline = 5", "add the unit"),
        ("command = [\"lag\"]\nurl = \"http://x\"", "an unknown key"),
        ("command = [\"lag\"]\nenv = { A = \"b\" }", "an unknown key"),
    ] {
        let said = said(line);
        assert!(said.contains(word), "{line}: {said}");
    }
}
