//! Proof 8: guards at ten times what is promised, on an unoptimised build. `cargo bench --bench screen` measures the
//! promise itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

#[path = "pty/century.rs"]
mod century;
#[path = "pty/frames.rs"]
mod frames;

use century::{CHUNKS, Century, DONE, cursor_day, is_complete};
use frames::Frames;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

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
    let at_rest = key_to_frame(&mut screen);
    let over = AtomicBool::new(false);
    let at_work = thread::scope(|scope| {
        scope.spawn(|| century.work(Duration::from_millis(50), &over));
        screen.until("days that ended meanwhile", |text| text.contains("▪ done 24.4k"));
        let at_work = key_to_frame(&mut screen);
        over.store(true, Ordering::SeqCst);
        at_work
    });
    eprintln!("first frame {first:?}, key to frame {at_rest:?}, while chunks end {at_work:?}");
    assert!(
        first < Duration::from_secs(5),
        "first frame after {first:?}: {course}"
    );
    for middle in [at_rest, at_work] {
        assert!(middle < Duration::from_millis(160), "key to frame {middle:?}");
    }
    if let Some(memory) = screen.peak_memory() {
        eprintln!("at most {} MB", memory / 1_000_000);
        assert!(memory < 1_000_000_000, "{memory} bytes");
    }
    screen.quit();
}

/// The middle of many keys that move the cursor by a day.
fn key_to_frame(screen: &mut Frames) -> Duration {
    let mut day = cursor_day(&screen.text()).unwrap();
    let stroke = |_| {
        day = day.succ_opt().unwrap();
        let struck = screen.keys("j");
        screen.until("the next day", |text| cursor_day(text) == Some(day)) - struck
    };
    let mut took: Vec<Duration> = (0..21).map(stroke).collect();
    took.sort_unstable();
    took[took.len() / 2]
}
