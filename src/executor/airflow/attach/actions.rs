//! The levers themselves.

use super::super::executor::Inner;
use crate::{
    domain::{
        attach::{Action, Asked},
        ids::ChunkId,
    },
    executor::attach::{Next, Target},
    net::{AdapterError, Cause},
};

pub(super) async fn next(inner: &Inner, _: &Target, _: &Asked) -> Result<Next, AdapterError> {
    Err(inner.error("name the next step", Cause::Local, "not merged yet"))
}

pub(super) async fn perform(inner: &Inner, _: &Target, _: &str) -> Result<String, AdapterError> {
    Err(inner.error("act", Cause::Local, "not merged yet"))
}

pub(super) async fn dry_run(inner: &Inner, _: &Target, _: &Action) -> Result<Vec<ChunkId>, AdapterError> {
    Err(inner.error("preview", Cause::Local, "not merged yet"))
}
