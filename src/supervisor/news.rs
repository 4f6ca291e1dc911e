//! What the loop waits for: its inbox, in batches.

use super::core::Input;
use crate::executor::SubmitAnswer;
use std::time::{Duration, Instant};
use tokio::{runtime::Handle, sync::mpsc::UnboundedReceiver};

/// Most inputs taken into one batch.
const BATCH: usize = 500;
/// How long the news that a run began waits for other news, to share one wait for the disk with it: the end of a short
/// chunk comes within this time. Nothing is decided by a beginning, and its executor knows of it.
const COMPANY: Duration = Duration::from_millis(10);

/// Waits for news, at most this long, and takes what is there.
pub fn wait(inbox: &mut UnboundedReceiver<Input>, runtime: &Handle, at_most: Duration) -> Vec<Input> {
    let mut inputs = Vec::new();
    take(inbox, runtime, at_most, &mut inputs);
    let until = Instant::now() + COMPANY;
    while !inputs.is_empty() && inputs.iter().all(only_began) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !take(inbox, runtime, left, &mut inputs) {
            break;
        }
    }
    inputs
}

/// Waits for one input and takes what else is there; `false` if none came.
fn take(
    inbox: &mut UnboundedReceiver<Input>,
    runtime: &Handle,
    at_most: Duration,
    inputs: &mut Vec<Input>,
) -> bool {
    let first = runtime.block_on(async { tokio::time::timeout(at_most, inbox.recv()).await });
    let Some(first) = first.ok().flatten() else {
        return false;
    };
    inputs.push(first);
    while inputs.len() < BATCH
        && let Ok(input) = inbox.try_recv()
    {
        inputs.push(input);
    }
    true
}

/// Whether this is the news that a run began, and nothing else.
const fn only_began(input: &Input) -> bool {
    matches!(input, Input::Submitted(_, SubmitAnswer::Accepted { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::ids::ExternalId, executor::RunUpdate};
    use tokio::sync::mpsc::unbounded_channel;

    fn began() -> Input {
        let run = ExternalId("r".to_owned());
        let answer = SubmitAnswer::Accepted { run, running: true };
        Input::Submitted("orders-sgxgeb/2023-01-01/1".parse().unwrap(), answer)
    }

    fn ended() -> Input {
        let why = "gone".to_owned();
        Input::Run(
            "orders-sgxgeb/2023-01-01/1".parse().unwrap(),
            RunUpdate::Uncertain { why },
        )
    }

    #[test]
    fn a_beginning_goes_to_the_disk_with_the_end_that_follows_it() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (send, mut inbox) = unbounded_channel();
        send.send(began()).unwrap();
        send.send(began()).unwrap();
        send.send(ended()).unwrap();
        let long = Duration::from_secs(60);
        assert_eq!(wait(&mut inbox, runtime.handle(), long).len(), 3);
    }

    #[test]
    fn a_beginning_that_nothing_follows_goes_alone() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (send, mut inbox) = unbounded_channel();
        send.send(began()).unwrap();
        let long = Duration::from_secs(60);
        assert_eq!(wait(&mut inbox, runtime.handle(), long).len(), 1);
        assert!(wait(&mut inbox, runtime.handle(), Duration::from_millis(1)).is_empty());
        drop(send);
        assert!(wait(&mut inbox, runtime.handle(), long).is_empty());
    }
}
