//! `backfill`: supervise a live data backfill from the terminal.
//!
//! A house with floors; a module imports only from floors below it (`tests/floors.rs` enforces it):
//! `domain`, `config` and `host` are the ground, then `plan`, `net`, then `journal`, `executor` and `signals`,
//! then `supervisor`, and on top `cli`, `tui` and `demo`.

pub mod cli;
pub mod config;
pub mod demo;
pub mod domain;
pub mod executor;
pub mod host;
pub mod journal;
pub mod net;
pub mod plan;
pub mod signals;
pub mod supervisor;
pub mod tui;
