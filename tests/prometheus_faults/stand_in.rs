//! A server of bare sockets, which can do what no HTTP library would.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// `POST /api/v1/query HTTP/1.1`.
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// A field of the form, decoded.
    pub fn field(&self, name: &str) -> Option<String> {
        let url = reqwest::Url::parse(&format!("http://x/?{}", self.body)).unwrap();
        url.query_pairs()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.into_owned())
    }
}

/// The server; it ends with the test process.
pub struct StandIn {
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl StandIn {
    /// Hands each request and its connection to `act`, each on a thread of its own, and closes it afterwards.
    pub fn acting(act: impl Fn(&Seen, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, act) = (Arc::clone(&seen), Arc::new(act));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, act) = (Arc::clone(&log), Arc::clone(&act));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    if let Some(request) = request_of(&mut stream) {
                        log.lock().unwrap().push(request.clone());
                        act(&request, &mut stream);
                    }
                });
            }
        });
        Self { url, seen }
    }

    /// Answers each request with a status, further header lines and a body.
    pub fn answering(answer: impl Fn(&Seen) -> (u16, String, String) + Send + Sync + 'static) -> Self {
        Self::acting(move |seen, stream| {
            let (status, headers, body) = answer(seen);
            let head = format!(
                "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(body.as_bytes()));
        })
    }

    /// Always the same JSON with status 200.
    pub fn saying(body: &str) -> Self {
        let body = body.to_owned();
        Self::answering(move |_| (200, JSON.to_owned(), body.clone()))
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

pub const JSON: &str = "Content-Type: application/json\r\n";

fn request_of(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut block = [0; 4096];
        let n = stream.read(&mut block).ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&block[..n]);
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|l| l.split_once(": "))
        .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
        .collect();
    let mut seen = Seen {
        line,
        headers,
        body: String::new(),
    };
    let length: usize = seen.header("content-length").map_or(0, |l| l.parse().unwrap());
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        let mut block = [0; 4096];
        let n = stream.read(&mut block).ok().filter(|n| *n > 0)?;
        body.extend_from_slice(&block[..n]);
    }
    seen.body = String::from_utf8_lossy(&body).into_owned();
    Some(seen)
}
