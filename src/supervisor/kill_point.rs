//! The places on the supervisor's way at which a test can have it die as if by SIGKILL (case B04).

use crate::domain::event::{NewEvent, Payload};
pub use crate::host::kill_point::reached;

/// Starts are decided and not durable.
pub const BEFORE_INTENTS: &str = "supervisor-before-intents";
/// Intents are durable, nothing was sent.
pub const INTENTS_APPENDED: &str = "supervisor-intents-appended";
/// A submission passed the gate and is about to leave.
pub const GATE_PASSED: &str = "supervisor-gate-passed";
/// The executor answered, and nothing of that is durable.
pub const ANSWERED: &str = "supervisor-answered";
/// The answer is durable.
pub const ANSWER_APPENDED: &str = "supervisor-answer-appended";

/// All places, in the order in which they are passed.
pub const ALL: [&str; 5] = [
    BEFORE_INTENTS,
    INTENTS_APPENDED,
    GATE_PASSED,
    ANSWERED,
    ANSWER_APPENDED,
];

/// A batch is about to be appended.
pub fn before_append(batch: &[NewEvent]) {
    if batch.iter().any(is_intent) {
        reached(BEFORE_INTENTS);
    }
}

/// A batch is durable.
pub fn after_append(batch: &[NewEvent]) {
    if batch.iter().any(is_intent) {
        reached(INTENTS_APPENDED);
    }
    if batch.iter().any(is_answer) {
        reached(ANSWER_APPENDED);
    }
}

const fn is_intent(event: &NewEvent) -> bool {
    matches!(event.payload, Payload::SubmissionIntended { .. })
}

const fn is_answer(event: &NewEvent) -> bool {
    matches!(
        event.payload,
        Payload::SubmissionAccepted { .. } | Payload::RunEnded { .. } | Payload::RunUncertain { .. }
    )
}
