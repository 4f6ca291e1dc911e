//! A lag endpoint that a test can turn: it relays to a real Prometheus, answers for one, or fails.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

/// What the endpoint does with the next request.
#[derive(Debug, Clone)]
pub enum Mode {
    /// Hands it to the server at this `host:port`.
    Relay(String),
    /// Answers as a Prometheus with this lag, measured just now.
    Lag(f64),
    /// Answers with a status and no body to use.
    Status(u16),
}

/// The endpoint; it ends with the test process.
pub struct LagEndpoint {
    pub url: String,
    mode: Arc<Mutex<Mode>>,
    /// The lag of the next answer only.
    spike: Arc<Mutex<Option<f64>>>,
}

impl LagEndpoint {
    pub fn new(first: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mode = Arc::new(Mutex::new(first));
        let turned = Arc::clone(&mode);
        let spike = Arc::new(Mutex::new(None));
        let next = Arc::clone(&spike);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let once = next.lock().unwrap().take();
                let mode = once.map_or_else(|| turned.lock().unwrap().clone(), Mode::Lag);
                std::thread::spawn(move || answer(stream, &mode));
            }
        });
        Self { url, mode, spike }
    }

    /// Answers once with this lag, and then as before. Returns when that has happened.
    pub fn spike(&self, lag: f64) {
        self.spike.lock().unwrap().replace(lag);
        while self.spike.lock().unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn turn(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }
}

/// One request a connection.
fn answer(mut stream: TcpStream, mode: &Mode) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let request = read_request(&mut stream)?;
    match mode {
        Mode::Relay(to) => {
            let mut server = TcpStream::connect(to).ok()?;
            let text = String::from_utf8_lossy(&request);
            let (line, rest) = text.split_once("\r\n")?;
            let closing = format!("{line}\r\nConnection: close\r\n{rest}");
            server.write_all(closing.as_bytes()).ok()?;
            std::io::copy(&mut server, &mut stream).ok()?;
        }
        Mode::Lag(value) => {
            let now = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_secs_f64();
            let part = |name: &str, value: f64| {
                format!("{{\"metric\":{{\"backfill_q\":\"{name}\"}},\"value\":[{now:.3},\"{value:.3}\"]}}")
            };
            let parts = [part("value", *value), part("age", now)].join(",");
            let body = format!(
                "{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":[{parts}]}}}}"
            );
            respond(&mut stream, 200, &body)?;
        }
        Mode::Status(status) => respond(&mut stream, *status, "out of order")?,
    }
    Some(())
}

fn respond(stream: &mut TcpStream, status: u16, body: &str) -> Option<()> {
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}

fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut block = [0; 4096];
    loop {
        let n = stream.read(&mut block).ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&block[..n]);
        let Some(head) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let length: usize = text
            .split("\r\n")
            .find_map(|l| l.strip_prefix("content-length: "))
            .map_or(0, |l| l.trim().parse().unwrap());
        if bytes.len() >= head + 4 + length {
            return Some(bytes);
        }
    }
}
