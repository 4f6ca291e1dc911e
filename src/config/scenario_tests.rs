use super::*;

const TOY: &str = r#"
duration = "36h"
seed = 7
[backfill]
chunks = 3000
max_limit = 16
chunk_minutes = { median = 10, sigma = 0.5 }
heavy = [{ every = 365, factor = 50 }]
failure_rate = 0.02
[consumer]
rate = 1000
day_swing = 0.35
noise = [[0.04, "60s"], [0.02, "30m"]]
capacity = 1750
cost_per_chunk = 70
[signal]
unit = "seconds"
soft = 60
hard = 180
critical = 900
[[incidents]]
at = "10h"
for = "2h"
capacity_factor = 0.6
[[incidents]]
at = "12h"
for = "20m"
metric = "frozen"
[[other_loads]]
load = 210
least = "12m"
most = "68m"
"#;

fn parse(text: &str) -> Result<Scenario, ConfigErrors> {
    Scenario::parse(text, Path::new("toy.toml"))
}

fn told(text: &str) -> String {
    parse(text).unwrap_err().lines().join("\n")
}

#[test]
fn every_key_is_read_and_what_is_left_away_has_its_default() {
    let toy = parse(TOY).unwrap();
    assert_eq!(
        (toy.duration, toy.seed, toy.tick),
        (HOUR * 36, 7, Duration::from_secs(15))
    );
    let work = &toy.backfill;
    assert_eq!(
        (work.chunks, work.max_limit, work.sigma, work.failure_rate),
        (3000, 16, 0.5, 0.02)
    );
    assert_eq!(work.median, Duration::from_secs(600));
    assert_eq!(
        work.heavy,
        [Heavy {
            every: 365,
            factor: 50.0
        }]
    );
    let consumer = &toy.consumer;
    assert_eq!(
        consumer.noise,
        [(0.04, Duration::from_secs(60)), (0.02, HOUR / 2)]
    );
    assert_eq!(
        (consumer.day_peak, consumer.metric_delay),
        (HOUR * 14, Duration::from_secs(30))
    );
    assert_eq!((toy.signal.low, toy.signal.soft), (30.0, 60.0));
    let [first, second] = toy.incidents.as_slice() else {
        panic!("{:?}", toy.incidents);
    };
    assert_eq!(
        (first.capacity_factor, first.metric, first.lasts),
        (0.6, None, HOUR * 2)
    );
    assert_eq!(
        (second.capacity_factor, second.metric),
        (1.0, Some(Fault::Frozen))
    );
    assert_eq!(toy.other_loads.len(), 1);
}

#[test]
fn a_key_that_nobody_knows_is_refused_with_its_place_and_the_nearest_name() {
    let text = TOY.replace("day_swing", "day_swnig");
    assert!(
        told(&text).contains("toy.toml:12:1: consumer.day_swnig: found an unknown key"),
        "{}",
        told(&text)
    );
    assert!(told(&text).contains("day_swing"));
    let text = TOY.replace("metric = \"frozen\"", "metric = \"frosen\"");
    assert!(
        told(&text).contains("did you mean \"frozen\"?"),
        "{}",
        told(&text)
    );
}

#[test]
fn thresholds_out_of_order_and_incidents_without_effect_are_refused() {
    let text = TOY.replace("hard = 180", "hard = 18");
    assert!(
        told(&text).contains("low < soft < hard < critical"),
        "{}",
        told(&text)
    );
    let text = TOY.replace("capacity_factor = 0.6\n", "");
    assert!(
        told(&text).contains("an incident in which nothing happens"),
        "{}",
        told(&text)
    );
    let text = TOY.replace("least = \"12m\"", "least = \"2h\"");
    assert!(told(&text).contains("less than least"), "{}", told(&text));
}

#[test]
fn everything_that_is_missing_is_told_in_one_pass() {
    let all = told("seed = 1\n[backfill]\nchunks = 3\n");
    for key in [
        "duration",
        "backfill.max_limit",
        "backfill.chunk_minutes",
        "consumer",
        "signal",
    ] {
        assert!(all.contains(&format!("{key}: found nothing")), "{key}\n{all}");
    }
}

/// Each would cost a share of every step of every seed: hours, without a word.
#[test]
fn lists_that_are_too_long_to_be_played_are_refused_once_with_place_bound_and_remedy() {
    let with = |n: usize, one: &str| format!("{TOY}{}", one.repeat(n));
    let incident = "[[incidents]]\nat = \"1h\"\nfor = \"1h\"\nmetric = \"nan\"\n";
    // Two are there already.
    assert_eq!(parse(&with(19_998, incident)).unwrap().incidents.len(), 20_000);
    let all = told(&with(19_999, incident));
    assert_eq!(all.lines().count(), 1, "{all}");
    assert!(
        all.contains(
            "incidents: found 20001 of them, expected at most 20000; each one costs time in every run"
        ),
        "{all}"
    );
    assert!(all.starts_with("toy.toml:21:1: "), "{all}");
    let load = "[[other_loads]]\nload = 1\nleast = \"1s\"\nmost = \"1s\"\n";
    assert_eq!(parse(&with(99, load)).unwrap().other_loads.len(), 100);
    let all = told(&with(100, load));
    assert!(
        all.contains("other_loads: found 101 of them, expected at most 100"),
        "{all}"
    );
    let noise = |n: usize| {
        let parts = vec!["[0.01, \"60s\"]"; n].join(", ");
        TOY.replace("[[0.04, \"60s\"], [0.02, \"30m\"]]", &format!("[{parts}]"))
    };
    assert_eq!(parse(&noise(10)).unwrap().consumer.noise.len(), 10);
    let all = told(&noise(11));
    assert!(
        all.contains("consumer.noise: found 11 of them, expected at most 10"),
        "{all}"
    );
}
