//! The whole program, as an operator at the other end of a line sees it. The terminal answers no question, so that the
//! first frame includes the wait for a background colour that is never told.

use super::{
    frames::Frames,
    world::{CHUNKS, Century, cursor_day, is_complete},
};
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// The terminal's size.
const SIZE: (u16, u16) = (200, 60);
/// How often the program is started.
const STARTS: usize = 30;
/// How many keys are struck.
const KEYS: usize = 300;
/// Between two keys: what a key repeat does, and out of step with the screen's own looks at the journal.
const BETWEEN: Duration = Duration::from_millis(33);
/// Between two chunks that end while keys are struck.
const WORK: Duration = Duration::from_millis(100);

const FIRST_FRAME: Duration = Duration::from_millis(500);
const KEY_TO_FRAME: Duration = Duration::from_millis(16);
const MEMORY: u64 = 100_000_000;

/// Measures and prints.
pub fn measure() {
    let world = Century::make();
    let config = world.config();
    println!(
        "the program with {CHUNKS} chunks in its journal, at {} x {}",
        SIZE.0, SIZE.1
    );

    let starts = (0..STARTS).map(|_| {
        let mut screen = start(&config);
        let shown = screen.until("the calendar", is_complete);
        let took = shown - screen.started();
        screen.quit();
        took
    });
    report("start to first frame", starts.collect(), FIRST_FRAME);

    let mut screen = start(&config);
    screen.until("the calendar", is_complete);
    report("key to frame, at rest", keys(&mut screen), KEY_TO_FRAME);

    let over = AtomicBool::new(false);
    let busy = thread::scope(|scope| {
        scope.spawn(|| world.work(WORK, &over));
        let busy = keys(&mut screen);
        over.store(true, Ordering::SeqCst);
        busy
    });
    report("key to frame, 10 chunks/s end", busy, KEY_TO_FRAME);

    if let Some(memory) = screen.peak_memory() {
        let megabytes = memory / 1_000_000;
        let verdict = if memory < MEMORY { "holds" } else { "TOO MUCH" };
        println!(
            "{:<32}{megabytes:>8} MB    bound {:>5} MB  {verdict}",
            "memory at most",
            MEMORY / 1_000_000
        );
    }
    screen.quit();
    println!();
}

fn start(config: &Path) -> Frames {
    let program = env!("CARGO_BIN_EXE_backfill");
    Frames::start(SIZE.0, SIZE.1, &[program, "--config", config.to_str().unwrap()])
}

/// Moves the cursor a day at a time, back and forth, and waits each time for the frame that says so.
fn keys(screen: &mut Frames) -> Vec<Duration> {
    let mut day = cursor_day(&screen.text()).unwrap();
    let stroke = |n| {
        thread::sleep(BETWEEN);
        let (key, next) = if n % 40 < 20 {
            ("j", day.succ_opt())
        } else {
            ("k", day.pred_opt())
        };
        day = next.unwrap();
        let struck = screen.keys(key);
        let shown = screen.until("the day that was moved to", |text| cursor_day(text) == Some(day));
        shown - struck
    };
    (0..KEYS).map(stroke).collect()
}

/// The bound is for the slowest of a hundred.
fn report(what: &str, mut took: Vec<Duration>, bound: Duration) {
    took.sort_unstable();
    let of = |hundredths: usize| took[(took.len() * hundredths / 100).min(took.len() - 1)];
    let ms = |d: Duration| d.as_secs_f64() * 1000.0;
    let verdict = if of(99) < bound { "holds" } else { "TOO LONG" };
    println!(
        "{what:<32}p50 {:>7.1} ms  p99 {:>7.1} ms  bound {:>5} ms  {verdict}",
        ms(of(50)),
        ms(of(99)),
        bound.as_millis()
    );
}
