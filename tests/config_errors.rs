//! Every file in `tests/configs` is wrong. Its last lines, `# expect: LINE:COLUMN: ..`, state exactly what is said
//! about it: all of it, in this order, and nothing else.

use backfill::config::Config;
use std::{fs, path::PathBuf};

/// Case S29.
#[test]
fn every_faulty_file_is_refused_with_the_place_the_fault_and_the_remedy() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/configs");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    assert!(files.len() >= 25, "only {} files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let expected: Vec<&str> = text
            .lines()
            .filter_map(|l| l.strip_prefix("# expect: "))
            .collect();
        assert!(!expected.is_empty(), "{name} does not state its messages");
        let errors = Config::load(&path).unwrap_err();
        let prefix = format!("{}:", path.display());
        let said: Vec<String> = errors
            .lines()
            .iter()
            .map(|l| l.strip_prefix(&prefix).unwrap().to_owned())
            .collect();
        assert_eq!(said, expected, "{name}");
    }
}
