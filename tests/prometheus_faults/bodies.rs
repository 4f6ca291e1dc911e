//! Servers that hang, flood and break.

use super::{
    config, failed, good, read, source,
    stand_in::{JSON, StandIn},
    value,
};
use backfill::{config::HttpAuth, config::secret::SecretSource, net::Cause, signals::LagSource};
use rstest::rstest;
use std::{
    io::Write,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const DEADLINE: Duration = Duration::from_secs(2);

/// Reads with a deadline of two seconds and checks that it is kept within a fifth.
async fn timed_out(url: &str) -> backfill::net::AdapterError {
    let mut config = config(url);
    config.http.deadline = DEADLINE;
    let source = source(&config);
    let begun = Instant::now();
    let error = failed(source.read().await);
    let took = begun.elapsed();
    assert!(took <= DEADLINE.mul_f32(1.2), "{took:?}: {error}");
    assert_eq!(error.cause, Cause::Timeout, "{error}");
    assert!(took >= DEADLINE.mul_f32(0.75), "{took:?}: {error}");
    error
}

/// Case S02.
#[tokio::test]
async fn a_server_that_never_answers_is_left_at_the_deadline() {
    let server = StandIn::acting(|_, _| std::thread::sleep(Duration::from_secs(20)));
    let error = timed_out(&server.url).await;
    assert!(error.detail.contains("waiting for an answer"), "{error}");
}

/// Case S02.
#[tokio::test]
async fn a_body_that_drips_for_ever_is_left_at_the_deadline() {
    let server = StandIn::acting(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{");
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let error = timed_out(&server.url).await;
    assert!(error.detail.contains("reading the body"), "{error}");
}

/// Case S02.
#[tokio::test]
async fn a_handshake_that_never_ends_is_left_at_the_deadline() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = timed_out(&format!("https://{}", listener.local_addr().unwrap())).await;
    assert!(error.detail.contains("no connection in time"), "{error}");
}

/// Case S02.
#[tokio::test]
async fn a_token_command_that_hangs_does_not_hold_up_a_read_beyond_the_deadline() {
    let server = StandIn::saying(&good());
    let mut config = config(&server.url);
    config.http.deadline = DEADLINE;
    config.http.auth = Some(HttpAuth::Bearer(SecretSource::Command(vec![
        "sleep".into(),
        "4".into(),
    ])));
    let begun = Instant::now();
    let error = failed(read(&config).await);
    assert!(begun.elapsed() <= DEADLINE.mul_f32(1.2), "{:?}", begun.elapsed());
    assert!(error.detail.contains("fetching the credentials"), "{error}");
    assert!(server.seen().is_empty());
}

/// Case S02.
#[tokio::test]
async fn when_the_server_heals_the_next_read_has_a_value() {
    let sick = Arc::new(AtomicBool::new(true));
    let look = Arc::clone(&sick);
    let server = StandIn::acting(move |_, stream| {
        if look.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_secs(20));
        }
        let body = good();
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\n{JSON}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
    });
    let mut config = config(&server.url);
    config.http.deadline = Duration::from_secs(1);
    let source = source(&config);
    assert_eq!(failed(source.read().await).cause, Cause::Timeout);
    sick.store(false, Ordering::SeqCst);
    assert_eq!(value(source.read().await).0, 42.0);
}

/// 100 MB, with and without their length told.
#[rstest]
#[case("")]
#[case("Content-Length: 104857600\r\n")]
#[tokio::test]
async fn a_flood_is_refused_after_the_cap(#[case] header: &'static str) {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = StandIn::acting(move |_, stream| {
        let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{JSON}{header}\r\n").as_bytes());
        let block = vec![b' '; 1 << 16];
        for _ in 0..1600 {
            if stream.write_all(&block).is_err() {
                return;
            }
            count.fetch_add(block.len(), Ordering::SeqCst);
        }
    });
    let error = failed(read(&config(&server.url)).await);
    assert_eq!(error.cause, Cause::NotUnderstood, "{error}");
    assert!(error.detail.contains("more than 2.0 MiB"), "{error}");
    assert!(
        sent.load(Ordering::SeqCst) < 40 << 20,
        "the flood was read to its end"
    );
}

/// 100 MB of blanks that travel as 100 kB.
#[tokio::test]
async fn a_body_that_swells_when_unpacked_is_refused_after_the_cap() {
    let bomb = gzip("head -c 104857600 /dev/zero | gzip -c");
    assert!(bomb.len() < 1 << 20);
    let server = zipped(bomb);
    let error = failed(read(&config(&server.url)).await);
    assert_eq!(error.cause, Cause::NotUnderstood, "{error}");
    assert!(error.detail.contains("more than 2.0 MiB"), "{error}");
}

#[tokio::test]
async fn a_packed_answer_is_unpacked_and_a_broken_one_is_not_understood() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("answer");
    std::fs::write(&file, good()).unwrap();
    let packed = gzip(&format!("gzip -c {}", file.display()));
    let server = zipped(packed.clone());
    assert_eq!(value(read(&config(&server.url)).await).0, 42.0);
    assert!(
        server.seen()[0]
            .header("accept-encoding")
            .unwrap()
            .contains("gzip")
    );
    let mut broken = packed;
    let middle = broken.len() / 2;
    broken.truncate(middle);
    let error = failed(read(&config(&zipped(broken).url)).await);
    assert!(
        matches!(error.cause, Cause::NotUnderstood | Cause::Broken),
        "{error}"
    );
}

fn gzip(script: &str) -> Vec<u8> {
    let done = Command::new("sh")
        .args(["-c", script])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(done.status.success());
    done.stdout
}

fn zipped(body: Vec<u8>) -> StandIn {
    StandIn::acting(move |_, stream| {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{JSON}Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(&body));
    })
}

/// Case S04.
#[rstest]
#[case::no_http("SSH-2.0-OpenSSH_9.2\r\n", Cause::NotUnderstood)]
#[case::closed("", Cause::Broken)]
#[case::cut_off("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"status\"", Cause::Broken)]
#[tokio::test]
async fn a_connection_that_breaks_has_its_cause(#[case] bytes: &'static str, #[case] cause: Cause) {
    let server = StandIn::acting(move |_, stream| {
        let _ = stream.write_all(bytes.as_bytes());
    });
    let error = failed(read(&config(&server.url)).await);
    assert_eq!(error.cause, cause, "{error}");
}
