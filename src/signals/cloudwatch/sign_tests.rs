use super::*;
use chrono::TimeZone;
use rstest::rstest;

fn keys(token: Option<&str>) -> Keys {
    Keys {
        access: "AKIDEXAMPLE".to_owned(),
        secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
        token: token.map(|t| Secret::new(t.to_owned())),
    }
}

/// The token of AWS's own tests.
const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIY\
                     RqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDv\
                     p75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOL\
                     n9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

/// The vectors of AWS's Signature Version 4 test suite, by their names there.
#[rstest]
#[case::get_vanilla("GET", &[], "", None, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31")]
#[case::post_vanilla("POST", &[], "", None, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b")]
#[case::post_header_key_sort(
    "POST", &[("my-header1", "value1")], "", None,
    "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"
)]
#[case::post_header_value_case(
    "POST", &[("my-header1", "VALUE1")], "", None,
    "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"
)]
#[case::get_header_value_trim(
    "GET", &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")], "", None,
    "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"
)]
#[case::post_x_www_form_urlencoded(
    "POST", &[("content-type", "application/x-www-form-urlencoded")], "Param1=value1", None,
    "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
)]
#[case::post_sts_header_before(
    "POST", &[], "", Some(TOKEN),
    "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"
)]
fn requests_are_signed_as_in_awss_own_test_suite(
    #[case] method: &str,
    #[case] further: &[(&str, &str)],
    #[case] body: &str,
    #[case] token: Option<&str>,
    #[case] signature: &str,
) {
    let mut headers = vec![("host", "example.amazonaws.com")];
    headers.extend_from_slice(further);
    let request = Unsigned {
        method,
        headers: &headers,
        body,
    };
    let scope = Scope {
        region: "us-east-1",
        service: "service",
    };
    let at = Utc.with_ymd_and_hms(2015, 8, 30, 12, 36, 0).unwrap();
    let signed = sign(request, &keys(token), scope, at);
    assert_eq!(signed.date, "20150830T123600Z");
    let text = signed.authorization.reveal();
    let begin =
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.ends_with(&format!("Signature={signature}")), "{text}");
}

/// Made with another implementation, AWS's own for Python, with its clock stopped.
#[rstest]
#[case::lasting(
    None,
    "content-type;host;x-amz-date;x-amz-target",
    "2cf4a40b0ba266452db24f4f933a56b22448fa929319be67d1e7794a1b3bedee"
)]
#[case::temporary(
    Some("a-token/with+signs=="),
    "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
    "7b92025623d73b92dbb11f1dda103f52ffcc36d853d9ccf3dedb260307472184"
)]
fn our_request_is_signed_as_another_program_signs_it(
    #[case] token: Option<&str>,
    #[case] names: &str,
    #[case] signature: &str,
) {
    let headers = [
        ("x-amz-target", "GraniteServiceVersion20100801.GetMetricData"),
        ("host", "monitoring.eu-central-1.amazonaws.com"),
        ("content-type", "application/x-amz-json-1.0"),
    ];
    let request = Unsigned {
        method: "POST",
        headers: &headers,
        body: "{\"StartTime\":1}",
    };
    let scope = Scope {
        region: "eu-central-1",
        service: "monitoring",
    };
    let at = Utc.with_ymd_and_hms(2026, 11, 30, 3, 12, 0).unwrap();
    let signed = sign(request, &keys(token), scope, at);
    let expected = format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/eu-central-1/monitoring/aws4_request, \
         SignedHeaders={names}, Signature={signature}"
    );
    assert_eq!(signed.authorization.reveal(), expected);
}
