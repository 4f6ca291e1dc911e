//! Proof 8: guards at ten times what is promised, on an unoptimised build. `cargo bench --bench screen` measures the
//! promise itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

#[path = "pty/century.rs"]
mod century;
#[path = "pty/frames.rs"]
mod frames;

use century::{CHUNKS, Century, DONE, cursor_day, is_complete};
use frames::Frames;
use std::time::Duration;

/// The promise is 500 ms to the first frame, 16 ms from key to frame, and 100 MB.
#[test]
fn with_36_500_chunks_the_first_frame_each_key_and_memory_stay_within_ten_times_the_promise() {
    assert_eq!((CHUNKS, DONE), (36_500, 24_333));
    let century = Century::make();
    let config = century.config();
    let words = [
        env!("CARGO_BIN_EXE_backfill"),
        "--config",
        config.to_str().unwrap(),
    ];
    let mut screen = Frames::start(200, 60, &words);
    let shown = screen.until("the calendar", is_complete);
    let first = shown - screen.started();
    let course = format!("{:?}", screen.pieces());
    let mut day = cursor_day(&screen.text()).unwrap();
    let mut keys = Vec::new();
    for _ in 0..21 {
        day = day.succ_opt().unwrap();
        let struck = screen.keys("j");
        let shown = screen.until("the next day", |text| cursor_day(text) == Some(day));
        keys.push(shown - struck);
    }
    keys.sort_unstable();
    let middle = keys[keys.len() / 2];
    eprintln!(
        "first frame {first:?}, key to frame {middle:?}, slowest {:?}",
        keys[20]
    );
    assert!(
        first < Duration::from_secs(5),
        "first frame after {first:?}: {course}"
    );
    assert!(middle < Duration::from_millis(160), "key to frame {middle:?}");
    if let Some(memory) = screen.peak_memory() {
        eprintln!("at most {} MB", memory / 1_000_000);
        assert!(memory < 1_000_000_000, "{memory} bytes");
    }
    screen.quit();
}
