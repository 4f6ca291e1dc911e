//! What stands between the program and a server: it counts requests, and can stand in their way.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

/// What it does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// They go through.
    Open,
    /// They wait, and so do answers that are on their way.
    Held,
    /// They are answered with 503 by itself.
    Storm,
}

/// A proxy of one server. Dropping it lets everything through.
pub struct Proxy {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    way: Mutex<Way>,
    changed: Condvar,
    /// First lines of requests, with the moment in which they came.
    seen: Mutex<Vec<(Instant, String)>>,
}

impl Proxy {
    pub fn before(url: &str) -> Self {
        let server = url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            way: Mutex::new(Way::Open),
            changed: Condvar::new(),
            seen: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (shared, server) = (Arc::clone(&served), server.clone());
                std::thread::spawn(move || drop(shared.carry(client, &server)));
            }
        });
        Self { url, shared }
    }

    pub fn set(&self, way: Way) {
        *self.shared.way.lock().unwrap() = way;
        self.shared.changed.notify_all();
    }

    /// First lines of the requests that came since a moment.
    pub fn seen_since(&self, moment: Instant) -> Vec<String> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter()
            .filter(|(at, _)| *at >= moment)
            .map(|(_, line)| line.clone())
            .collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Way::Open);
    }
}

impl Shared {
    fn way(&self) -> Way {
        *self.way.lock().unwrap()
    }

    /// The way, when it is not that of waiting.
    fn wait(&self) -> Way {
        let way = self.way.lock().unwrap();
        *self.changed.wait_while(way, |way| *way == Way::Held).unwrap()
    }

    /// Carries one connection, piece by piece: a request begins a piece of its own.
    fn carry(self: Arc<Self>, mut client: TcpStream, server: &str) -> std::io::Result<()> {
        let mut piece = vec![0; 1 << 16];
        let mut upstream: Option<TcpStream> = None;
        loop {
            let length = client.read(&mut piece)?;
            if length == 0 {
                break;
            }
            let piece = &piece[..length];
            self.note(piece);
            match self.wait() {
                Way::Storm => return refuse(&mut client),
                Way::Open | Way::Held => {}
            }
            let stream = match &mut upstream {
                Some(stream) => stream,
                None => {
                    let stream = TcpStream::connect(server)?;
                    let (shared, back) = (Arc::clone(&self), (stream.try_clone()?, client.try_clone()?));
                    std::thread::spawn(move || drop(shared.carry_back(back.0, back.1)));
                    upstream.insert(stream)
                }
            };
            stream.write_all(piece)?;
        }
        if let Some(stream) = upstream {
            stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    fn carry_back(&self, mut server: TcpStream, mut client: TcpStream) -> std::io::Result<()> {
        let mut piece = vec![0; 1 << 16];
        loop {
            let length = server.read(&mut piece)?;
            self.wait();
            if length == 0 {
                return client.shutdown(Shutdown::Both);
            }
            client.write_all(&piece[..length])?;
        }
    }

    fn note(&self, piece: &[u8]) {
        let text = String::from_utf8_lossy(piece);
        let line = text.lines().next().unwrap_or_default();
        if let Some(line) = line.strip_suffix(" HTTP/1.1") {
            self.seen.lock().unwrap().push((Instant::now(), line.to_owned()));
        }
    }
}

fn refuse(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/html\r\ncontent-length: 35\r\nconnection: close\r\n\r\n\
          <html><title>no upstream</title>   ",
    )?;
    client.shutdown(Shutdown::Write)?;
    // Closed with something unread, it would be reset before the answer is read.
    client.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut rest = [0; 4096];
    while client.read(&mut rest)? > 0 {}
    Ok(())
}
