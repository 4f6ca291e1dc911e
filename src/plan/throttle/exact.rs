//! Numbers in checkpoints as text that reads back to the very same bits, whatever the JSON parser's float mode is.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub(super) fn serialize<S: Serializer>(value: &f64, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(value)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    String::deserialize(d)?.parse().map_err(D::Error::custom)
}
