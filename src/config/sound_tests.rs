//! What can be used of a file with faults, and when none of it may be.

use super::*;

const SOUND: &str = "[journal]\npath = \"night.db\"\n[executors.local]\nkind = \"local\"\nslots = 4\n";

fn of(text: &str) -> Result<Config, ConfigErrors> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    let read = Config::load_what_is_sound(&path);
    assert_eq!(
        Config::load(&path).is_ok(),
        read.as_ref().is_ok_and(|c| c.faults.is_none()),
        "a file is whole or it has faults: {text}"
    );
    read
}

#[test]
fn a_file_without_faults_is_read_as_ever() {
    let config = of(SOUND).unwrap();
    assert_eq!(config.faults, None);
    assert_eq!(config.executors.len(), 1);
}

#[test]
fn a_fault_anywhere_else_leaves_the_journal_and_what_is_sound() {
    for (fault, told) in [
        (
            "[executors.other]\nkind = \"local\"\nslotts = 4\n",
            "executors.other.slotts",
        ),
        ("[tuning]\nresume_hold = \"soon\"\n", "tuning.resume_hold"),
        ("[signal.orders]\n", "signal"),
        ("[screen]\ntheme = \"drak\"\n", "screen.theme"),
        ("[screen]\nglyphs = 5\n", "screen.glyphs"),
        ("[executors.other\nkind = \"local\"\n", ":6:17: syntax"),
        ("[executors.other]\nkind = local\n", "executors.other.kind"),
        ("[executors.local]\nkind = \"local\"\n", "executors.local"),
        (
            "[executors.other]\nkind = \"local\nslots = 3\n",
            "executors.other.kind",
        ),
    ] {
        let config = of(&format!("{SOUND}{fault}")).unwrap_or_else(|e| panic!("{fault}: {e}"));
        assert_eq!(config.journal.path.file_name().unwrap(), "night.db", "{fault}");
        assert!(config.executors.keys().any(|n| n.as_str() == "local"), "{fault}");
        let faults = config.faults.unwrap().to_string();
        assert!(faults.contains(told), "{fault}: {faults}");
        // Wherever in the file it stands.
        if let Ok(config) = of(&format!("{fault}{SOUND}")) {
            assert_eq!(config.journal.path.file_name().unwrap(), "night.db", "{fault}");
        }
    }
}

/// Acting on another journal than the one that is meant would be worse than not acting.
#[test]
fn where_the_journal_is_in_doubt_nothing_is_read() {
    for text in [
        // The path is not where it should be, or is none.
        "[jornal]\npath = \"night.db\"\n",
        "[journal]\npth = \"night.db\"\n",
        "[journal]\npath = 3\n",
        "[journal]\npath = \"night.db\"\ngroup = \"-x\"\n",
        "[journal\npath = \"night.db\"\n",
        "[journal]\npath = night.db\n",
        "[journal]\npath = \"night.db\n[executors.local]\nkind = \"local\"\n",
        "[journal]\npath = \"night.db\"\npath = \"day.db\"\n",
        "[journal]\npath = \"night.db\"\n[journal]\npath = \"day.db\"\n",
        "[screen]\ntheme = \"dark\"\n# [journal]\npath = \"night.db\"\n",
        "[executors.local]\nkind = \"local\"\nslots = 2\ngroup = \"ops\"\n",
        // A path that a broken header would move into its table.
        "[journal]\ngroup = \"ops\"\n[executors.local\npath = \"night.db\"\n",
        "[journal]\n[executors.local\npath = \"night.db\"\n",
        // Nothing says that there is no table of it in what cannot be read.
        "[executors.local\nkind = \"local\"\n",
        "text = \"\"\"\n[journal]\npath = \"night.db\"\n",
    ] {
        assert!(of(text).is_err(), "{text}");
    }
}

#[test]
fn any_damage_leaves_the_journal_that_was_written_or_none() {
    let text = format!("# at night\n{SOUND}[tuning]\nresume_hold = \"2m\"\n");
    for cut in 0..text.len() {
        for damage in ["", "\"", "[", "]", "=", "\n", "#", "'''"] {
            let damaged = format!("{}{damage}{}", &text[..cut], &text[cut + 1..]);
            let written = damaged.contains("[journal]") && damaged.contains("path = \"night.db\"");
            if let Ok(config) = of(&damaged)
                && config.faults.is_some()
            {
                let is = config.journal.path.file_name().unwrap();
                assert!(is == "night.db" && written, "{damaged}\n{is:?}");
            }
        }
    }
}

/// As an editor or a full disk leaves it: nobody's journal, and no leave to forget every threshold.
#[test]
fn an_empty_file_is_no_configuration() {
    for text in ["", "\n\n", "# all of it\n# commented out\n"] {
        let told = of(text).unwrap_err().to_string();
        assert!(told.contains("found an empty file"), "{text:?}: {told}");
    }
}
