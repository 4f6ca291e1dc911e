//! The lifetime that a token states about itself. Its signature is the server's business.

use serde::Deserialize;
use std::time::Duration;

/// What a token says about its time, in Unix seconds of the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claims {
    /// When it was made, if it tells.
    pub(super) issued: Option<i64>,
    /// When it ends.
    pub(super) expires: i64,
}

impl Claims {
    /// How long it is good from the moment of its making; `now` stands in for that moment where the token does not
    /// tell. `None` if that is no time at all.
    pub(super) fn lifetime(self, now: i64) -> Option<Duration> {
        let from = self.issued.unwrap_or(now);
        let seconds = u64::try_from(self.expires.checked_sub(from)?).ok()?;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

/// Reads a token's claims; `None` if it is no JWT or states no end.
pub(super) fn claims(token: &str) -> Option<Claims> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(default)]
        iat: Option<f64>,
        exp: f64,
    }
    let mut parts = token.split('.');
    let payload = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(payload), Some(_), None) => payload,
        _ => return None,
    };
    let wire: Wire = serde_json::from_slice(&base64url(payload)?).ok()?;
    Some(Claims {
        issued: wire.iat.map(|at| at as i64),
        expires: wire.exp as i64,
    })
}

/// Decodes base64 in its url form, without padding, as a JWT has it.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in text.trim_end_matches('=').bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from((bits >> held) & 0xff).ok()?);
            bits &= (1 << held) - 1;
        }
    }
    // Six bits alone are no byte.
    (held < 6).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_token_is_read_from_its_payload() {
        // {"sub":"admin","iat":1796000000,"exp":1796086400}
        let token =
            "eyJhbGciOiJIUzUxMiJ9.eyJzdWIiOiJhZG1pbiIsImlhdCI6MTc5NjAwMDAwMCwiZXhwIjoxNzk2MDg2NDAwfQ.c2ln";
        let read = claims(token).unwrap();
        assert_eq!((read.issued, read.expires), (Some(1_796_000_000), 1_796_086_400));
        assert_eq!(read.lifetime(0), Some(Duration::from_secs(86_400)));
    }

    #[test]
    fn what_is_no_token_with_an_end_states_nothing() {
        for text in ["", "opaque", "a.b", "a.b.c.d", "a.!!.c", "a.e30.c", "a.AAAAA.c"] {
            assert_eq!(claims(text), None, "{text}");
        }
    }

    #[test]
    fn a_token_that_ended_before_it_began_has_no_lifetime() {
        let claims = Claims {
            issued: None,
            expires: 100,
        };
        assert_eq!(claims.lifetime(100), None);
        assert_eq!(claims.lifetime(i64::MIN), None);
        assert_eq!(claims.lifetime(40), Some(Duration::from_secs(60)));
    }
}
